package line

import (
	"context"
	"fmt"
	"sync"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// returns are turns on their way back. One question is under way at a time, and
// what comes meanwhile goes out together in the next one.
//
// Invariant, under mu: if something waits, sendReturns runs.
type returns struct {
	mu      sync.Mutex
	waiting []returned
	sending bool
}

type returned struct {
	engine.Return
	done chan error
}

// Return gives back what a turn does not use. It returns once Redis has answered,
// or when ctx ends.
func (l *Line) Return(ctx context.Context, r engine.Return) error {
	done := l.giveBack(r)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ctxerr.Ended(ctx, "permits were on their way back"))
	}
}

// Abandon is [Line.Return] of a whole turn, and does not wait for the answer.
func (l *Line) Abandon(t engine.Turn) { l.giveBack(Whole(t)) }

// Whole is the return of a turn of which nothing was used.
func Whole(t engine.Turn) engine.Return { return engine.Return{Turn: t, N: t.N, Amounts: t.Amounts} }

func (l *Line) giveBack(r engine.Return) <-chan error {
	done := make(chan error, 1)
	l.returns.mu.Lock()
	defer l.returns.mu.Unlock()
	l.returns.waiting = append(l.returns.waiting, returned{r, done})
	if !l.returns.sending {
		l.returns.sending = true
		go l.sendReturns()
	}
	return done
}

func (l *Line) sendReturns() {
	for {
		l.returns.mu.Lock()
		n := min(len(l.returns.waiting), engine.MostRequests)
		sent := l.returns.waiting[:n:n]
		l.returns.waiting = l.returns.waiting[n:]
		l.returns.sending = n > 0
		l.returns.mu.Unlock()
		if n == 0 {
			return
		}
		all := make([]engine.Return, n)
		for i, r := range sent {
			all[i] = r.Return
		}
		_, err := timeout.Call(context.Background(), l.Patience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Engine.GiveBack(ctx, all)
		})
		for _, r := range sent {
			r.done <- err
		}
	}
}
