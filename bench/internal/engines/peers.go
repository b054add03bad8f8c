package engines

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// poll asks until the answer is yes, and sleeps in between for as long as it is
// told. With a yes comes the wait until the turn.
func poll(
	ctx context.Context, n int, now func() time.Duration, ask func() (yes bool, wait time.Duration, err error),
) (*measure.Turn, error) {
	for {
		sent := now()
		yes, wait, err := ask()
		switch {
		case err != nil:
			return nil, err
		case yes:
			return &measure.Turn{Permits: n, Sent: sent, Replied: now(), Wait: wait}, nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// queue is that of a process: who came first is served first.
type queue chan struct{}

func (q queue) enter(ctx context.Context) error {
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q queue) leave() { <-q }
