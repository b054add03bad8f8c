package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/line"
	"github.com/fairlimit/fairlimit/internal/turns"
)

const (
	// mostMissed is how many turns a caller misses before it gets [ErrMissed].
	mostMissed = 10

	// leastLateness is by how much Go's timers on Linux can be late. Callers may be
	// as late, even if half the guard is less.
	leastLateness = time.Millisecond
)

// errLate says that a caller woke too late for its turn.
var errLate = errors.New("woke too late")

// waitForTurn sleeps until the caller may go with a turn.
func (l *limiter) waitForTurn(ctx context.Context, n int, amounts engine.Amounts) (turn engine.Turn, err error) {
	request := l.request(n, amounts)
	if deadline, hasOne := ctx.Deadline(); hasOne {
		request.accept(deadline)
	}
	err = l.trace.waits(n, func() error {
		var reply *line.Reply
		if reply, err = l.ask(ctx, request); err == nil {
			turn, err = l.waitOut(ctx, request, reply)
		}
		return err
	})
	return turn, err
}

// request is what one call asks for, and why it may be refused.
type request struct {
	line.Request
	limit string // what says how late a turn may come
}

func (l *limiter) request(n int, amounts engine.Amounts) *request {
	r := &request{Request: line.Request{N: n, Amounts: amounts}}
	if l.maxWait > 0 {
		r.Latest, r.limit = time.Now().Add(l.maxWait), "WithMaxWait"
	}
	return r
}

// accept bounds the turn by the deadline of a ctx.
func (r *request) accept(deadline time.Time) {
	if r.Latest.IsZero() || deadline.Before(r.Latest) {
		r.Latest, r.limit = deadline, "ctx's deadline"
	}
}

// ask stands in line for a turn. A refusal is an error.
func (l *limiter) ask(ctx context.Context, r *request) (*line.Reply, error) {
	reply, err := l.line.Ask(ctx, r.Request)
	switch {
	case err != nil:
		return reply, err
	case reply.Verdict != engine.Granted:
		return reply, r.refused(reply.Comes(), reply.News.Paused)
	}
	tell(l.trace.Granted, r.N, reply.Wait)
	return reply, nil
}

// waitOut sleeps until a turn comes that was granted. If the turn does not stand,
// or was missed, it asks for another.
func (l *limiter) waitOut(ctx context.Context, r *request, reply *line.Reply) (engine.Turn, error) {
	for missed := 0; ; {
		err := l.goWith(ctx, r, reply)
		switch err {
		case nil:
			return reply.Turn, nil
		case turns.ErrVoid:
			r.WasVoid, r.Slot = true, reply.Turn.Slot
		case errLate:
			r.WasVoid, r.First = false, true
			if missed++; missed == mostMissed {
				return engine.Turn{}, ErrMissed
			}
		default:
			return engine.Turn{}, err
		}
		if reply, err = l.ask(ctx, r); err != nil {
			if refused, ok := err.(*RefusedError); ok {
				refused.missed = missed
			}
			return engine.Turn{}, err
		}
	}
}

// goWith returns nil at the moment at which the caller may go with the turn. Else the
// turn is void, or on its way back.
func (l *limiter) goWith(ctx context.Context, r *request, reply *line.Reply) error {
	due, err := reply.Comes(), error(nil)
	if l.queue != nil {
		due, err = l.sleepers.Sleep(ctx, reply.Turn, reply.News, r.Latest)
	}
	switch {
	case err == turns.ErrVoid:
		return err
	case err == turns.ErrTooLate:
		l.line.Abandon(reply.Turn)
		return r.refused(due, l.sleepers.Paused())
	case err != nil:
		l.line.Abandon(reply.Turn)
		return ctxerr.Ended(ctx, "left before the turn came")
	}
	late := time.Since(due)
	if guard := reply.News.Guard; guard == 0 || late <= max(guard/2, leastLateness) {
		if l.trace.Taken != nil { // confirmed by its own answer, or since
			l.trace.Taken(r.N, late, reply.Wait <= engine.Within || l.sleepers.Confirmed())
		}
		return nil
	}
	tell(l.trace.Missed, r.N, late)
	if err := l.line.Return(ctx, line.Whole(reply.Turn)); err != nil && ctx.Err() != nil {
		return ctxerr.Ended(ctx, "left after a turn was missed")
	}
	return errLate
}

// refused says that a turn comes too late, and whether that is because of a pause.
func (r *request) refused(comes time.Time, paused time.Duration) *RefusedError {
	inTime := !r.Now && !comes.Add(-paused).After(r.Latest)
	return &RefusedError{Wait: max(0, time.Until(comes)), limit: r.bound(), paused: paused > 0 && inTime}
}

// bound says how late a turn may come.
func (r *request) bound() string {
	if r.Now {
		return "an immediate turn"
	}
	left := time.Until(r.Latest).Round(time.Microsecond)
	if left < 0 {
		return fmt.Sprintf("%s (%v ago)", r.limit, -left)
	}
	return fmt.Sprintf("%s (%v left)", r.limit, left)
}

// turnNow is a turn that is due at once, or none.
func (l *limiter) turnNow(ctx context.Context, n int) (turn engine.Turn, ok bool, err error) {
	r := l.request(n, "")
	r.Now, r.Latest = true, time.Time{}
	reply, err := l.ask(ctx, r)
	if err == nil {
		r.Latest = time.Now() // a pause that is heard of now does not hold it
		err = l.goWith(ctx, r, reply)
	}
	l.trace.refused(n, err)
	var refused *RefusedError
	switch {
	case err == nil:
		return reply.Turn, true, nil
	case errors.As(err, &refused), err == errLate, err == turns.ErrVoid:
		return turn, false, nil
	}
	return turn, false, err
}
