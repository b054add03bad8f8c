// Package picture makes of the state of a queue what a person wants to see: its
// line, with the turns that have passed and those that come.
package picture

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Back and Ahead are how many columns a line has before and after now.
const Back, Ahead = 16, 48

// Queue is one queue at one moment. It is what `fairlimit serve` answers with,
// and what `fairlimit look -json` prints. Times are milliseconds from that
// moment on. Without quotas nobody knows what is available.
type Queue struct {
	Name      string   `json:"name"`
	At        int64    `json:"at_ms"` // the moment, by the server's clock, since 1970
	Idle      bool     `json:"idle"`  // nobody uses the queue: all of the quota is to be had
	Queued    int64    `json:"queued"`
	Available *int64   `json:"available"` // nil if that is unknown
	Next      float64  `json:"next_ms"`   // until one more permit would come, at the earliest
	Tail      float64  `json:"tail_ms"`   // until the newest slot comes
	Paused    float64  `json:"paused_ms"`
	Quotas    []string `json:"quotas"` // the stored ones, else those given
	Stored    bool     `json:"quotas_stored"`
	Notes     []string `json:"notes"` // what is unusual
	Windows   []Window `json:"windows"`
	Units     []Unit   `json:"units,omitempty"`
	Flows     []Flow   `json:"flows"`
	Line      Line     `json:"line"`
}

// Window is at most so many permits in any stretch of time of one length.
type Window struct {
	Permits int64   `json:"permits"`
	Per     float64 `json:"per_ms"`
	Held    int64   `json:"held"` // of the last Per, without those ahead
}

// Unit is what a queue counts besides calls.
type Unit struct {
	Name      string    `json:"unit"`
	Quotas    []string  `json:"quotas"`
	Available *int64    `json:"available"`
	Queued    int64     `json:"queued"`
	Windows   []Window  `json:"windows"`
	Used      []float64 `json:"used"` // as that of the line
}

// Flow is a flow that uses the queue.
type Flow struct {
	ID     string `json:"id"`
	Weight int    `json:"weight"`
	Ahead  int    `json:"ahead"` // permits granted ahead
}

// Line is what was granted, column by column.
type Line struct {
	Start   float64   `json:"start_ms"` // where the first column begins
	Step    float64   `json:"step_ms"`  // how long each is
	Permits []int64   `json:"permits"`  // granted in it
	Used    []float64 `json:"used"`     // of the scarcest window that ends with it, 1 for all
	Beyond  int64     `json:"beyond"`   // permits granted later than the last column
}

// Of makes the picture of a state, which may be nil. Where no quotas are stored,
// those given hold, if any. If what is stored is no quota, the error matches
// [fairlimit.ErrState], and the picture is without quotas.
func Of(name string, s *State, given []engine.Quota, units []engine.Unit, guard time.Duration) (Queue, error) {
	if s == nil {
		s = &State{Now: time.Now()}
	}
	var err error
	if s.Stored != "" {
		if given, units, err = quotatext.ParseAll(s.Stored); err != nil {
			err = fmt.Errorf("%w: stored quotas: %w: store others with fairlimit quota, or forget them",
				fairlimit.ErrState, err)
		}
	}
	if guard == DefaultGuard {
		guard = guardOf(given, units)
	}
	p := painter{State: s, guard: guard, waits: max(0, s.Paused, s.Tail.Sub(s.Now))}
	calls := p.log("")
	windows := windowsOf(given, guard)
	after := max(p.waits, next(calls, windows).Sub(s.Now))
	p.columns = columnsOf(s.Now, after)
	q := Queue{
		Name: name, At: s.Now.UnixMilli(), Idle: s.Begun.IsZero(), Queued: within(calls, s.Now, farAhead),
		Available: p.available(calls, windows), Next: milliseconds(after), Tail: milliseconds(max(0, s.Tail.Sub(s.Now))),
		Paused: milliseconds(s.Paused), Quotas: each(given, quotatext.Format), Stored: s.Stored != "",
		Notes: notes(s), Windows: p.windows(calls, windows), Flows: []Flow{},
		Line: Line{
			Start: milliseconds(p.columns.start.Sub(s.Now)), Step: milliseconds(p.columns.step),
			Permits: p.columns.permits(calls), Used: p.columns.used(calls, windows),
			Beyond: within(calls, p.columns.start.Add((Back+Ahead)*p.columns.step), farAhead),
		},
	}
	for _, f := range s.Flows {
		q.Flows = append(q.Flows, Flow{f.ID, f.Weight, f.Ahead})
	}
	for _, u := range p.units(units) {
		q.Units = append(q.Units, p.unit(u))
	}
	return q, err
}

// farAhead is later than any slot.
var farAhead = time.Unix(1<<40, 0)

// painter is a state, and how it is looked at.
type painter struct {
	*State
	guard   time.Duration
	waits   time.Duration // until the tail comes and a pause is over
	columns columns
}

// log is empty if the queue has none of the unit.
func (p *painter) log(unit string) *UnitLog {
	for i := range p.Units {
		if p.Units[i].Name == unit {
			return &p.Units[i]
		}
	}
	return &UnitLog{Name: unit}
}

// units are those that have a quota, and those that were counted without one.
func (p *painter) units(given []engine.Unit) []engine.Unit {
	all := append([]engine.Unit{}, given...)
	for _, u := range p.Units {
		known := u.Name == ""
		for _, g := range given {
			known = known || g.Name == u.Name
		}
		if !known {
			all = append(all, engine.Unit{Name: u.Name})
		}
	}
	return all
}

func (p *painter) unit(u engine.Unit) Unit {
	log, windows := p.log(u.Name), windowsOf(u.Quotas, p.guard)
	return Unit{
		Name: u.Name, Quotas: each(u.Quotas, quotatext.Format), Available: p.available(log, windows),
		Queued: within(log, p.Now, farAhead), Windows: p.windows(log, windows), Used: p.columns.used(log, windows),
	}
}

// available is how much a caller could take at once.
func (p *painter) available(u *UnitLog, windows []window) *int64 {
	n := int64(0)
	if len(windows) == 0 {
		return nil
	} else if p.waits == 0 {
		n = free(u, windows, p.Now)
	}
	return &n
}

func (p *painter) windows(u *UnitLog, windows []window) []Window {
	return each(windows, func(w window) Window {
		return Window{w.permits, milliseconds(w.per), within(u, p.Now.Add(-w.per), p.Now)}
	})
}

// notes are what is unusual, in plain words.
func notes(s *State) []string {
	all := []string{}
	if ago := s.Now.Sub(s.Begun); s.Voided && ago < time.Minute {
		all = append(all, fmt.Sprintf("requeued %v ago: whoever waits asks again, in order", ago.Round(time.Second)))
	}
	granted := int64(0)
	for _, u := range s.Units {
		granted += u.Total
		if what := u.Name; u.Missing {
			if what == "" {
				what = "calls"
			}
			all = append(all, "Redis has lost the log of "+what)
		}
	}
	if !s.Begun.IsZero() && granted == 0 && len(s.Flows) == 0 && len(all) == 0 {
		all = append(all, "nothing was granted since the queue began: is the name spelt right?")
	}
	return all
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// each makes something of every element. It never returns nil, which JSON shows.
func each[A, B any](all []A, of func(A) B) []B {
	made := make([]B, len(all))
	for i, a := range all {
		made[i] = of(a)
	}
	return made
}
