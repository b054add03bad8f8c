// Package promtext writes the metrics of limiters in the text format of
// Prometheus. They are those of module promlimit, whose tests compare the two;
// this package needs no other module.
package promtext

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/metrics"
)

// Metrics are those of one limiter. Any number of goroutines may use them.
type Metrics struct {
	books *metrics.Books
	label string

	permits                [len(metrics.Outcomes)]atomic.Int64
	questions              map[string]*[2]atomic.Int64 // by op, and by whether they failed
	pauses, losses         atomic.Int64
	wait, lateness, shared histogram

	mu      sync.Mutex
	settled map[string][len(metrics.Parts)]int // by unit
}

// New makes the metrics of one limiter. Name is the value of their label
// "limiter".
func New(name string) *Metrics {
	m := &Metrics{
		label:     metrics.LimiterLabel + "=" + quoted(strings.ToValidUTF8(name, "\uFFFD")),
		questions: map[string]*[2]atomic.Int64{},
		settled:   map[string][len(metrics.Parts)]int{},
		wait:      newHistogram(metrics.WaitBounds),
		lateness:  newHistogram(metrics.LatenessBounds),
		shared:    newHistogram(metrics.CallersBounds),
	}
	for _, op := range metrics.Ops {
		m.questions[op] = new([2]atomic.Int64)
	}
	m.books = metrics.New((*meter)(m))
	return m
}

// Trace is what to give to [fairlimit.WithTrace], for one limiter only.
func (m *Metrics) Trace() *fairlimit.Trace { return m.books.Trace() }

// Watch lets each [Write] ask l for its Status.
func (m *Metrics) Watch(l fairlimit.Limiter) { m.books.Watch(l) }

// Write writes the metrics of limiters of different names. It asks for the
// Status of all of them at once, and waits a second for it at most.
func Write(ctx context.Context, to io.Writer, all []*Metrics) error {
	readings := make([]metrics.Reading, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() { readings[i] = m.books.Read(ctx) })
	}
	asked.Wait()
	w := &writer{Writer: bufio.NewWriter(to), all: all, readings: readings}
	w.counted()
	w.looked()
	return w.Flush()
}

type writer struct {
	*bufio.Writer
	all      []*Metrics
	readings []metrics.Reading
}

func (w *writer) counted() {
	w.family(metrics.Permits, "counter", func(m *Metrics, _ *metrics.Reading, name string) {
		for i, outcome := range metrics.Outcomes {
			w.sample(name, m.label+","+metrics.OutcomeLabel+"="+quoted(outcome), float64(m.permits[i].Load()))
		}
	})
	w.family(metrics.Questions, "counter", func(m *Metrics, _ *metrics.Reading, name string) {
		for _, op := range metrics.Ops {
			for i, failed := range []string{"false", "true"} {
				labels := metrics.FailedLabel + "=" + quoted(failed) + "," + m.label
				w.sample(name, labels+","+metrics.OpLabel+"="+quoted(op), float64(m.questions[op][i].Load()))
			}
		}
	})
	w.histogram(metrics.WaitDuration, func(m *Metrics) *histogram { return &m.wait })
	w.histogram(metrics.WakeLateness, func(m *Metrics) *histogram { return &m.lateness })
	w.histogram(metrics.QuestionCallers, func(m *Metrics) *histogram { return &m.shared })
	w.one(metrics.Pauses, "counter", func(m *Metrics, _ *metrics.Reading) float64 { return float64(m.pauses.Load()) })
	w.one(metrics.Losses, "counter", func(m *Metrics, _ *metrics.Reading) float64 { return float64(m.losses.Load()) })
	w.family(metrics.Settled, "counter", func(m *Metrics, _ *metrics.Reading, name string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, unit := range slices.Sorted(maps.Keys(m.settled)) {
			for i, n := range m.settled[unit] {
				labels := m.label + "," + metrics.PartLabel + "=" + quoted(metrics.Parts[i])
				w.sample(name, labels+","+metrics.UnitLabel+"="+quoted(unit), float64(n))
			}
		}
	})
}

func (w *writer) looked() {
	gauge := func(metric metrics.Metric, value func(r *metrics.Reading) float64) {
		w.one(metric, "gauge", func(_ *Metrics, r *metrics.Reading) float64 { return value(r) })
	}
	gauge(metrics.CallersWaiting, func(r *metrics.Reading) float64 { return float64(r.CallersWaiting) })
	gauge(metrics.PermitsAhead, func(r *metrics.Reading) float64 { return float64(r.PermitsAhead) })
	gauge(metrics.PauseRemaining, func(r *metrics.Reading) float64 { return r.PauseRemaining.Seconds() })
	gauge(metrics.Degraded, func(r *metrics.Reading) float64 {
		if r.Degraded {
			return 1
		}
		return 0
	})
	w.one(metrics.StatusFailures, "counter", func(_ *Metrics, r *metrics.Reading) float64 {
		return float64(r.StatusFailures)
	})
	status := func(metric metrics.Metric, value func(s *fairlimit.Status) float64) {
		w.family(metric, "gauge", func(m *Metrics, r *metrics.Reading, name string) {
			if r.Status != nil {
				w.sample(name, m.label, value(r.Status))
			}
		})
	}
	status(metrics.QueuePermits, func(s *fairlimit.Status) float64 { return float64(s.Queued) })
	status(metrics.QueueDelay, func(s *fairlimit.Status) float64 { return s.Delay.Seconds() })
	status(metrics.Available, func(s *fairlimit.Status) float64 { return float64(s.Available) })
	w.units(metrics.UnitQueued, func(s fairlimit.UnitStatus) int { return s.Queued })
	w.units(metrics.UnitAvailable, func(s fairlimit.UnitStatus) int { return s.Available })
}

// units writes one metric of each unit.
func (w *writer) units(metric metrics.Metric, value func(fairlimit.UnitStatus) int) {
	w.family(metric, "gauge", func(m *Metrics, r *metrics.Reading, name string) {
		if r.Status == nil {
			return
		}
		for _, unit := range slices.Sorted(maps.Keys(r.Status.Units)) {
			w.sample(name, m.label+","+metrics.UnitLabel+"="+quoted(unit), float64(value(r.Status.Units[unit])))
		}
	})
}

// family writes one metric of all limiters.
func (w *writer) family(
	metric metrics.Metric, kind string, write func(m *Metrics, r *metrics.Reading, name string),
) {
	name := strings.ReplaceAll(metric.Name, ".", "_")
	if metric.Unit == "s" {
		name += "_seconds"
	}
	if kind == "counter" {
		name += "_total"
	}
	_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, metric.Help, name, kind)
	for i, m := range w.all {
		write(m, &w.readings[i], name)
	}
}

// one is a family of one sample for each limiter.
func (w *writer) one(metric metrics.Metric, kind string, value func(*Metrics, *metrics.Reading) float64) {
	w.family(metric, kind, func(m *Metrics, r *metrics.Reading, name string) {
		w.sample(name, m.label, value(m, r))
	})
}

func (w *writer) histogram(metric metrics.Metric, of func(*Metrics) *histogram) {
	w.family(metric, "histogram", func(m *Metrics, _ *metrics.Reading, name string) {
		of(m).write(w, name, m.label)
	})
}

func (w *writer) sample(name, labels string, value float64) {
	_, _ = fmt.Fprintf(w, "%s{%s} %s\n", name, labels, number(value))
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// quoted is the value of a label.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value) + `"`
}

// histogram counts values up to each bound, and those beyond the last.
type histogram struct {
	bounds []float64

	mu     sync.Mutex
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(value float64) {
	i := 0
	for i < len(h.bounds) && value > h.bounds[i] {
		i++
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += value
}

func (h *histogram) write(w *writer, name, label string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	total := uint64(0)
	for i, n := range h.counts {
		total += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = number(h.bounds[i])
		}
		w.sample(name+"_bucket", label+",le="+quoted(bound), float64(total))
	}
	w.sample(name+"_sum", label, h.sum)
	w.sample(name+"_count", label, float64(total))
}
