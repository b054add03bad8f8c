package otellimit

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlimit/fairlimit/internal/metrics"
)

// counted is the instruments of what is counted as it happens.
type counted struct {
	wait, lateness                     metric.Float64Histogram
	callers                            metric.Int64Histogram
	permits, questions, pauses, losses metric.Int64Counter
	settled                            metric.Int64Counter
}

// looked is the instruments of what a collection looks at. Those of which the
// sum over all processes makes sense are UpDownCounters, the others Gauges.
type looked struct {
	waiting, ahead              metric.Int64ObservableUpDownCounter
	remaining, queueDelay       metric.Float64ObservableGauge
	degraded, queued, available metric.Int64ObservableGauge
	unitQueued, unitAvailable   metric.Int64ObservableGauge
	failures                    metric.Int64ObservableCounter
}

func (l looked) all() []metric.Observable {
	return []metric.Observable{
		l.waiting, l.ahead, l.remaining, l.queueDelay, l.degraded, l.queued, l.available, l.failures,
		l.unitQueued, l.unitAvailable,
	}
}

// maker makes instruments. Err is the first error.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) counted() counted {
	return counted{
		wait:      m.seconds(metrics.WaitDuration, metrics.WaitBounds),
		lateness:  m.seconds(metrics.WakeLateness, metrics.LatenessBounds),
		callers:   m.histogram(metrics.QuestionCallers, metrics.CallersBounds),
		permits:   m.counter(metrics.Permits),
		questions: m.counter(metrics.Questions),
		pauses:    m.counter(metrics.Pauses),
		losses:    m.counter(metrics.Losses),
		settled:   m.counter(metrics.Settled),
	}
}

func (m *maker) looked() looked {
	return looked{
		waiting:    m.sum(metrics.CallersWaiting),
		ahead:      m.sum(metrics.PermitsAhead),
		remaining:  m.time(metrics.PauseRemaining),
		queueDelay: m.time(metrics.QueueDelay),
		degraded:   m.gauge(metrics.Degraded),
		queued:     m.gauge(metrics.QueuePermits),
		available:  m.gauge(metrics.Available),
		failures:   m.total(metrics.StatusFailures),

		unitQueued: m.gauge(metrics.UnitQueued), unitAvailable: m.gauge(metrics.UnitAvailable),
	}
}

func (m *maker) seconds(t metrics.Metric, bounds []float64) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, i, err)
}

func (m *maker) histogram(t metrics.Metric, bounds []float64) metric.Int64Histogram {
	i, err := m.meter.Int64Histogram(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, i, err)
}

func (m *maker) counter(t metrics.Metric) metric.Int64Counter {
	i, err := m.meter.Int64Counter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) total(t metrics.Metric) metric.Int64ObservableCounter {
	i, err := m.meter.Int64ObservableCounter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) sum(t metrics.Metric) metric.Int64ObservableUpDownCounter {
	i, err := m.meter.Int64ObservableUpDownCounter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) gauge(t metrics.Metric) metric.Int64ObservableGauge {
	i, err := m.meter.Int64ObservableGauge(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) time(t metrics.Metric) metric.Float64ObservableGauge {
	i, err := m.meter.Float64ObservableGauge(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func made[I any](m *maker, instrument I, err error) I {
	if m.err == nil {
		m.err = err
	}
	return instrument
}
