package promlimit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/metrics"
)

// Metrics are the metrics of one limiter. [New] makes them. Any number of
// goroutines may use them. They hold no goroutine and no timer, and need no
// closing.
type Metrics struct {
	books *metrics.Books
	trace *fairlimit.Trace

	counted    []prometheus.Collector // as things happen
	permits    [len(metrics.Outcomes)]prometheus.Counter
	questions  *prometheus.CounterVec
	wait       prometheus.Histogram
	lateness   prometheus.Histogram
	callers    prometheus.Histogram
	pauses     prometheus.Counter
	losses     prometheus.Counter
	settled    *prometheus.CounterVec
	looked     []*prometheus.Desc // what a scrape looks at:
	waiting    *prometheus.Desc
	ahead      *prometheus.Desc
	remaining  *prometheus.Desc
	degraded   *prometheus.Desc
	failures   *prometheus.Desc
	queued     *prometheus.Desc
	queueDelay *prometheus.Desc
	available  *prometheus.Desc

	unitQueued, unitAvailable *prometheus.Desc
}

var (
	_ prometheus.Collector = (*Metrics)(nil)
	_ metrics.Meter        = meter{}
)

// New makes the metrics of one limiter. Name is the value of their label
// "limiter", which need not be the name that the limiter has in Redis. A
// registry takes only one of each name.
func New(name string) *Metrics {
	labels := prometheus.Labels{metrics.LimiterLabel: strings.ToValidUTF8(name, "\uFFFD")}
	m := &Metrics{}
	m.books = metrics.New(meter{m})
	m.trace = m.books.Trace()
	m.makeCounted(labels)
	m.makeLooked(labels)
	return m
}

// Trace is what to give to [fairlimit.WithTrace]. Give it to one limiter only.
func (m *Metrics) Trace() *fairlimit.Trace { return m.trace }

// Watch lets each scrape ask l for its Status, which gives the metrics of the
// queue. A scrape waits a second for it. Without an answer those metrics are
// left out, and fairlimit_status_failures_total counts that. If l is nil,
// nothing is asked any more.
func (m *Metrics) Watch(l fairlimit.Limiter) { m.books.Watch(l) }

// Describe is that of [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.counted {
		c.Describe(to)
	}
	for _, d := range m.looked {
		to <- d
	}
}

// Collect is that of [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	r := m.books.Read(context.Background())
	for _, c := range m.counted {
		c.Collect(to)
	}
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	gauge(m.waiting, float64(r.CallersWaiting))
	gauge(m.ahead, float64(r.PermitsAhead))
	gauge(m.remaining, r.PauseRemaining.Seconds())
	degraded := 0.
	if r.Degraded {
		degraded = 1
	}
	gauge(m.degraded, degraded)
	to <- prometheus.MustNewConstMetric(m.failures, prometheus.CounterValue, float64(r.StatusFailures))
	if r.Status != nil {
		gauge(m.queued, float64(r.Status.Queued))
		gauge(m.queueDelay, r.Status.Delay.Seconds())
		gauge(m.available, float64(r.Status.Available))
		for unit, s := range r.Status.Units {
			to <- prometheus.MustNewConstMetric(m.unitQueued, prometheus.GaugeValue, float64(s.Queued), unit)
			to <- prometheus.MustNewConstMetric(m.unitAvailable, prometheus.GaugeValue, float64(s.Available), unit)
		}
	}
}

// meter takes what is counted as it happens.
type meter struct{ *Metrics }

func (m meter) Waited(d time.Duration)           { m.wait.Observe(d.Seconds()) }
func (m meter) Permits(o metrics.Outcome, n int) { m.permits[o].Add(float64(n)) }
func (m meter) Woke(lateness time.Duration)      { m.lateness.Observe(lateness.Seconds()) }
func (m meter) Shared(callers int)               { m.callers.Observe(float64(callers)) }
func (m meter) Paused()                          { m.pauses.Inc() }
func (m meter) Lost()                            { m.losses.Inc() }
func (m meter) Settled(unit string, reserved, used int) {
	for i, n := range metrics.PartsOf(reserved, used) {
		m.settled.WithLabelValues(unit, metrics.Parts[i]).Add(float64(n))
	}
}

func (m meter) Asked(op string, failed bool) {
	m.questions.WithLabelValues(op, strconv.FormatBool(failed)).Inc()
}
