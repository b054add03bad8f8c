package fair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// mostUnits is how many units a queue has besides calls.
const mostUnits = 7

// unitSet is the quotas of one unit.
type unitSet struct {
	name    string
	windows []window
	most    int     // that fits every window
	worth   float64 // how many calls go in the time of one of the unit
}

func unitSetsOf(units []engine.Unit, guard time.Duration) (all []unitSet, err error) {
	if len(units) > mostUnits {
		return nil, fmt.Errorf("%w: %d units, fair counts %d besides calls",
			engine.ErrUnsupported, len(units), mostUnits)
	}
	for _, u := range units {
		own := guard
		if u.Guard != nil {
			own = *u.Guard
		}
		s := unitSet{name: u.Name}
		if s.windows, err = windowsOf(u.Quotas, own); err != nil {
			return nil, fmt.Errorf("unit %q: %w", u.Name, err)
		}
		s.most = most(s.windows)
		all = append(all, s)
	}
	return all, nil
}

// CostOf is the dominant share of amounts, in permits of calls: see Ghodsi et
// al., Dominant Resource Fairness, NSDI 2011.
func (f *fair) CostOf(n int, amounts engine.Amounts) int {
	cost, t := max(1, n), f.held()
	for _, a := range amounts.All() {
		if i := t.unit(a.Unit); i >= 0 {
			cost = max(cost, int(min(mostPermits, math.Ceil(float64(a.N)*t.units[i].worth))))
		}
	}
	return cost
}

// rate is how many permits the windows let through in a microsecond, in the long
// run.
func rate(windows []window) float64 {
	least := math.Inf(1)
	for _, w := range windows {
		least = min(least, float64(w.Permits)/float64(w.Length))
	}
	return least
}

func appendWindows(args []any, windows []window) []any {
	for i, cells := range cellsOf(windows) {
		args = append(args, windows[i].Permits, windows[i].Length, cells)
	}
	return args
}

// fitsUnits returns the error that amounts get, or nil.
func (t *quotaSet) fitsUnits(amounts engine.Amounts) error {
	for _, a := range amounts.All() {
		i := t.unit(a.Unit)
		if i < 0 {
			return engine.UnknownUnit(a.Unit, t.names())
		}
		if a.N > t.units[i].most {
			return fmt.Errorf("%w: %d %s asked for, at most %d fit",
				engine.ErrExceedsQuota, a.N, a.Unit, t.units[i].most)
		}
	}
	return nil
}

func (t *quotaSet) unit(name string) int {
	return slices.IndexFunc(t.units, func(u unitSet) bool { return u.name == name })
}

func (t *quotaSet) names() (names []string) {
	for _, u := range t.units {
		names = append(names, u.name)
	}
	return names
}

// inOrder is the amounts of all units.
func (t *quotaSet) inOrder(amounts engine.Amounts) (all []any) {
	for _, u := range t.units {
		all = append(all, amounts.Of(u.name))
	}
	return all
}

// unitsKey is where the logs of further units are, in the same hash slot.
func (f *fair) unitsKey() string { return f.key + ":units" }

// FitsAmounts says nothing where other quotas may be stored meanwhile.
func (f *fair) FitsAmounts(n int, amounts engine.Amounts) error {
	if f.stored {
		return nil
	}
	return f.fits(n, amounts)
}

// FitsKnown goes by the quotas that are known, whether others may be stored or not.
func (f *fair) FitsKnown(n int, amounts engine.Amounts) error { return f.held().fits(n, amounts) }

// unitArgs begins the arguments of a script for several units: see
// lua/fair/units.lua.
func (f *fair) unitArgs(t *quotaSet) []any {
	c := f.memory.recall(t)
	args := append(c.args(t, 17*len(t.units)+6), len(t.units), c.units.history)
	for _, u := range t.units {
		args = append(args, u.name, c.units.granted.Of(u.name), c.units.newest(u.name), len(u.windows))
		args = appendWindows(args, u.windows)
	}
	return args
}

// count reads up to which sequences and slots the units are.
func (o *outcome) count(sequences any) error {
	text, isText := sequences.(string)
	if !isText {
		return fmt.Errorf("a %T instead of sequences", sequences)
	}
	if text != "" {
		o.watermark.units = told{o.watermark.history(), engine.Amounts(text)}
	}
	return nil
}

func (f *fair) statusOfUnits(ctx context.Context, t *quotaSet) (engine.Status, error) {
	r, err := f.askUnder(ctx, f.scripts.statusAmounts, t, f.unitArgs(t))
	if err != nil {
		return engine.Status{}, err
	}
	elements, _ := r.said.([]any)
	if len(elements) != 5+2*len(t.units) {
		return engine.Status{}, misread(r.said, fmt.Errorf("%d elements", len(elements)))
	}
	var o outcome
	status, news, err := decodeStatus(elements[:4])
	o.news, o.watermark = news, news.watermark
	notText := o.count(elements[4])
	numbers, notNumbers := integers(elements[5:])
	if err = errors.Join(err, notText, notNumbers); err != nil {
		return engine.Status{}, misread(r.said, err)
	}
	status.Units = map[string]engine.UnitStatus{}
	for i, u := range t.units {
		status.Units[u.name] = engine.UnitStatus{Available: int(numbers[2*i]), Queued: int(numbers[2*i+1])}
	}
	if o.watermark.units.granted == "" { // nothing was restored
		f.tell(news, r, t)
	} else {
		f.learn(t, &o, r)
	}
	return status, nil
}

var _, _ = engine.Counter((*fair)(nil)), engine.Storer((*fair)(nil))

func (f *fair) Units() []string { return f.held().names() }

// Observe takes the unit "" for calls.
func (f *fair) Observe(ctx context.Context, unit string, remaining int) error {
	return f.under(func(t *quotaSet) error {
		i, refusal := t.unit(unit), error(nil)
		switch {
		case len(t.windows) == 0 && f.stored:
			refusal = errNotStored
		case len(t.windows) == 0:
			refusal = errNotGiven
		case i < 0 && unit != "":
			refusal = engine.UnknownUnit(unit, t.names())
		}
		if refusal != nil && f.stored { // unless other quotas are stored by now
			_, err := f.statusBy(ctx, t)
			refusal = cmp.Or(err, refusal)
		}
		if refusal != nil {
			return refusal
		}
		r, err := f.askUnder(ctx, f.scripts.observe, t, append(f.unitArgs(t), i+1, remaining))
		if err == nil {
			_, _, err = f.learnSettled(t, r)
		}
		return err
	})
}
