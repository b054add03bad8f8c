package fairlimit

import (
	"context"
	"errors"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// Reserver is what a [Limiter] on a queueing engine is as well: fair is, window
// is not.
type Reserver interface {
	Limiter

	// ReserveN takes the next turn for n ≥ 1 permits and returns at once; the
	// caller sleeps Delay and goes, or cancels. ctx bounds the call, not the
	// turn. A turn further ahead than [WithMaxWait] is refused with a
	// [*RefusedError].
	ReserveN(ctx context.Context, n int) (*Reservation, error)
}

type reserver struct{ *limiter }

var _ Reserver = (*reserver)(nil)

func (r *reserver) ReserveN(ctx context.Context, n int) (reservation *Reservation, err error) {
	if err := r.check(ctx, n); err != nil {
		return nil, err
	}
	if r.fallback == nil {
		return r.reserveTurn(ctx, n)
	}
	err = r.fallback.reserve(ctx, func() (err error) {
		reservation, err = r.reserveTurn(ctx, n)
		return err
	})
	return reservation, err
}

func (l *limiter) reserveTurn(ctx context.Context, n int) (*Reservation, error) {
	if err := l.backlog.enter(n); err != nil {
		return nil, err
	}
	reply, err := l.reserve(ctx, n, l.maxWait)
	if err != nil {
		l.backlog.leave(n)
		return nil, err
	}
	reservation := &Reservation{
		batch: &l.batch, backlog: l.backlog,
		grant: reply.Grant, slot: reply.Slot(), cancel: make(chan struct{}, 1),
	}
	l.backlog.keep(reservation)
	return reservation, nil
}

// Reservation is a turn that was granted. It may be used by several goroutines
// at once; it comes from ReserveN only.
type Reservation struct {
	batch   *batch.Batcher
	backlog *backlog
	grant   engine.Grant
	slot    time.Time
	cancel  chan struct{} // a lock that a ctx can leave: whoever puts one in may use gone
	gone    bool
}

// Delay is what is left to sleep until the turn, 0 when it is due.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.slot)) }

// Slot is when the turn is due, on this process's clock; it carries a monotonic
// reading.
func (r *Reservation) Slot() time.Time { return r.slot }

// Cancel gives the permits back while the slot lies ahead; those granted
// meanwhile keep their turns. After the slot, and the second time, it does
// nothing and returns nil.
//
// An error that matches [ErrOutcomeUnknown] means that the permits were given
// back once or not at all. After any other error they are still held, and
// Cancel may be called again. A ctx that ends does not call the cancel back.
func (r *Reservation) Cancel(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxerr.Ended(ctx, "nothing was given back")
	}
	select {
	case r.cancel <- struct{}{}:
		defer func() { <-r.cancel }()
	case <-ctx.Done():
		return ctxerr.Ended(ctx, "another Cancel is under way")
	}
	if r.gone || r.Delay() == 0 {
		return nil
	}
	err := r.batch.Return(ctx, r.grant)
	r.gone = err == nil || errors.Is(err, ErrOutcomeUnknown)
	if err == nil {
		r.backlog.cancelled(r)
	}
	return err
}
