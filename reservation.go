package fairlimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/line"
)

// cancelBound is for how long a reservation that was due at once can be given
// back.
const cancelBound = 250 * time.Millisecond

// ReserveN takes the next turn for n ≥ 1 permits and returns at once. The caller
// then waits for the turn, with [Reservation.Wait] or by a sleep of its own, or
// cancels it. Ctx bounds the call, not the turn. A turn further ahead than
// [WithMaxWait] is refused with a [*RefusedError].
//
// With a flow, ReserveN waits in line until there is room in its share.
func (q *Queue) ReserveN(ctx context.Context, n int) (*Reservation, error) {
	if err := q.check(ctx, n); err != nil {
		return nil, q.named(err)
	}
	return q.reserve(ctx, n, "")
}

// reserve takes a turn, whenever it comes.
func (q *Queue) reserve(ctx context.Context, n int, amounts engine.Amounts) (*Reservation, error) {
	request := q.request(n, amounts)
	reply, err := q.ask(ctx, request)
	if err != nil {
		q.trace.refused(n, err)
		return nil, q.named(err)
	}
	slot, _ := q.sleepers.Due(reply.Turn, reply.News)
	r := &Reservation{limiter: q.limiter, request: request, reply: reply, slot: slot}
	r.stands, r.end = context.WithCancel(context.Background())
	tell(q.trace.Reserved, n, slot)
	return r, nil
}

// Reservation is a turn that ReserveN granted. Several goroutines may use it at
// once.
type Reservation struct {
	limiter *limiter
	request *request
	reply   *line.Reply
	slot    time.Time
	stands  context.Context    // ended by a Cancel, and with it the Wait that is under way
	end     context.CancelFunc // ends stands

	once        // over once it was waited for, taken or given back
	waits bool  // a Wait is under way
	turn  *Turn // that was taken or is settled, nil before
}

// Delay is how long it is until the turn, and 0 once it is due.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.slot)) }

// Slot is when the turn is due, on this process's clock. The time carries a
// monotonic reading. It does not move with a pause or another turn that Wait takes.
func (r *Reservation) Slot() time.Time { return r.slot }

// Wait sleeps until the turn has come, as Wait of a [Limiter] does: it hears of a
// pause, a requeue and a reset, and does not take a turn that it missed. To hear in
// time, call it a second before the slot, or sooner. A turn that comes after ctx's
// deadline is refused, and one that a pause puts off for longer than [WithMaxWait]
// allows since ReserveN. If Wait returns an error, the permits are given back. The
// reservation is then over, as it is after a turn was taken and after Cancel:
// another Wait returns [ErrReservationOver]. If ctx has ended before Wait begins,
// nothing happens and the reservation stands.
//
// A Cancel ends a Wait that is under way. The error of Wait then matches
// [ErrReservationOver] as well.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.limiter.named(r.waitOnce(ctx))
}

func (r *Reservation) waitOnce(ctx context.Context) error {
	if err := ready(ctx, "the reservation still stands"); err != nil {
		return err
	}
	if !r.claim(func() bool { r.waits = true; return true }) {
		return ErrReservationOver
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.stands, func() { stop(ErrReservationOver) })()
	t := r.limiter.trace
	tell(t.Unreserved, r.request.N, r.slot)
	return t.waits(r.request.N, func() error { return r.waitOut(ctx) })
}

func (r *Reservation) waitOut(ctx context.Context) error {
	if deadline, hasOne := ctx.Deadline(); hasOne {
		r.request.accept(deadline)
	}
	turn, err := r.limiter.waitOut(ctx, r.request, r.reply)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = false
	if err == nil {
		r.turn = &Turn{limiter: r.limiter, turn: turn}
	}
	return err
}

// Cancel gives the permits back while the slot lies ahead. Everybody else keeps
// their turns. If a Wait is under way, Cancel ends it, and Wait gives them back as
// every caller does that leaves. Otherwise, after the slot and the second time, Cancel
// does nothing and returns nil.
//
// A reservation that was due at once, with Delay 0, can be given back within
// 250 ms. So a caller can take permits of several limiters, all or none. Cancel
// says that nobody went with the turn: do not defer it if the turn is used.
//
// If the error matches [ErrOutcomeUnknown], the permits were given back once or
// not at all. After any other error they are still held, and Cancel may be
// called again.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.limiter.named(r.cancel(ctx))
}

func (r *Reservation) cancel(ctx context.Context) error {
	if err := ready(ctx, "nothing was given back"); err != nil {
		return err
	}
	if !r.claim(r.isOurs) {
		r.endWait()
		return nil
	}
	err := r.try(func() error { return r.limiter.line.Return(ctx, line.Whole(r.reply.Turn)) })
	if err == nil {
		tell(r.limiter.trace.Unreserved, r.request.N, r.slot)
	}
	return err
}

// endWait ends a Wait that is under way.
func (r *Reservation) endWait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits {
		r.end()
	}
}

// isOurs reports whether the permits can be given back: the slot lies ahead, or
// it was due at once and nobody has gone with it.
func (r *Reservation) isOurs() bool {
	ahead := time.Until(r.slot)
	return ahead > 0 || r.reply.Wait <= 0 && ahead > -cancelBound
}

// once guards what happens once: a turn is settled, a reservation is over. Mu
// guards other fields of its owner as well.
type once struct {
	mu   sync.Mutex
	over bool
}

// claim marks it as over and returns true, if it is not over and may returns true.
func (o *once) claim(may func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || !may() {
		return false
	}
	o.over = true
	return true
}

// try does what was claimed. If Redis was not reached, or refused, others can claim it.
func (o *once) try(do func() error) error {
	err := do()
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = false
	}
	return err
}
