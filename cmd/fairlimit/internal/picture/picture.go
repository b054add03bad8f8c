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

	start, step time.Duration
}

// Of makes the picture of a state.
func Of(name string, s fair.State) Queue {
	q := Queue{
		Name: name, At: s.At.UnixMilli(), Queued: s.Backlog,
		Idle: len(s.Windows) == 0 && s.Backlog == 0 && s.Paused == 0,
		Next: milliseconds(s.Next), Paused: milliseconds(s.Paused), Stored: len(s.Quotas) > 0,
		Quotas: Texts(s.Quotas), Windows: windowsOf(s.Windows), Flows: []Flow{}, Flowless: s.Flowless,
	}
	q.Differ = q.Disobeyed(&s) || s.Mixed > 0
	if !q.Stored {
		q.Quotas = Texts(Quotas(s.Windows))
	}
	if !q.Idle && len(s.Windows) > 0 {
		q.Available = &s.Available
	}
	for _, f := range s.Flows {
		q.Flows = append(q.Flows, Flow{f.ID, f.Weight, f.Limiters, f.Share, milliseconds(f.Ends - active)})
	}
	for _, f := range s.Ceilings {
		q.Ceilings = append(q.Ceilings, CeilingOf(f))
	}
	q.Line = lineOf(&s)
	for _, u := range s.Units {
		q.Units = append(q.Units, q.unitOf(&u))
	}
	q.NameUnits(s.UnitQuotas)
	return q
}

// Disobeyed is whether the last caller went by other quotas than the stored
// ones.
func (q *Queue) Disobeyed(s *fair.State) bool {
	return q.Stored && !s.Obeyed && len(s.Windows) > 0
}

// Texts are what the command quota reads.
func Texts(quotas []engine.Quota) []string {
	all := make([]string, len(quotas))
	for i, q := range quotas {
		all[i] = fairlimit.Quota(q).String()
	}
	return all
}

// Quotas are windows as quotas.
func Quotas(windows []fair.Window) (quotas []engine.Quota) {
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

func (q *Queue) unitOf(u *fair.Unit) Unit {
	quotas := Quotas(u.Windows)
	return Unit{
		Name: u.Name, Quotas: Texts(quotas), Most: AtOnce(quotas), Available: u.Available, Queued: u.Backlog,
		Next: milliseconds(u.Next), Windows: windowsOf(u.Windows), Used: q.Line.used(u.Windows, u.Granted),
	}
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

// NameUnits gives units the quotas that they have been given. A unit that nobody
// has counted yet has all of them.
func (q *Queue) NameUnits(units []engine.Unit) {
	for _, given := range units {
		at := slices.IndexFunc(q.Units, func(u Unit) bool { return u.Name == given.Name })
		if at < 0 {
			at = len(q.Units)
			q.Units = append(q.Units, Unit{
				Name: given.Name, Next: q.Next, Windows: []Window{}, Used: make([]float64, len(q.Line.Used)),
			})
			if q.Next == 0 {
				q.Units[at].Available = AtOnce(given.Quotas)
			}
		}
		q.Units[at].Quotas, q.Units[at].Most = Texts(given.Quotas), AtOnce(given.Quotas)
	}
}

// AtOnce is how much all quotas let go at one moment.
func AtOnce(quotas []engine.Quota) int64 {
	least := int64(math.MaxInt64)
	for _, q := range quotas {
		least = min(least, int64(cmp.Or(q.Burst, q.Permits)))
	}
	return least
}

// CeilingOf makes the picture of a ceiling.
func CeilingOf(f fair.Ceiling) Ceiling {
	c := Ceiling{
		Flow: f.Flow, Quotas: Texts(Quotas(f.Windows)), Next: milliseconds(f.Next), Paused: milliseconds(f.Paused),
	}
	if len(f.Windows) > 0 {
		c.Used = f.Windows[0].Held
	}
	if f.Quota.Permits > 0 {
		c.Quotas, c.Stored = Texts([]engine.Quota{f.Quota}), true
	}
	return c
}

// lineOf cuts time into columns that stay where they are from one picture to the
// next, as long as their length does.
func lineOf(s *fair.State) Line {
	step := stepOf(max(s.Tail, s.Next, s.Paused))
	start := -Back*step - time.Duration(s.At.UnixNano()%int64(step))
	line := Line{Start: milliseconds(start), Step: milliseconds(step), start: start, step: step}
	for at := range time.Duration(Back + Ahead) {
		line.Permits = append(line.Permits, s.Granted(start+at*step, start+(at+1)*step))
	}
	line.Used = line.used(s.Windows, s.Granted)
	line.Beyond = max(0, s.Granted(start+(Back+Ahead)*step, s.Tail))
	return line
}

// used is how full the scarcest window is that ends with each column.
func (l *Line) used(windows []fair.Window, granted func(from, to time.Duration) int64) []float64 {
	all := make([]float64, Back+Ahead)
	for i := range all {
		end := l.start + time.Duration(i+1)*l.step
		for _, w := range windows {
			all[i] = max(all[i], min(1, float64(granted(end-w.Per, end))/float64(w.Permits)))
		}
	}
	return all
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
