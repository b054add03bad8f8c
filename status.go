package fairlimit

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/internal/timeout"
)

// Status is the state of a limiter at the moment at which it was asked. With
// flows it says nothing of those who wait in line for room in the look-ahead,
// so Delay is not how long one more caller would wait: see [WithFlow].
type Status struct {
	Available int           // permits a caller could take now without waiting; 0 during a pause
	Queued    int           // permits granted for the future; 0 for window
	Delay     time.Duration // how long one more permit would have to wait, with the rest of a pause
	Paused    time.Duration // how much longer the queue is paused, see [Queue.Pause]
}

// Status and Reset are not combined: each is a question of its own.

// Status reads the state of the limiter: see [Limiter].
func (l *limiter) Status(ctx context.Context) (Status, error) {
	if err := ready(ctx, "nothing was asked"); err != nil {
		return Status{}, l.named(err)
	}
	status, err := timeout.Call(ctx, l.asker.Engine.Status)
	return Status(status), l.named(err)
}

// Reset forgets everything granted and ends a pause: see [Limiter]. Stored
// quotas stay.
func (l *limiter) Reset(ctx context.Context) error {
	if err := ready(ctx, "nothing was reset"); err != nil {
		return l.named(err)
	}
	asked := time.Now()
	err := timeout.Do(ctx, l.asker.Engine.Reset)
	if err == nil && !l.sleepers.Free(asked) && l.sleepers.Look != nil {
		// Somebody has paused meanwhile. Redis knows whether that came first. If it
		// does not say so now, those who are held look before they go.
		_ = timeout.Do(ctx, l.sleepers.Look)
	}
	return l.named(err)
}
