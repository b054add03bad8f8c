package fair

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

const (
	// The scripts count microseconds and permits in doubles, exactly up to 2⁵³.
	longestPer  = 10 * 365 * 24 * time.Hour
	longestWait = 100 * 365 * 24 * time.Hour
	mostPermits = 1_000_000_000

	mostWindows = 8 // of one unit: each quota is one, each Burst another

	guardPart    = 20 // the default guard is the shortest Per divided by this,
	longestGuard = 250 * time.Millisecond
)

const (
	calls   = "calls" // the name of the first log
	unknown = "?"     // the names of the logs of a queue that nobody took from
)

// rules are the quotas by which a limiter asks, as the scripts want them.
type rules struct {
	text  string // the stored quotas that they are, "" if none are stored
	calls []engine.Quota
	units []engine.Unit // by name
	logs  []unitRules   // that of calls, and of each unit
	names string        // of the logs: "calls,tokens"
	guard time.Duration
	span  int64 // the longest window, in microseconds
	flow  flowRules
}

// unitRules are the windows of one log.
type unitRules struct {
	unit    string // "" for calls
	windows []window
	most    int // permits that fit every window
}

// window is at most permits in any stretch of length microseconds.
type window struct {
	permits int
	length  int64
}

// newRules returns an error that matches [engine.ErrUnsupported] for quotas that
// cannot be held. Without quotas for calls nobody can take.
func newRules(quotas []engine.Quota, units []engine.Unit, guard *time.Duration) (*rules, error) {
	all := append([]engine.Unit{{Quotas: quotas}}, units...)
	r := &rules{calls: quotas, units: units, names: unknown, guard: guardOf(all)}
	if guard != nil {
		r.guard = *guard
	}
	if len(quotas)+len(units) > 0 {
		r.names = strings.Join(append([]string{calls}, unitNames(units)...), ",")
	}
	for _, u := range all {
		if err := r.add(u); err != nil {
			return nil, err
		}
	}
	r.flow = r.flowRules()
	return r, nil
}

// add adds the log of a unit.
func (r *rules) add(unit engine.Unit) error {
	u := unitRules{unit: unit.Name, most: math.MaxInt}
	for _, q := range unit.Quotas {
		windows, err := windowsOf(q, r.guard)
		if err != nil {
			return err
		}
		for _, w := range windows {
			u.most, r.span = min(u.most, w.permits), max(r.span, w.length)
		}
		u.windows = append(u.windows, windows...)
	}
	if len(u.windows) > mostWindows {
		return fmt.Errorf("%w: %d windows, fair holds up to %d", engine.ErrUnsupported, len(u.windows), mostWindows)
	}
	r.logs = append(r.logs, u)
	return nil
}

// windowsOf are the window of a quota, and that of its Burst.
func windowsOf(q engine.Quota, guard time.Duration) ([]window, error) {
	switch {
	case q.Permits < 1 || q.Per <= 0:
		return nil, fmt.Errorf("%w: a quota of %d permits within %v", engine.ErrUnsupported, q.Permits, q.Per)
	case q.Permits > mostPermits:
		return nil, fmt.Errorf("%w: Permits is %d, fair counts to %d", engine.ErrUnsupported, q.Permits, mostPermits)
	case q.Per > longestPer || guard > longestPer-q.Per:
		return nil, fmt.Errorf("%w: Per is %v with a guard of %v, fair holds up to %v",
			engine.ErrUnsupported, q.Per, guard, longestPer)
	}
	per := q.Per + guard
	windows := []window{{q.Permits, microseconds(float64(per))}}
	if q.Burst > 0 && q.Burst < q.Permits {
		windows = append(windows, window{q.Burst, microseconds(float64(per) * float64(q.Burst) / float64(q.Permits))})
	}
	return windows, nil
}

// microseconds is a length in nanoseconds as the scripts count it. What a float
// cannot tell apart is below a microsecond.
func microseconds(nanoseconds float64) int64 { return int64(math.Ceil(nanoseconds / 1000)) }

// guardOf is the guard of a limiter that was given none.
func guardOf(units []engine.Unit) time.Duration {
	guard := longestGuard
	for _, u := range units {
		for _, q := range u.Quotas {
			guard = min(guard, q.Per/guardPart, max(0, longestPer-q.Per))
		}
	}
	return guard.Truncate(time.Microsecond)
}

// fits returns the error of a request that could never be granted, or nil.
func (r *rules) fits(n int, amounts engine.Amounts) error {
	if len(r.calls) == 0 {
		return fmt.Errorf("%w: the queue was opened without one, and none is stored", engine.ErrNoQuota)
	}
	if err := r.logs[0].fits(n); err != nil || amounts == "" {
		return err
	}
	all := amounts.All()
	for unit, n := range all {
		i := slices.IndexFunc(r.logs, func(u unitRules) bool { return u.unit == unit })
		if i < 0 {
			return engine.UnknownUnit(unit, unitNames(r.units))
		}
		if err := r.logs[i].fits(n); err != nil {
			return err
		}
	}
	return nil
}

// fitting returns the requests that fit, and an answer for each request, with an
// error for those that do not.
func (r *rules) fitting(requests []engine.Request) (fitting []engine.Request, answers []engine.Answer) {
	fitting, answers = make([]engine.Request, 0, len(requests)), make([]engine.Answer, len(requests))
	for i, request := range requests {
		if answers[i].Err = r.fits(request.N, request.Amounts); answers[i].Err == nil {
			fitting = append(fitting, request)
		}
	}
	return fitting, answers
}

func (u *unitRules) fits(n int) error {
	switch {
	case n <= u.most:
		return nil
	case u.unit == "":
		return fmt.Errorf("%w: %d asked for, at most %d fit", engine.ErrExceedsQuota, n, u.most)
	}
	return fmt.Errorf("%w: %d %s asked for, at most %d fit", engine.ErrExceedsQuota, n, u.unit, u.most)
}

// inOrder appends amounts in the order of the logs.
func (r *rules) inOrder(args []any, n int, amounts engine.Amounts) []any {
	args = append(args, n)
	if len(r.logs) == 1 {
		return args
	}
	all := amounts.All()
	for _, u := range r.logs[1:] {
		args = append(args, all[u.unit])
	}
	return args
}

// windowArgs appends the windows of each log: see lua/fair/windows.lua.
func (r *rules) windowArgs(args []any) []any {
	for _, u := range r.logs {
		args = append(args, 2*len(u.windows))
		for _, w := range u.windows {
			args = append(args, w.permits, w.length)
		}
	}
	return args
}

func unitNames(units []engine.Unit) []string {
	var names []string
	for _, u := range units {
		names = append(names, u.Name)
	}
	return names
}

// withText are the rules of a limiter whose stored quotas are the text. Units that
// the text does not name stay as they were given.
func (r *rules) withText(text string, guard *time.Duration) (*rules, error) {
	quotas, units, err := quotatext.ParseAll(text)
	if err != nil {
		return nil, err
	}
	if len(quotas) == 0 {
		quotas = r.calls
	}
	named := unitNames(units)
	for _, u := range r.units {
		if !slices.Contains(named, u.Name) {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, func(a, b engine.Unit) int { return strings.Compare(a.Name, b.Name) })
	stored, err := newRules(quotas, units, guard)
	if err == nil {
		stored.text = text
	}
	return stored, err
}

// withUnits are the rules of a queue that was opened, with the names of the logs
// that it turned out to have.
func (r *rules) withUnits(names string) *rules {
	opened := *r
	opened.names, opened.units, opened.logs = names, nil, []unitRules{{}}
	for _, name := range strings.Split(names, ",")[1:] {
		opened.units = append(opened.units, engine.Unit{Name: name})
		opened.logs = append(opened.logs, unitRules{unit: name})
	}
	return &opened
}
