// Package picture makes of the state of a queue what a person wants to see: its
// line, with the turns that have passed and those that come.
package picture

import (
	"cmp"
	"math"
	"slices"
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
	Windows   []Window `json:"windows"`
	Units     []Unit   `json:"units,omitempty"`
	Flows     []Flow   `json:"flows"`
	Flowless  bool     `json:"flowless"` // callers without a flow stand beside the flows
	Line      Line     `json:"line"`

	Ceilings []Ceiling `json:"ceilings,omitempty"` // of `look -flows`

	// AtOnce is how many permits may go at one moment, 0 if that is all of the
	// largest quota.
	AtOnce int64 `json:"-"`

	// Others are the windows of the last caller if it did not go by the stored
	// quotas.
	Others []string `json:"-"`
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

// Of makes the picture of a state.
func Of(name string, s fair.State) Queue {
	q := Queue{
		Name: name, At: s.At.UnixMilli(), Queued: s.Backlog,
		Idle: len(s.Windows) == 0 && s.Backlog == 0 && s.Paused == 0,
		Next: milliseconds(s.Next), Paused: milliseconds(s.Paused), Stored: len(s.Quotas) > 0,
		Windows: windowsOf(s.Windows), Flows: []Flow{}, Flowless: s.Flowless,
	}
	if q.Quotas = texts(s.Quotas); !q.Stored {
		q.Quotas = texts(quotasOf(s.Windows))
	} else if !s.Obeyed {
		q.Others = texts(quotasOf(s.Windows))
	}
	if q.AtOnce = atOnce(s.Quotas); !q.Stored {
		q.AtOnce = atOnce(quotasOf(s.Windows))
	}
	q.Differ = len(q.Others) > 0 || s.Mixed > 0
	if len(s.Windows) > 0 {
		q.Available = &s.Available
	}
	for _, f := range s.Flows {
		q.Flows = append(q.Flows, Flow{f.ID, f.Weight, f.Limiters, f.Share, milliseconds(f.Ends - active)})
	}
	for _, f := range s.Ceilings {
		q.Ceilings = append(q.Ceilings, ceilingOf(f))
	}
	columns := columnsOf(&s)
	q.Line = columns.line(&s)
	for _, u := range s.Units {
		q.Units = append(q.Units, Unit{
			Name: u.Name, Available: u.Available, Queued: u.Backlog, Next: milliseconds(u.Next),
			Windows: windowsOf(u.Windows), Used: columns.used(u.Windows, u.Granted),
		})
		q.Units[len(q.Units)-1].goBy(quotasOf(u.Windows))
	}
	q.NameUnits(s.UnitQuotas)
	return q
}

// atOnce is what the AtOnce of a [Queue] says of its quotas.
func atOnce(quotas []engine.Quota) int64 {
	most := 0
	for _, q := range quotas {
		most = max(most, q.Permits)
	}
	if least := tightest(quotas); least < int64(most) {
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

func texts(quotas []engine.Quota) []string {
	all := make([]string, len(quotas))
	for i, q := range quotas {
		all[i] = fairlimit.Quota(q).String()
	}
	return all
}

func quotasOf(windows []fair.Window) (quotas []engine.Quota) {
	for _, w := range windows {
		quotas = append(quotas, engine.Quota{Permits: w.Permits, Per: w.Per})
	}
	return quotas
}

func windowsOf(windows []fair.Window) []Window {
	all := []Window{}
	for _, w := range windows {
		all = append(all, Window{w.Permits, milliseconds(w.Per), w.Held})
	}
	return all
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

// goBy sets the quotas of a unit.
func (u *Unit) goBy(quotas []engine.Quota) {
	u.Quotas, u.Most = texts(quotas), tightest(quotas)
}

// NameUnits gives units the quotas that they have been given. A unit that nobody
// has counted yet has all of them.
func (q *Queue) NameUnits(units []engine.Unit) {
	for _, given := range units {
		at := slices.IndexFunc(q.Units, func(u Unit) bool { return u.Name == given.Name })
		if counted := at >= 0; counted {
			q.Units[at].goBy(given.Quotas)
			continue
		}
		u := Unit{Name: given.Name, Next: q.Next, Windows: []Window{}, Used: make([]float64, len(q.Line.Used))}
		if u.goBy(given.Quotas); u.Next == 0 {
			u.Available = u.Most
		}
		q.Units = append(q.Units, u)
	}
}

func ceilingOf(f fair.Ceiling) Ceiling {
	c := Ceiling{
		Flow: f.Flow, Quotas: texts(quotasOf(f.Windows)), Next: milliseconds(f.Next), Paused: milliseconds(f.Paused),
	}
	if len(f.Windows) > 0 {
		c.Used = f.Windows[0].Held
	}
	if f.Quota.Permits > 0 {
		c.Quotas, c.Stored = texts([]engine.Quota{f.Quota}), true
	}
	return c
}
