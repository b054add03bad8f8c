package promlimit

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/metrics"
)

// Metrics are the metrics of one limiter. [New] makes them. Any number of
// goroutines may use them. They hold no goroutine and no timer, and need no
// closing.
type Metrics struct {
	books   *metrics.Books
	counted map[*metrics.Metric]prometheus.Collector // as it happens
	looked  map[*metrics.Metric]*prometheus.Desc     // what a scrape looks at
}

var _ prometheus.Collector = (*Metrics)(nil)

// New makes the metrics of one limiter. Name is the value of their label
// "limiter", which need not be the name that the limiter has in Redis. A
// registry takes only one of each name.
func New(name string) *Metrics {
	m := &Metrics{
		counted: map[*metrics.Metric]prometheus.Collector{},
		looked:  map[*metrics.Metric]*prometheus.Desc{},
	}
	m.books = metrics.New(meter{m})
	labels := prometheus.Labels{metrics.LimiterLabel: strings.ToValidUTF8(name, "\uFFFD")}
	for _, metric := range metrics.All {
		opts := prometheus.Opts{Name: named(metric), Help: metric.Help, ConstLabels: labels}
		switch metric.Kind {
		case metrics.Counter:
			m.counted[metric] = newCounter(metric, prometheus.CounterOpts(opts))
		case metrics.Histogram:
			m.counted[metric] = prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: opts.Name, Help: opts.Help, ConstLabels: labels, Buckets: metric.Bounds,
			})
		default:
			m.looked[metric] = prometheus.NewDesc(opts.Name, opts.Help, metric.Labels, labels)
		}
	}
	return m
}

// newCounter makes a counter whose series are there from the start if their
// labels are known, so that a rate sees their first step.
func newCounter(metric *metrics.Metric, opts prometheus.CounterOpts) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(opts, metric.Labels)
	for _, values := range metric.Known {
		c.WithLabelValues(values...)
	}
	if len(metric.Labels) == 0 {
		c.WithLabelValues()
	}
	return c
}

// named is the name in the manner of Prometheus, as an exporter of OpenTelemetry
// translates it.
func named(metric *metrics.Metric) string {
	name := strings.ReplaceAll(metric.Name, ".", "_")
	if metric.Unit == "s" {
		name += "_seconds"
	}
	if metric.Kind == metrics.Counter || metric.Kind == metrics.Total {
		name += "_total"
	}
	return name
}

// Trace is what to give to [fairlimit.WithTrace]. Give it to one limiter only.
func (m *Metrics) Trace() *fairlimit.Trace { return m.books.Trace() }

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
	for _, c := range m.counted {
		c.Collect(to)
	}
	m.books.Look(context.Background(), func(metric *metrics.Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if metric.Kind == metrics.Total {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(m.looked[metric], kind, value, labels...)
	})
}

// meter takes what is counted as it happens.
type meter struct{ *Metrics }

func (m meter) Record(metric *metrics.Metric, value float64) {
	m.counted[metric].(prometheus.Histogram).Observe(value)
}

func (m meter) Add(metric *metrics.Metric, n int, labels ...string) {
	m.counted[metric].(*prometheus.CounterVec).WithLabelValues(labels...).Add(float64(n))
}
