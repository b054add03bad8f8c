package promlimit

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlimit/fairlimit/internal/metrics"
)

// makeCounted makes what is counted as it happens. Series whose labels are known
// are there from the start, so that a rate sees their first step.
func (m *Metrics) makeCounted(labels prometheus.Labels) {
	permits := prometheus.NewCounterVec(counter(metrics.Permits, labels), []string{metrics.OutcomeLabel})
	for i, outcome := range metrics.Outcomes {
		m.permits[i] = permits.WithLabelValues(outcome)
	}
	m.questions = prometheus.NewCounterVec(
		counter(metrics.Questions, labels), []string{metrics.OpLabel, metrics.FailedLabel})
	for _, op := range metrics.Ops {
		m.questions.WithLabelValues(op, "false")
		m.questions.WithLabelValues(op, "true")
	}
	m.wait = histogram(metrics.WaitDuration, labels, metrics.WaitBounds)
	m.lateness = histogram(metrics.WakeLateness, labels, metrics.LatenessBounds)
	m.callers = histogram(metrics.QuestionCallers, labels, metrics.CallersBounds)
	m.pauses = prometheus.NewCounter(counter(metrics.Pauses, labels))
	m.losses = prometheus.NewCounter(counter(metrics.Losses, labels))
	m.settled = prometheus.NewCounterVec(
		counter(metrics.Settled, labels), []string{metrics.UnitLabel, metrics.PartLabel})
	m.counted = []prometheus.Collector{
		permits, m.questions, m.wait, m.lateness, m.callers, m.pauses, m.losses, m.settled,
	}
}

// makeLooked describes what a scrape looks at.
func (m *Metrics) makeLooked(labels prometheus.Labels) {
	describe := func(metric metrics.Metric, suffix string, more ...string) *prometheus.Desc {
		d := prometheus.NewDesc(named(metric)+suffix, metric.Help, more, labels)
		m.looked = append(m.looked, d)
		return d
	}
	m.waiting = describe(metrics.CallersWaiting, "")
	m.ahead = describe(metrics.PermitsAhead, "")
	m.remaining = describe(metrics.PauseRemaining, "")
	m.degraded = describe(metrics.Degraded, "")
	m.failures = describe(metrics.StatusFailures, "_total")
	m.queued = describe(metrics.QueuePermits, "")
	m.queueDelay = describe(metrics.QueueDelay, "")
	m.available = describe(metrics.Available, "")
	m.unitQueued = describe(metrics.UnitQueued, "", metrics.UnitLabel)
	m.unitAvailable = describe(metrics.UnitAvailable, "", metrics.UnitLabel)
}

func counter(metric metrics.Metric, labels prometheus.Labels) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: named(metric) + "_total", Help: metric.Help, ConstLabels: labels}
}

func histogram(metric metrics.Metric, labels prometheus.Labels, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: named(metric), Help: metric.Help, ConstLabels: labels, Buckets: bounds,
	})
}

// named is the name in the manner of Prometheus, as an exporter of OpenTelemetry
// translates it.
func named(metric metrics.Metric) string {
	name := strings.ReplaceAll(metric.Name, ".", "_")
	if metric.Unit == "s" {
		name += "_seconds"
	}
	return name
}
