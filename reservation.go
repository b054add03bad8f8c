package fairlimit

import (
	"context"
	"errors"
	"time"
)

// Reservation is a turn that was granted. It may be used by several goroutines at once; it comes from ReserveN only.
type Reservation struct {
	queue  *queue
	turn   turn
	held   *held
	cancel chan struct{} // holds one: who puts it in may look at gone, and set it
	gone   bool
}

// Delay is what is left to sleep until the turn, 0 when it is due.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.turn.slot)) }

// Slot is when the turn is due, on this process's clock; it carries a monotonic reading.
func (r *Reservation) Slot() time.Time { return r.turn.slot }

// Cancel gives the permits back while the slot lies ahead; those granted meanwhile keep their turns. After the slot, and the second time, it
// does nothing and returns nil. An error that matches [ErrOutcomeUnknown] means that the permits were given back once or not at all; after any
// other error they are still held and Cancel may be called again. A ctx that ends does not call the cancel back.
func (r *Reservation) Cancel(ctx context.Context) error {
	if ctx.Err() != nil {
		return left(ctx, "nothing was given back")
	}
	select {
	case r.cancel <- struct{}{}:
		defer func() { <-r.cancel }()
	case <-ctx.Done():
		return left(ctx, "another Cancel is under way")
	}
	if r.gone || r.Delay() == 0 {
		return nil
	}
	err := r.queue.giveBack(ctx, r.turn.grant)
	r.gone = err == nil || errors.Is(err, ErrOutcomeUnknown)
	if err == nil {
		r.held.cancelled(r)
	}
	return err
}
