package promlimit

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlimit/fairlimit/internal/tally"
)

// makeCounted makes what is counted as it happens. Series whose labels are known
// are there from the start, so that a rate sees their first step.
func (m *Metrics) makeCounted(labels prometheus.Labels) {
	permits := prometheus.NewCounterVec(counter(tally.Permits, labels), []string{tally.OutcomeLabel})
	for i, outcome := range tally.Outcomes {
		m.permits[i] = permits.WithLabelValues(outcome)
	}
	m.questions = prometheus.NewCounterVec(counter(tally.Questions, labels), []string{tally.OpLabel, tally.FailedLabel})
	for _, op := range tally.Ops {
		m.questions.WithLabelValues(op, "false")
		m.questions.WithLabelValues(op, "true")
	}
	m.wait = histogram(tally.WaitDuration, labels, tally.WaitBounds)
	m.lateness = histogram(tally.WakeLateness, labels, tally.LatenessBounds)
	m.callers = histogram(tally.QuestionCallers, labels, tally.CallersBounds)
	m.pauses = prometheus.NewCounter(counter(tally.Pauses, labels))
	m.losses = prometheus.NewCounter(counter(tally.Losses, labels))
	m.counted = []prometheus.Collector{permits, m.questions, m.wait, m.lateness, m.callers, m.pauses, m.losses}
}

// makeLooked describes what a scrape looks at.
func (m *Metrics) makeLooked(labels prometheus.Labels) {
	describe := func(metric tally.Metric, suffix string) *prometheus.Desc {
		d := prometheus.NewDesc(named(metric)+suffix, metric.Help, nil, labels)
		m.looked = append(m.looked, d)
		return d
	}
	m.waiting = describe(tally.CallersWaiting, "")
	m.ahead = describe(tally.PermitsAhead, "")
	m.remaining = describe(tally.PauseRemaining, "")
	m.degraded = describe(tally.Degraded, "")
	m.failures = describe(tally.StatusFailures, "_total")
	m.queued = describe(tally.QueuePermits, "")
	m.queueDelay = describe(tally.QueueDelay, "")
	m.available = describe(tally.Available, "")
}

func counter(metric tally.Metric, labels prometheus.Labels) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: named(metric) + "_total", Help: metric.Help, ConstLabels: labels}
}

func histogram(metric tally.Metric, labels prometheus.Labels, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: named(metric), Help: metric.Help, ConstLabels: labels, Buckets: bounds,
	})
}

// named is the name in the manner of Prometheus, as an exporter of OpenTelemetry
// translates it.
func named(metric tally.Metric) string {
	name := strings.ReplaceAll(metric.Name, ".", "_")
	if metric.Unit == "s" {
		name += "_seconds"
	}
	return name
}
