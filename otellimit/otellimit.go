package otellimit

import (
	"context"
	"errors"
	"strings"
	"time"

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
	trace        *fairlimit.Trace
	counted      counted
	looked       looked
	registration metric.Registration

	name    attribute.KeyValue
	limiter metric.MeasurementOption // the name alone
	permits [len(metrics.Outcomes)]metric.MeasurementOption
}

var _ metrics.Meter = meter{}

// New makes the metrics of one limiter. Name is the value of their attribute
// "limiter", which need not be the name that the limiter has in Redis. Two
// limiters of one name would overwrite each other.
//
// A nil provider is [ErrNilProvider]; other errors are the provider's.
func New(name string, provider metric.MeterProvider) (*Metrics, error) {
	if provider == nil {
		return nil, ErrNilProvider
	}
	m := &Metrics{name: attribute.String(metrics.LimiterLabel, strings.ToValidUTF8(name, "\uFFFD"))}
	m.limiter = with(m.name)
	for i, outcome := range metrics.Outcomes {
		m.permits[i] = with(m.name, attribute.String(metrics.OutcomeLabel, outcome))
	}
	m.books = metrics.New(meter{m})
	m.trace = m.books.Trace()

	instruments := maker{meter: provider.Meter(Scope)}
	m.counted, m.looked = instruments.counted(), instruments.looked()
	if instruments.err != nil {
		return nil, instruments.err
	}
	var err error
	if m.registration, err = instruments.meter.RegisterCallback(m.observe, m.looked.all()...); err != nil {
		return nil, err
	}
	return m, nil
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// Trace is what to give to [fairlimit.WithTrace]. Give it to one limiter only.
func (m *Metrics) Trace() *fairlimit.Trace { return m.trace }

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
	r := m.books.Read(ctx)
	o.ObserveInt64(m.looked.waiting, int64(r.CallersWaiting), m.limiter)
	o.ObserveInt64(m.looked.ahead, int64(r.PermitsAhead), m.limiter)
	o.ObserveFloat64(m.looked.remaining, r.PauseRemaining.Seconds(), m.limiter)
	degraded := int64(0)
	if r.Degraded {
		degraded = 1
	}
	o.ObserveInt64(m.looked.degraded, degraded, m.limiter)
	o.ObserveInt64(m.looked.failures, r.StatusFailures, m.limiter)
	if r.Status != nil {
		o.ObserveInt64(m.looked.queued, int64(r.Status.Queued), m.limiter)
		o.ObserveFloat64(m.looked.queueDelay, r.Status.Delay.Seconds(), m.limiter)
		o.ObserveInt64(m.looked.available, int64(r.Status.Available), m.limiter)
		for unit, s := range r.Status.Units {
			of := with(m.name, attribute.String(metrics.UnitLabel, unit))
			o.ObserveInt64(m.looked.unitQueued, int64(s.Queued), of)
			o.ObserveInt64(m.looked.unitAvailable, int64(s.Available), of)
		}
	}
	return nil
}

// meter takes what is counted as it happens. What happens has no ctx.
type meter struct{ *Metrics }

func (m meter) Waited(d time.Duration) {
	m.counted.wait.Record(context.Background(), d.Seconds(), m.limiter)
}

func (m meter) Permits(o metrics.Outcome, n int) {
	m.counted.permits.Add(context.Background(), int64(n), m.permits[o])
}

func (m meter) Woke(lateness time.Duration) {
	m.counted.lateness.Record(context.Background(), lateness.Seconds(), m.limiter)
}

func (m meter) Asked(op string, failed bool) {
	m.counted.questions.Add(context.Background(), 1,
		with(m.name, attribute.String(metrics.OpLabel, op), attribute.Bool(metrics.FailedLabel, failed)))
}

func (m meter) Settled(unit string, reserved, used int) {
	for i, n := range metrics.PartsOf(reserved, used) {
		m.counted.settled.Add(context.Background(), int64(n),
			with(m.name, attribute.String(metrics.UnitLabel, unit), attribute.String(metrics.PartLabel, metrics.Parts[i])))
	}
}

func (m meter) Shared(callers int) {
	m.counted.callers.Record(context.Background(), int64(callers), m.limiter)
}

func (m meter) Paused() { m.counted.pauses.Add(context.Background(), 1, m.limiter) }
func (m meter) Lost()   { m.counted.losses.Add(context.Background(), 1, m.limiter) }
