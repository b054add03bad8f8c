package fairlimit

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
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
// limiters of a name the same units. A name has up to 32 letters, digits, - and _,
// begins with a letter, and is not one of "burst", "calls", "flows" and "quota".
//
// A window of a unit never holds more than its quota of what turns reserved. Of
// what turns used it holds more by what its own turns reserved too little.
//
// In the share of a flow a turn counts by the unit of which it takes the most,
// as a part of what that unit's quota lets through in a while.
//
// For an engine that counts calls only, such as window, the error of New matches
// [ErrUnsupported].
func WithUnit(unit string, quotas ...Quota) Option {
	return func(o *options) {
		switch {
		case !quotatext.IsUnit(unit):
			o.refuse("WithUnit: %.40q is no name of a unit: %s", unit, quotatext.UnitNames)
		case len(quotas) == 0:
			o.refuse("WithUnit: %q has no quota", unit)
		case slices.ContainsFunc(o.units, func(u engine.Unit) bool { return u.Name == unit }):
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

// split is the calls and the further amounts of a turn.
func (a Amounts) split() (calls int, amounts engine.Amounts, err error) {
	calls = 1
	further := map[string]int{}
	for unit, n := range a {
		switch {
		case n < 0:
			return 0, "", fmt.Errorf("%w: %d of %q is negative", ErrInvalidAmounts, n, unit)
		case unit == "":
			calls = n
		default:
			further[unit] = n
		}
	}
	if amounts = engine.AmountsOf(further); calls == 0 && amounts == "" {
		return 0, "", fmt.Errorf("%w: nothing is asked for", ErrInvalidAmounts)
	}
	return calls, amounts, nil
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
	turn, err := q.waitForTurn(ctx, n, amounts)
	if err != nil {
		return nil, q.named(err)
	}
	return &Turn{limiter: q.limiter, turn: turn}, nil
}

// checkAmounts returns the error of a call that never goes further.
func (q *Queue) checkAmounts(ctx context.Context, a Amounts) (n int, amounts engine.Amounts, err error) {
	if err = ready(ctx, "nothing was consumed"); err != nil {
		return 0, "", err
	}
	if n, amounts, err = a.split(); err != nil {
		return 0, "", err
	}
	for unit := range a {
		if units := q.queue.Units(); unit != "" && !slices.Contains(units, unit) && q.own != nil {
			return 0, "", engine.UnknownUnit(unit, units)
		}
	}
	return n, amounts, q.engine.Fits(n, amounts)
}

// ReserveAmounts is [Queue.ReserveN] for amounts. Its errors are those of
// [Queue.Take].
func (q *Queue) ReserveAmounts(ctx context.Context, a Amounts) (*Reservation, error) {
	n, amounts, err := q.checkAmounts(ctx, a)
	if err != nil {
		return nil, q.named(err)
	}
	return q.reserve(ctx, n, amounts)
}

// Turn is what [Queue.Take] took. Several goroutines may use it at once. A turn
// that nobody settles counts as it was reserved.
type Turn struct {
	limiter *limiter
	turn    engine.Turn
	once    // over once it is settled
}

// Settle says what the turn really used of the units named. Those that are not
// named stay as they were reserved.
//
// What was used less counts no more, so whoever asks later goes sooner. What was
// used more is a debt: it counts at the newest slot, so whoever asks later goes
// later. A debt that is larger than the quota is paid as one quota. Turns that are
// held stay where they are.
//
// A turn is settled once: another Settle does nothing, and so does one after a
// [Queue.Requeue]. If the error matches [ErrOutcomeUnknown], the turn was settled
// or not, and is not settled again. For a unit that the queue does not have it
// matches [ErrUnknownUnit], for amounts that are negative or more than 10⁹
// [ErrInvalidAmounts]; then the turn can still be settled.
func (t *Turn) Settle(ctx context.Context, used Amounts) error {
	return t.limiter.named(t.settle(ctx, used))
}

func (t *Turn) settle(ctx context.Context, used Amounts) error {
	if err := ready(ctx, "nothing was settled"); err != nil {
		return err
	}
	r, err := t.unused(used)
	if err != nil || !t.claim(func() bool { return true }) {
		return err
	}
	if r.N != 0 || r.Amounts != "" {
		err = t.try(func() error { return t.limiter.line.Return(ctx, r) })
	}
	if err == nil {
		t.tell(used)
	}
	return err
}

// tell tells the trace what was settled.
func (t *Turn) tell(used Amounts) {
	if settled := t.limiter.trace.Settled; settled != nil {
		for unit, n := range used {
			settled(unit, t.reserved(unit), n)
		}
	}
}

// reserved is how much of a unit the turn took.
func (t *Turn) reserved(unit string) int {
	if unit == "" {
		return t.turn.N
	}
	return t.turn.Amounts.All()[unit]
}

// mostUsed is how much of a unit a turn can have used.
const mostUsed = 1_000_000_000

// unused is what the turn did not use.
func (t *Turn) unused(used Amounts) (engine.Return, error) {
	r, units := engine.Return{Turn: t.turn}, t.limiter.queue.Units()
	unused := map[string]int{}
	for unit, n := range used {
		switch {
		case n < 0:
			return r, fmt.Errorf("%w: %d of %q is negative", ErrInvalidAmounts, n, unit)
		case n > mostUsed:
			return r, fmt.Errorf("%w: %d of %q is more than %d", ErrInvalidAmounts, n, unit, mostUsed)
		case unit == "":
			r.N = t.reserved(unit) - n
		case slices.Contains(units, unit):
			unused[unit] = t.reserved(unit) - n
		default:
			return r, engine.UnknownUnit(unit, units)
		}
	}
	r.Amounts = engine.AmountsOf(unused)
	return r, nil
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
	}
	turn := &Turn{limiter: r.limiter, turn: r.reply.Turn}
	if _, err := turn.unused(used); err != nil {
		return nil, err
	}
	r.over, r.turn = true, turn
	return turn, nil
}
