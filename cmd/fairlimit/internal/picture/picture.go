// Package picture makes of the state of a queue what a person wants to see: its
// line, with the turns that have passed and those that come.
package picture

import (
	"cmp"
	"math"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

const (
	// Back and Ahead are how many columns a line has before and after now.
	Back, Ahead = 16, 48

	// active is how long a flow stays active after its newest turn: see
	// fairlimit.WithFlow.
	active = 500 * time.Millisecond
)

// Queue is one queue at one moment. It is what `fairlimit serve` answers with.
// Times are milliseconds from that moment on.
type Queue struct {
	Name      string   `json:"name"`
	At        int64    `json:"at_ms"` // the moment, by the server's clock, since 1970
	Idle      bool     `json:"idle"`  // nobody uses the queue: all of the quota is to be had
	Queued    int64    `json:"queued"`
	Available *int64   `json:"available"` // nil if that is unknown
	Next      float64  `json:"next_ms"`   // until one more permit would come
	Paused    float64  `json:"paused_ms"`
	Quotas    []string `json:"quotas"` // the stored ones, else the windows of the last caller
	Stored    bool     `json:"quotas_stored"`
	Windows   []Window `json:"windows"`
	Units     []Unit   `json:"units,omitempty"` // of [Queue.AddUnits]
	Flows     []Flow   `json:"flows"`
	Flowless  bool     `json:"flowless"` // callers without a flow stand beside the flows
	Line      Line     `json:"line"`
}

// Window is at most so many permits in any stretch of time of one length.
type Window struct {
	Permits int     `json:"permits"`
	Per     float64 `json:"per_ms"`
	Held    int64   `json:"held"` // of the last Per, without those ahead
}

// Unit is what a queue counts besides calls.
type Unit struct {
	Name      string   `json:"unit"`
	Quotas    []string `json:"quotas"`
	Most      int      `json:"most"`      // of the tightest quota, at once
	Available int      `json:"available"` // without waiting
	Queued    int      `json:"queued"`    // granted ahead
}

// Flow is a flow that uses the queue. Redis has a hash of its id only.
type Flow struct {
	ID       string  `json:"id"`
	Weight   int     `json:"weight"`
	Limiters int     `json:"limiters"`
	Share    int     `json:"share"`     // permits that it may hold ahead
	Newest   float64 `json:"newest_ms"` // until its newest turn, about
}

// Line is what was granted, column by column.
type Line struct {
	Start   float64   `json:"start_ms"` // where the first column begins
	Step    float64   `json:"step_ms"`  // how long each is
	Permits []int64   `json:"permits"`  // granted in it
	Used    []float64 `json:"used"`     // of the scarcest window that ends with it, 1 for all
	Beyond  int64     `json:"beyond"`   // permits granted later than the last column
}

// Of makes the picture of a state.
func Of(name string, s fair.State) Queue {
	q := Queue{
		Name: name, At: s.At.UnixMilli(), Queued: s.Backlog,
		Idle: len(s.Windows) == 0 && s.Backlog == 0 && s.Paused == 0,
		Next: milliseconds(s.Next), Paused: milliseconds(s.Paused), Stored: len(s.Quotas) > 0,
		Quotas: []string{}, Windows: []Window{}, Flows: []Flow{}, Flowless: s.Flowless,
	}
	for _, quota := range s.Quotas {
		q.Quotas = append(q.Quotas, fairlimit.Quota(quota).String())
	}
	for _, w := range s.Windows {
		q.Windows = append(q.Windows, Window{w.Permits, milliseconds(w.Per), w.Held})
		if !q.Stored {
			q.Quotas = append(q.Quotas, fairlimit.Quota{Permits: w.Permits, Per: w.Per}.String())
		}
		free := int64(0)
		if s.Next == 0 {
			free = int64(w.Permits) - w.Held
		}
		if q.Available == nil || free < *q.Available {
			q.Available = &free
		}
	}
	for _, f := range s.Flows {
		q.Flows = append(q.Flows, Flow{f.ID, f.Weight, f.Limiters, f.Share, milliseconds(f.Ends - active)})
	}
	q.Line = lineOf(&s)
	return q
}

// AddUnits adds what Status says of units.
func (q *Queue) AddUnits(units []engine.Unit, now map[string]engine.UnitStatus) {
	for _, u := range units {
		added := Unit{Name: u.Name, Most: math.MaxInt, Available: now[u.Name].Available, Queued: now[u.Name].Queued}
		for _, quota := range u.Quotas {
			added.Quotas = append(added.Quotas, fairlimit.Quota(quota).String())
			added.Most = min(added.Most, cmp.Or(quota.Burst, quota.Permits))
		}
		q.Units = append(q.Units, added)
	}
}

// lineOf cuts time into columns that stay where they are from one picture to the
// next, as long as their length does.
func lineOf(s *fair.State) Line {
	step := stepOf(max(s.Tail, s.Next, s.Paused))
	start := -Back*step - time.Duration(s.At.UnixNano()%int64(step))
	line := Line{Start: milliseconds(start), Step: milliseconds(step)}
	for range Back + Ahead {
		end := start + step
		line.Permits = append(line.Permits, s.Granted(start, end))
		used := 0.0
		for _, w := range s.Windows {
			used = max(used, float64(s.Granted(end-w.Per, end))/float64(w.Permits))
		}
		line.Used = append(line.Used, min(used, 1))
		start = end
	}
	line.Beyond = max(0, s.Granted(start, s.Tail))
	return line
}

// stepOf is a round length of columns of which those ahead show so much, if it
// is less than half a day.
func stepOf(show time.Duration) time.Duration {
	for _, unit := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		for _, step := range []time.Duration{unit, 2 * unit, 4 * unit} {
			if step >= 40*time.Millisecond && (Ahead-1)*step >= show {
				return step
			}
		}
	}
	return 1000 * time.Second
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
