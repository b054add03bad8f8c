package fairlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// Amounts is how much of each unit a turn takes. A unit that is left out counts
// 0, but the unit "", which is calls, counts 1: a turn is one call.
type Amounts map[string]int

// UnitStatus is the state of one unit, as part of a [Status].
type UnitStatus = engine.UnitStatus

// WithUnit adds a unit, such as tokens, with quotas that must all hold:
//
//	fairlimit.NewQueue(rdb, "llm", fairlimit.PerMinute(60),
//		fairlimit.WithUnit("tokens", fairlimit.PerMinute(20_000)))
//
// The quota of [New] counts calls, whose unit is "". [Queue.Take] takes amounts
// of all units in one turn. Wait, Allow and ReserveN take calls only. Give all
// limiters of a name the same units. There are seven at most. A name has up to
// 32 letters, digits, - and _, begins with a letter, and is not "burst".
//
// A window of a unit never holds more than its quota of what turns reserved. Of
// what turns used it holds more by what its own turns reserved too little.
//
// In the share of a flow a turn counts by the unit of which it takes the most,
// as a part of what that unit's quota lets through in a while.
//
// With a [Fallback] other than [FailOpen] the error of New matches
// [ErrInvalidOption]. For an engine that counts calls only, such as window, it
// matches [ErrUnsupported].
func WithUnit(unit string, quotas ...Quota) Option {
	return func(o *options) {
		switch {
		case !quotatext.IsUnit(unit):
			o.refuse("WithUnit: %.40q is no name of a unit: %s", unit, quotatext.UnitNames)
		case len(quotas) == 0:
			o.refuse("WithUnit: %q has no quota", unit)
		case o.unit(unit) != nil:
			o.refuse("WithUnit: %q is given twice", unit)
		}
		u := engine.Unit{Name: unit}
		for _, q := range quotas {
			if err := q.checkOf("WithUnit: " + unit + ": "); err != nil {
				o.fail(err)
			}
			u.Quotas = append(u.Quotas, engine.Quota(q))
		}
		o.units = append(o.units, u)
	}
}

// WithUnitGuard is [WithGuard] for one unit of [WithUnit], in place of the
// queue's guard. An upstream that counts tokens as it writes them counts up to
// the length of a call after the slot. Its guard has to be as long as the
// lengths of calls differ.
func WithUnitGuard(unit string, d time.Duration) Option {
	return func(o *options) {
		o.length("WithUnitGuard", d)
		if o.unitGuards == nil {
			o.unitGuards = map[string]time.Duration{}
		}
		o.unitGuards[unit] = d
	}
}

// unit is a further unit that was given so far, nil if it was not.
func (o *options) unit(name string) *engine.Unit {
	for i := range o.units {
		if o.units[i].Name == name {
			return &o.units[i]
		}
	}
	return nil
}

// finishUnits checks what can be checked only once all options are known.
func (o *options) finishUnits() {
	for _, name := range slices.Sorted(maps.Keys(o.unitGuards)) {
		u := o.unit(name)
		if u == nil {
			o.refuse("WithUnitGuard: there is no WithUnit(%q)", name)
			return
		}
		guard := o.unitGuards[name]
		u.Guard = &guard
	}
	slices.SortFunc(o.units, func(a, b engine.Unit) int { return strings.Compare(a.Name, b.Name) })
	if len(o.units) > 0 && o.fallback != nil && o.fallback != FailOpen {
		o.refuse("WithUnit and WithFallback: only FailOpen needs no amounts")
	}
}

// split is the calls and the further amounts of a turn.
func (a Amounts) split() (calls int, amounts engine.Amounts, err error) {
	calls = 1
	var further []engine.Amount
	nothing := true
	for _, unit := range slices.Sorted(maps.Keys(a)) {
		n := a[unit]
		switch {
		case n < 0:
			return 0, "", fmt.Errorf("%w: %d of %q is negative", ErrInvalidAmounts, n, unit)
		case unit == "":
			calls = n
		default:
			further = append(further, engine.Amount{Unit: unit, N: n})
			nothing = nothing && n == 0
		}
	}
	if nothing && calls == 0 {
		return 0, "", fmt.Errorf("%w: nothing is asked for", ErrInvalidAmounts)
	}
	return calls, engine.AmountsOf(further...), nil
}

// Take is Wait for amounts: it sleeps until there is room for all of them at
// once, in the order in which all callers came. If the turn would come after
// ctx's deadline, it returns a [*RefusedError] at once, and nothing is consumed.
//
// The turn is settled once it is known what it used: see [Turn.Settle].
//
// For a unit that the queue does not have the error matches [ErrUnknownUnit].
// For more of a unit than its quota ever allows at once it matches
// [ErrExceedsQuota], and names the unit. For negative amounts, or nothing but
// zeros, it matches [ErrInvalidAmounts].
func (q *Queue) Take(ctx context.Context, a Amounts) (*Turn, error) {
	n, amounts, err := q.checkAmounts(ctx, a)
	if err != nil {
		return nil, q.named(err)
	}
	turn, err := q.take(ctx, n, amounts)
	if err != nil {
		return nil, q.named(err)
	}
	return cmp.Or(turn, &Turn{limiter: q.limiter, grant: &engine.Grant{}}), nil
}

// checkAmounts returns the error of a call that never goes further.
func (l *limiter) checkAmounts(ctx context.Context, a Amounts) (n int, amounts engine.Amounts, err error) {
	if err = ready(ctx, "nothing was consumed"); err != nil {
		return 0, "", err
	}
	if n, amounts, err = a.split(); err != nil {
		return 0, "", err
	}
	if l.count == nil {
		return 0, "", fmt.Errorf("%w: amounts, because it counts calls only", ErrUnsupported)
	}
	return n, amounts, l.count.FitsAmounts(n, amounts)
}

// ReserveAmounts is [Queue.ReserveN] for amounts. Its errors are those of
// [Queue.Take].
func (q *Queue) ReserveAmounts(ctx context.Context, a Amounts) (*Reservation, error) {
	n, amounts, err := q.checkAmounts(ctx, a)
	if err != nil {
		return nil, q.named(err)
	}
	return q.reserveFitting(ctx, n, amounts)
}

// Turn is what [Queue.Take] took. Several goroutines may use it at once. A turn
// that nobody settles counts as it was reserved.
type Turn struct {
	limiter *limiter
	grant   *engine.Grant // zero if a fallback gave the turn

	mu      sync.Mutex
	settled bool
}

// Settle says what the turn really used of the units named. Those that are not
// named stay as they were reserved.
//
// What was used less is a refund: it cancels debts of that unit that lie ahead,
// the newest first, and what is left of it counts no more. What was used more
// is a debt: it stands in the line, before everybody who asks later, as a turn
// for which nobody waits. Turns that are held stay where they are.
//
// A turn is settled once: another Settle does nothing, and so does one after all
// that the queue knew has passed. If the error matches [ErrOutcomeUnknown], the
// turn was settled or not, and is not settled again. For a unit that the queue
// does not have it matches [ErrUnknownUnit], for negative amounts, or more than
// a thousand times the quota, [ErrInvalidAmounts]; then the turn can still be
// settled.
func (t *Turn) Settle(ctx context.Context, used Amounts) error {
	return t.limiter.named(t.settle(ctx, used))
}

func (t *Turn) settle(ctx context.Context, used Amounts) error {
	if err := ready(ctx, "nothing was settled"); err != nil {
		return err
	}
	owes, err := t.unused(used)
	if err != nil || !t.settles() {
		return err
	}
	if owes.N != 0 || owes.Amounts != "" {
		err = t.limiter.asker.Return(ctx, owes)
	}
	switch {
	case err == nil:
		t.tell(used)
	case !errors.Is(err, ErrOutcomeUnknown):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.settled = false
	}
	return err
}

// tell tells the trace what was settled.
func (t *Turn) tell(used Amounts) {
	settled := t.limiter.trace.Settled
	if settled == nil {
		return
	}
	for unit, n := range used {
		settled(unit, t.reserved(unit), n)
	}
}

// reserved is how much of a unit the turn took.
func (t *Turn) reserved(unit string) int {
	if unit == "" {
		return t.grant.N
	}
	return t.grant.Amounts.Of(unit)
}

// settles reports whether the turn is to be settled now: it was not yet.
func (t *Turn) settles() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.settled && t.grant.ID != ""
	t.settled = true
	return first
}

// unused is the turn as it is settled: what it did not use.
func (t *Turn) unused(used Amounts) (engine.Grant, error) {
	g, units := *t.grant, t.limiter.count.Units()
	var unused []engine.Amount
	g.Settles, g.N = true, 0
	for unit, n := range used {
		switch {
		case n < 0:
			return g, fmt.Errorf("%w: %d of %q is negative", ErrInvalidAmounts, n, unit)
		case n > t.reserved(unit) && t.isBeyondReason(unit, n):
			return g, fmt.Errorf("%w: %d of %q is more than %d times the quota", ErrInvalidAmounts, n, unit, mostUsed)
		case unit == "":
			g.N = t.reserved(unit) - n
		case slices.Contains(units, unit):
			unused = append(unused, engine.Amount{Unit: unit, N: t.reserved(unit) - n})
		default:
			return g, engine.UnknownUnit(unit, units)
		}
	}
	g.Amounts = engine.AmountsOf(unused...)
	return g, nil
}

// mostUsed is how many times its quota a turn may have used: a debt is booked in
// pieces that fit the quota.
const mostUsed = 1000

// isBeyondReason reports whether so much of a unit would take too long to book.
func (t *Turn) isBeyondReason(unit string, n int) bool {
	calls, amounts, err := Amounts{unit: n/mostUsed + min(1, n%mostUsed)}.split()
	return err == nil && errors.Is(t.limiter.fitsKnown(calls, amounts), ErrExceedsQuota)
}

// fitsKnown is FitsAmounts by the quotas that were heard of last, stored or not.
func (l *limiter) fitsKnown(n int, amounts engine.Amounts) error {
	if storer, stores := l.count.(engine.Storer); stores {
		return storer.FitsKnown(n, amounts)
	}
	return l.count.FitsAmounts(n, amounts)
}

// Settle is [Turn.Settle] for a reservation whose slot has come. Before that the
// error matches [ErrTurnAhead]: Cancel gives all of it back. After Cancel it
// matches [ErrReservationOver].
func (r *Reservation) Settle(ctx context.Context, used Amounts) error {
	turn, err := r.taken(ctx, used)
	if err != nil {
		return r.limiter.named(err)
	}
	return turn.Settle(ctx, used)
}

// taken is the turn of a reservation whose slot has come. Amounts that cannot
// be settled leave the reservation as it is.
func (r *Reservation) taken(ctx context.Context, used Amounts) (*Turn, error) {
	if err := ready(ctx, "nothing was settled"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.turn != nil:
		return r.turn, nil
	case r.waits || !r.over && r.Delay() > 0:
		return nil, ErrTurnAhead
	case r.over:
		return nil, ErrReservationOver
	case r.limiter.count == nil:
		return nil, fmt.Errorf("%w: Settle", ErrUnsupported)
	}
	turn := &Turn{limiter: r.limiter, grant: &r.wait.Reply.Grant}
	if _, err := turn.unused(used); err != nil {
		return nil, err
	}
	r.over, r.turn = true, turn
	return turn, nil
}

// Observe tells the queue what the upstream says is left of a unit now. If that
// is less than what is available, the difference is booked now, and no refund
// cancels it. If it is more, nothing happens. The unit "" is calls.
//
// It is meant for headers such as x-ratelimit-remaining-tokens. Calls that are
// on their way count as used for the queue, and not yet for the upstream, so
// what the upstream says late does no harm.
func (q *Queue) Observe(ctx context.Context, unit string, remaining int) error {
	if err := ready(ctx, "nothing was booked"); err != nil {
		return q.named(err)
	}
	if remaining < 0 {
		return q.named(fmt.Errorf("%w: %d of %q remaining is negative", ErrInvalidAmounts, remaining, unit))
	}
	if q.count == nil {
		return q.named(fmt.Errorf("%w: Observe", ErrUnsupported))
	}
	return q.named(timeout.Do(ctx, func(ctx context.Context) error { return q.count.Observe(ctx, unit, remaining) }))
}
