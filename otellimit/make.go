package otellimit

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlimit/fairlimit/internal/tally"
)

// counted is the instruments of what is counted as it happens.
type counted struct {
	wait, lateness                     metric.Float64Histogram
	callers                            metric.Int64Histogram
	permits, questions, pauses, losses metric.Int64Counter
}

// looked is the instruments of what a collection looks at. Those of which the
// sum over all processes makes sense are UpDownCounters, the others Gauges.
type looked struct {
	waiting, ahead              metric.Int64ObservableUpDownCounter
	remaining, queueDelay       metric.Float64ObservableGauge
	degraded, queued, available metric.Int64ObservableGauge
	failures                    metric.Int64ObservableCounter
}

func (l looked) all() []metric.Observable {
	return []metric.Observable{
		l.waiting, l.ahead, l.remaining, l.queueDelay, l.degraded, l.queued, l.available, l.failures,
	}
}

// maker makes instruments. Err is the first error.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) counted() counted {
	return counted{
		wait:      m.seconds(tally.WaitDuration, tally.WaitBounds),
		lateness:  m.seconds(tally.WakeLateness, tally.LatenessBounds),
		callers:   m.histogram(tally.QuestionCallers, tally.CallersBounds),
		permits:   m.counter(tally.Permits),
		questions: m.counter(tally.Questions),
		pauses:    m.counter(tally.Pauses),
		losses:    m.counter(tally.Losses),
	}
}

func (m *maker) looked() looked {
	return looked{
		waiting:    m.sum(tally.CallersWaiting),
		ahead:      m.sum(tally.PermitsAhead),
		remaining:  m.time(tally.PauseRemaining),
		queueDelay: m.time(tally.QueueDelay),
		degraded:   m.gauge(tally.Degraded),
		queued:     m.gauge(tally.QueuePermits),
		available:  m.gauge(tally.Available),
		failures:   m.total(tally.StatusFailures),
	}
}

func (m *maker) seconds(t tally.Metric, bounds []float64) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, i, err)
}

func (m *maker) histogram(t tally.Metric, bounds []float64) metric.Int64Histogram {
	i, err := m.meter.Int64Histogram(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, i, err)
}

func (m *maker) counter(t tally.Metric) metric.Int64Counter {
	i, err := m.meter.Int64Counter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) total(t tally.Metric) metric.Int64ObservableCounter {
	i, err := m.meter.Int64ObservableCounter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) sum(t tally.Metric) metric.Int64ObservableUpDownCounter {
	i, err := m.meter.Int64ObservableUpDownCounter(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) gauge(t tally.Metric) metric.Int64ObservableGauge {
	i, err := m.meter.Int64ObservableGauge(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func (m *maker) time(t tally.Metric) metric.Float64ObservableGauge {
	i, err := m.meter.Float64ObservableGauge(t.Name, metric.WithUnit(t.Unit), metric.WithDescription(t.Help))
	return made(m, i, err)
}

func made[I any](m *maker, instrument I, err error) I {
	if m.err == nil {
		m.err = err
	}
	return instrument
}
