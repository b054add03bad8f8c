// Package picture makes of the state of a queue what a person wants to see: its
// line, with the turns that have passed and those that come.
package picture

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

const (
	// Back and Ahead are how many columns a line has before and after now.
	Back, Ahead = 16, 48

	// active is how long a flow stays active after its newest turn: see
	// fairlimit.WithFlow.
	active = 500 * time.Millisecond
)

// Queue is one queue at one moment. It is what `fairlimit serve` answers with,
// and what `fairlimit look -json` prints. Times are milliseconds from that
// moment on.
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
	Differ    bool     `json:"quotas_differ"` // callers with different quotas use the queue
	InUse     []string `json:"quotas_in_use"` // theirs, guard included, if it is not only that none obeys the stored ones
	Windows   []Window `json:"windows"`
	Units     []Unit   `json:"units,omitempty"`
	Flows     []Flow   `json:"flows"`
	Flowless  bool     `json:"flowless"` // callers without a flow stand beside the flows
	Line      Line     `json:"line"`

	Ceilings []Ceiling `json:"ceilings,omitempty"` // of `look -flows`

	NoQuota bool `json:"-"` // what is stored is none

	// AtOnce is how many permits may go at one moment, 0 if that is all of the
	// largest quota.
	AtOnce int64 `json:"-"`
}

// Window is at most so many permits in any stretch of time of one length.
type Window struct {
	Permits int     `json:"permits"`
	Per     float64 `json:"per_ms"`
	Held    int64   `json:"held"` // of the last Per, without those ahead
}

// Unit is what a queue counts besides calls.
type Unit struct {
	Name      string    `json:"unit"`
	Quotas    []string  `json:"quotas"`    // as those of the queue
	Most      int64     `json:"most"`      // of the tightest quota, at once
	Available int64     `json:"available"` // without waiting
	Queued    int64     `json:"queued"`    // granted ahead
	Next      float64   `json:"next_ms"`   // until one more would come
	Windows   []Window  `json:"windows"`
	Used      []float64 `json:"used"` // as that of the line
}

// Ceiling is what a flow of its own may not exceed.
type Ceiling struct {
	Flow   string   `json:"flow"`
	Quotas []string `json:"quotas"` // the stored one, else the windows of the given one
	Stored bool     `json:"quotas_stored"`
	Used   int64    `json:"used"`    // permits that count now
	Next   float64  `json:"next_ms"` // until one more has room
	Paused float64  `json:"paused_ms"`
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

// Of makes the picture of a state. Where no quotas are stored, those given hold,
// if any: they say more than the windows, which a guard has made longer.
func Of(name string, s fair.State, given []engine.Quota, givenUnits []engine.Unit) Queue {
	q := Queue{
		Name: name, At: s.At.UnixMilli(), Queued: s.Backlog,
		Idle: len(s.Windows) == 0 && s.Backlog == 0 && s.Paused == 0,
		Next: milliseconds(s.Next), Paused: milliseconds(s.Paused), Stored: len(s.Quotas) > 0,
		Differ:  len(s.Quotas) > 0 && !s.Obeyed && len(s.Windows) > 0 || len(s.InUse) > 0,
		InUse:   each(s.InUse, inWords),
		Windows: each(s.Windows, windowOf), Flowless: s.Flowless,
		NoQuota: s.Text != "" && len(s.Quotas) == 0,
	}
	quotas, units := s.Quotas, s.UnitQuotas
	if !q.Stored {
		quotas, units = given, givenUnits
	}
	if len(quotas) == 0 {
		quotas = quotasOf(s.Windows)
	}
	q.Quotas, q.AtOnce = each(quotas, quotatext.Format), atOnce(quotas)
	if len(s.Windows) > 0 {
		q.Available = &s.Available
	}
	q.Flows = each(s.Flows, func(f fair.Flow) Flow {
		return Flow{f.ID, f.Weight, f.Limiters, f.Share, milliseconds(f.Ends - active)}
	})
	q.Ceilings = each(s.Ceilings, ceilingOf)
	columns := columnsOf(&s)
	q.Line = columns.line(&s)
	q.Units = each(withUncounted(s, units), func(u fair.Unit) Unit { return unitOf(u, units, columns) })
	return q
}

// withUncounted are the units of a state, and those that nobody has counted yet:
// of each of these all is free.
func withUncounted(s fair.State, given []engine.Unit) []fair.Unit {
	all := s.Units
	for _, g := range given {
		if slices.ContainsFunc(s.Units, func(u fair.Unit) bool { return u.Name == g.Name }) {
			continue
		}
		u := fair.Unit{Name: g.Name, Next: s.Next}
		if u.Next == 0 {
			u.Available = tightest(g.Quotas)
		}
		all = append(all, u)
	}
	return all
}

func unitOf(u fair.Unit, given []engine.Unit, columns columns) Unit {
	quotas := quotasOf(u.Windows)
	for _, g := range given {
		if g.Name == u.Name {
			quotas = g.Quotas
		}
	}
	return Unit{
		Name: u.Name, Quotas: each(quotas, quotatext.Format), Most: tightest(quotas),
		Available: u.Available, Queued: u.Backlog, Next: milliseconds(u.Next),
		Windows: each(u.Windows, windowOf), Used: columns.used(u.Windows, u.Granted),
	}
}

// atOnce is what the AtOnce of a [Queue] says of its quotas.
func atOnce(quotas []engine.Quota) int64 {
	least := tightest(quotas)
	if slices.ContainsFunc(quotas, func(q engine.Quota) bool { return int64(q.Permits) > least }) {
		return least
	}
	return 0
}

// tightest is how much all quotas let go at one moment.
func tightest(quotas []engine.Quota) int64 {
	least := int64(math.MaxInt64)
	for _, q := range quotas {
		least = min(least, int64(cmp.Or(q.Burst, q.Permits)))
	}
	return least
}

func quotasOf(windows []fair.Window) []engine.Quota {
	return each(windows, func(w fair.Window) engine.Quota { return engine.Quota{Permits: w.Permits, Per: w.Per} })
}

func inWords(windows []fair.Window) string { return quotatext.FormatAll(quotasOf(windows)) }

func windowOf(w fair.Window) Window { return Window{w.Permits, milliseconds(w.Per), w.Held} }

// each makes something of every element. It never returns nil, which JSON shows.
func each[A, B any](all []A, of func(A) B) []B {
	made := make([]B, len(all))
	for i, a := range all {
		made[i] = of(a)
	}
	return made
}

// Held is how much of the fullest window is used.
func (u *Unit) Held() (held int64) {
	fullest := -1.0
	for _, w := range u.Windows {
		if part := float64(w.Held) / float64(w.Permits); part > fullest {
			held, fullest = w.Held, part
		}
	}
	return held
}

func ceilingOf(f fair.Ceiling) Ceiling {
	c := Ceiling{Flow: f.Flow, Next: milliseconds(f.Next), Paused: milliseconds(f.Paused)}
	if len(f.Windows) > 0 {
		c.Used = f.Windows[0].Held
	}
	quotas := quotasOf(f.Windows)
	if c.Stored = f.Quota.Permits > 0; c.Stored {
		quotas = []engine.Quota{f.Quota}
	}
	c.Quotas = each(quotas, quotatext.Format)
	return c
}
