package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// cancelBound is for how long a reservation that was due at once can be given
// back.
const cancelBound = 250 * time.Millisecond

// Reserver is a [Limiter] that can also reserve turns. A [Queue] is one; a
// limiter on window is not.
type Reserver interface {
	Limiter

	// ReserveN takes the next turn for n ≥ 1 permits and returns at once. The
	// caller then waits for the turn, with [Reservation.Wait] or by a sleep of
	// its own, or cancels it. Ctx bounds the call, not the turn. A turn further
	// ahead than [WithMaxWait] is refused with a [*RefusedError].
	//
	// With a flow, only callers within the look-ahead have a turn: see
	// [WithFlow]. So ReserveN waits in line until there is room.
	ReserveN(ctx context.Context, n int) (*Reservation, error)
}

// ReserveN takes the next turn for n ≥ 1 permits and returns at once, unless it
// stands in the line of a flow: see [Reserver].
func (q *Queue) ReserveN(ctx context.Context, n int) (reservation *Reservation, err error) {
	if err := q.check(ctx, n); err != nil {
		return nil, q.named(err)
	}
	if q.fallback == nil {
		reservation, err = q.reserveTurn(ctx, n)
	} else {
		err = q.fallback.reserve(ctx, func() (err error) {
			reservation, err = q.reserveTurn(ctx, n)
			return err
		})
	}
	q.trace.refused(n, err)
	return reservation, q.named(err)
}

func (l *limiter) reserveTurn(ctx context.Context, n int) (*Reservation, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	request := l.request(n, l.maxWait)
	reply, err := l.reserve(ctx, &request)
	if err != nil {
		l.backlog.leave(n)
		return nil, err
	}
	l.trace.granted(n, reply.Wait)
	answer := *reply.Answer // its array holds the answers of others
	reply.Answer = &answer
	r := &Reservation{limiter: l, request: request, reply: reply, busy: make(chan struct{}, 1)}
	r.count()
	l.trace.reserved(n, reply.Slot())
	return r, nil
}

// count has a reservation count until its slot: for [WithMaxQueued], which has
// entered it, and for the share of its flow.
func (r *Reservation) count() {
	l, n := r.limiter, r.reply.Grant.N
	if !l.counts() {
		return
	}
	passes := func() {
		l.backlog.leave(n)
		l.passed(n)
	}
	if d := r.Delay(); d > 0 {
		r.timer = time.AfterFunc(d, passes)
	} else {
		passes()
	}
}

// counts reports whether anything counts what the limiter holds ahead.
func (l *limiter) counts() bool { return l.backlog != nil || l.line != nil }

// uncount ends what count began, if the slot has not ended it.
func (r *Reservation) uncount() {
	if r.timer != nil && r.timer.Stop() {
		r.limiter.backlog.leave(r.reply.Grant.N)
		r.limiter.passed(r.reply.Grant.N)
	}
}

// countAgain counts a reservation as a caller that waits, beyond its slot.
func (r *Reservation) countAgain() {
	if l := r.limiter; l.counts() && (r.timer == nil || !r.timer.Stop()) {
		l.backlog.leave(-r.reply.Grant.N)
		l.passed(-r.reply.Grant.N)
	}
}

// Reservation is a turn that ReserveN granted. Several goroutines may use it at
// once.
type Reservation struct {
	limiter *limiter
	request coalesce.Request
	busy    chan struct{} // a lock that a ctx can leave: whoever puts one in may change what follows
	timer   *time.Timer   // at whose end the reservation counts no longer; nil if it does not count
	stage   stage
	unknown bool // a Cancel ended its Wait while that was being granted another turn

	mu      sync.Mutex // guards what follows for those who only read
	reply   coalesce.Reply
	stop    context.CancelCauseFunc // ends the Wait that is under way, if there is one
	cancels int                     // that have the lock or wait for it
}

// stage says who gives a reservation back.
//
//	stands ──▶ over      it was taken or given back
//	   │        ▲
//	   ▼        │
//	  left ─────┘        a Cancel ended its Wait, and is to give it back
//
// Invariant, under mu: while cancels > 0, a Wait that is under way was told to
// end. Whoever counts a Cancel calls stop, and whoever sets stop looks whether
// one is counted. So a Cancel never waits for the turn.
//
// A Cancel that was counted gets the lock in the end, whatever becomes of its
// ctx, and gives back what is still held. So what a Wait has left for it is not
// forgotten.
type stage int8

const (
	stands stage = iota
	left
	over
)

// errCancelled ends a Wait. The Cancel gives back what it leaves.
var errCancelled = coalesce.Keep(ErrReservationOver)

// Delay is how long it is until the turn, and 0 once it is due. It goes by the
// answer that granted the turn, or by the newest one if Wait has lined up again.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Slot())) }

// Slot is when the turn is due, on this process's clock. The time carries a
// monotonic reading.
func (r *Reservation) Slot() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reply.Slot()
}

// Wait sleeps until the turn has come, as Wait of a [Limiter] does: it hears of a
// pause, a reset and a narrower quota, and does not take a turn that it missed.
// A turn that comes after ctx's deadline is refused. If Wait returns an error,
// the permits are given back. The reservation is then over, as it is after a
// turn was taken and after Cancel: another Wait returns [ErrReservationOver]. If
// ctx has ended before Wait begins, nothing happens and the reservation stands.
//
// A Wait that is ended by Cancel returns an error that matches
// [ErrReservationOver] as well. Cancel then gives the permits back, and says
// what became of that.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.limiter.named(r.waitOnce(ctx))
}

func (r *Reservation) waitOnce(ctx context.Context) error {
	if err := ready(ctx, "the reservation still stands"); err != nil {
		return err
	}
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	if r.stage != stands {
		return ErrReservationOver
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.begin(stop)
	t := r.limiter.trace
	if t == nil {
		return r.wait(ctx)
	}
	t.unreserved(r.reply.Grant.N, r.reply.Slot())
	return t.waits(r.reply.Grant.N, func() error { return r.wait(ctx) })
}

// begin makes it possible to end a Wait.
func (r *Reservation) begin(stop context.CancelCauseFunc) {
	r.stage = over // unless it is left
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = stop
	if r.cancels > 0 {
		stop(errCancelled)
	}
}

// wait is Wait with the lock held.
func (r *Reservation) wait(ctx context.Context) error {
	l, n := r.limiter, r.reply.Grant.N
	r.countAgain()
	w := wait{request: r.request, reservation: r}
	w.request.Deadline, _ = ctx.Deadline()
	err := l.waitOut(ctx, &w, r.reply)
	if kept, ok := err.(*turns.Kept); ok {
		r.leave(kept)
		return ctxerr.Ended(ctx, "left before the turn came, Cancel gives back what was granted")
	}
	l.backlog.leave(n)
	r.unknown = coalesce.Keeps(ctx) && errors.Is(err, ErrOutcomeUnknown)
	return err
}

// leave makes a reservation of the turn that its Wait held last. Nobody waits for
// it any more.
func (r *Reservation) leave(kept *turns.Kept) {
	answer := *r.reply.Answer
	answer.Grant, answer.Wait = kept.Grant, kept.Slot.Sub(r.reply.Arrived)
	r.stage = left
	r.mu.Lock()
	r.reply.Answer = &answer
	r.mu.Unlock()
	r.count()
}

// keep remembers the turn that a Wait was granted in place of another. Nil is no
// reservation.
func (r *Reservation) keep(reply coalesce.Reply) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply = reply
}

// asOfNow is a reply, which may have come long ago, with what is left of its
// wait.
func asOfNow(reply coalesce.Reply) coalesce.Reply {
	answer := *reply.Answer
	answer.Wait = max(0, time.Until(reply.Slot()))
	return coalesce.Reply{Answer: &answer, Asked: reply.Asked, Arrived: time.Now()}
}

// Cancel gives the permits back while the slot lies ahead. Everybody else keeps
// their turns. After the slot, and the second time, Cancel does nothing and
// returns nil. It ends a Wait that is under way.
//
// A reservation that was due at once, with Delay 0, can be given back within
// 250 ms. So a caller can take permits of several limiters, all or none. Cancel
// says that nobody went with the turn: do not defer it if the turn is used.
//
// If the error matches [ErrOutcomeUnknown], the permits were given back once or
// not at all. After any other error they are still held, and Cancel may be
// called again. That is so for a Cancel that ended a Wait as well. If ctx ends,
// a Cancel that is under way goes on.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.limiter.named(r.cancel(ctx))
}

func (r *Reservation) cancel(ctx context.Context) error {
	if err := ready(ctx, "nothing was given back"); err != nil {
		return err
	}
	r.endWait()
	if err := r.lock(ctx); err != nil {
		go func() {
			r.busy <- struct{}{}
			_ = r.giveBack(ctx) // which does not wait for that
		}()
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return r.giveBack(ctx)
}

// endWait counts a Cancel, and ends the Wait that is under way.
func (r *Reservation) endWait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancels++
	if r.stop != nil {
		r.stop(errCancelled)
	}
}

// giveBack is what a Cancel does with the lock, which it then leaves.
func (r *Reservation) giveBack(ctx context.Context) error {
	defer r.unlock()
	defer r.cancelled()
	if r.unknown {
		r.unknown = false
		return fmt.Errorf("%w: the Wait was being granted another turn", ErrOutcomeUnknown)
	}
	if r.stage == over || !r.isOurs() {
		return nil
	}
	grant, waited := r.reply.Grant, r.stage == left
	grant.Unused = waited || r.reply.Wait <= 0
	err := r.limiter.asker.Return(ctx, grant)
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		r.stage = over
	}
	if err == nil {
		r.uncount()
		if !waited {
			r.limiter.trace.unreserved(grant.N, r.reply.Slot())
		}
	}
	return err
}

// cancelled ends what endWait counted.
func (r *Reservation) cancelled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancels--
}

// isOurs reports whether the permits can be given back: the slot lies ahead, or
// nobody has gone with the turn.
func (r *Reservation) isOurs() bool {
	ahead := time.Until(r.reply.Slot())
	return ahead > 0 || r.stage == left || r.reply.Wait <= 0 && ahead > -cancelBound
}

func (r *Reservation) lock(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctxerr.Ended(ctx, "another call of the reservation is under way")
	}
}

func (r *Reservation) unlock() { <-r.busy }
