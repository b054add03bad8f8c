package otellimit

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/metrics"
)

// Scope is the name of the meter, and of the instrumentation scope.
const Scope = "github.com/fairlimit/fairlimit/otellimit"

// ErrNilProvider is returned by [New] for a nil provider.
var ErrNilProvider = errors.New("otellimit: nil metric.MeterProvider")

// Metrics are the metrics of one limiter. [New] makes them, and [Metrics.Close]
// ends them. Any number of goroutines may use them. They hold no goroutine and
// no timer.
type Metrics struct {
	books        *metrics.Books
	name         string
	registration metric.Registration

	counters   map[*metrics.Metric]metric.Int64Counter      // counted as it happens
	histograms map[*metrics.Metric]metric.Float64Histogram  // likewise
	looked     map[*metrics.Metric]metric.Float64Observable // what a collection looks at
}

// New makes the metrics of one limiter. Name is the value of their attribute
// "limiter", which need not be the name that the limiter has in Redis. Two
// limiters of one name would overwrite each other.
//
// A nil provider is [ErrNilProvider]; other errors are the provider's.
func New(name string, provider metric.MeterProvider) (*Metrics, error) {
	if provider == nil {
		return nil, ErrNilProvider
	}
	m := &Metrics{
		name:       strings.ToValidUTF8(name, "\uFFFD"),
		counters:   map[*metrics.Metric]metric.Int64Counter{},
		histograms: map[*metrics.Metric]metric.Float64Histogram{},
		looked:     map[*metrics.Metric]metric.Float64Observable{},
	}
	m.books = metrics.New(meter{m})
	from := provider.Meter(Scope)
	var observed []metric.Observable
	for _, t := range metrics.All {
		if err := m.add(from, t); err != nil {
			return nil, err
		}
		if i := m.looked[t]; i != nil {
			observed = append(observed, i)
		}
	}
	var err error
	m.registration, err = from.RegisterCallback(m.observe, observed...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// add makes the instrument of a metric.
func (m *Metrics) add(from metric.Meter, t *metrics.Metric) (err error) {
	unit, help := metric.WithUnit(t.Unit), metric.WithDescription(t.Help)
	switch t.Kind {
	case metrics.Counter:
		m.counters[t], err = from.Int64Counter(t.Name, unit, help)
	case metrics.Histogram:
		bounds := metric.WithExplicitBucketBoundaries(t.Bounds...)
		m.histograms[t], err = from.Float64Histogram(t.Name, unit, help, bounds)
	case metrics.Total:
		m.looked[t], err = from.Float64ObservableCounter(t.Name, unit, help)
	case metrics.Sum:
		m.looked[t], err = from.Float64ObservableUpDownCounter(t.Name, unit, help)
	case metrics.Gauge:
		m.looked[t], err = from.Float64ObservableGauge(t.Name, unit, help)
	}
	return err
}

// with is the attributes of a metric: the limiter, and the labels.
func (m *Metrics) with(t *metrics.Metric, labels []string) metric.MeasurementOption {
	attributes := []attribute.KeyValue{attribute.String(metrics.LimiterLabel, m.name)}
	for i, value := range labels {
		attributes = append(attributes, attribute.String(t.Labels[i], value))
	}
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// Trace is what to give to [fairlimit.WithTrace]. Give it to one limiter only.
func (m *Metrics) Trace() *fairlimit.Trace { return m.books.Trace() }

// Watch lets each collection ask l for its Status, which gives the metrics of
// the queue. A collection waits a second for it. Without an answer those
// metrics are left out, and fairlimit.status.failures counts that. If l is nil,
// nothing is asked any more.
func (m *Metrics) Watch(l fairlimit.Limiter) { m.books.Watch(l) }

// Close makes collections stop asking for the callers that wait and for the
// state of the queue. Call it when the limiter is not used any more. Closing
// again does nothing.
func (m *Metrics) Close() error { return m.registration.Unregister() }

// observe is how things stand at one collection.
func (m *Metrics) observe(ctx context.Context, o metric.Observer) error {
	m.books.Look(ctx, func(t *metrics.Metric, value float64, labels ...string) {
		o.ObserveFloat64(m.looked[t], value, m.with(t, labels))
	})
	return nil
}

// meter takes what is counted as it happens. What happens has no ctx.
type meter struct{ *Metrics }

func (m meter) Record(t *metrics.Metric, value float64) {
	m.histograms[t].Record(context.Background(), value, m.with(t, nil))
}

func (m meter) Add(t *metrics.Metric, n int, labels ...string) {
	m.counters[t].Add(context.Background(), int64(n), m.with(t, labels))
}
