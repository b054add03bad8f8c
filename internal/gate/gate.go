// Package gate stands between a client and its upstream: callers pass when
// their turn comes, and an upstream that wants to be left alone closes it for a
// while.
//
// Modules of their own are built on it, and may be older than this one. Its
// exported names stay as they are.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/duration"
)

const (
	// DefaultMaxPause is the longest pause that an answer can cause, unless a
	// program says otherwise.
	DefaultMaxPause = 15 * time.Minute

	// pauseBound ends a Pause that Redis does not answer.
	pauseBound = 5 * time.Second

	// callerBound is how long a caller stays for the word that a pause is
	// recorded. The pause is sent whether the caller stays or not.
	callerBound = 100 * time.Millisecond
)

// Waiter is what a gate needs of a limiter. One that has WaitN or Pause as well
// is asked for them.
type Waiter interface {
	Wait(ctx context.Context) error
}

type (
	manyWaiter interface {
		WaitN(ctx context.Context, n int) error
	}
	taker interface {
		Take(ctx context.Context, a fairlimit.Amounts) (*fairlimit.Turn, error)
	}
	pauser interface {
		Pause(ctx context.Context, d time.Duration) error
	}
)

// Gate lets callers through in their turn. The zero value is open. It may be
// used by any number of goroutines.
type Gate struct {
	mu    sync.Mutex
	until time.Time // shut until then, for the callers of this value
}

// CheckMaxPause refuses a bound that cannot work. 0 is [DefaultMaxPause].
func CheckMaxPause(bound time.Duration) error {
	err := duration.Check(bound)
	if bound < 0 {
		err = fmt.Errorf("%v, want at least 0", bound)
	}
	if err != nil {
		return fmt.Errorf("%w: MaxPause is %w", fairlimit.ErrInvalidOption, err)
	}
	return nil
}

// Bounded is the pause, but no longer than the bound.
func Bounded(pause, bound time.Duration) time.Duration {
	return min(pause, cmp.Or(bound, DefaultMaxPause))
}

// Enter returns nil when it is the caller's turn for n permits. 0 permits need
// no turn. A gate that this process holds shut is waited for first, and is
// refused at once to those whose deadline comes before.
func (g *Gate) Enter(ctx context.Context, l Waiter, n int) error {
	switch {
	case l == nil:
		return fmt.Errorf("%w: the Limiter is nil", fairlimit.ErrInvalidOption)
	case n < 0:
		return fmt.Errorf("%w: %d asked for, want at least 0", fairlimit.ErrInvalidPermits, n)
	case n == 0:
		return nil
	}
	return g.pass(ctx, func() error { return waitTurn(ctx, l, n) })
}

// Take is Enter for amounts. Its turn can be settled.
func (g *Gate) Take(ctx context.Context, l Waiter, a fairlimit.Amounts) (turn *fairlimit.Turn, err error) {
	t, ok := l.(taker)
	switch {
	case l == nil:
		return nil, fmt.Errorf("%w: the Limiter is nil", fairlimit.ErrInvalidOption)
	case !ok:
		return nil, fmt.Errorf("%w: amounts of a limiter that has no Take (%T)", fairlimit.ErrUnsupported, l)
	}
	err = g.pass(ctx, func() (err error) {
		turn, err = t.Take(ctx, a)
		return err
	})
	return turn, err
}

// pass returns nil once a turn has come that may be used.
func (g *Gate) pass(ctx context.Context, turn func() error) error {
	for {
		if err := g.waitOpen(ctx); err != nil {
			return err
		}
		if err := turn(); err != nil {
			return err
		}
		// A turn that came while the gate was shut is gone. To go with it
		// later would let all such callers go at one moment.
		if time.Until(g.end()) <= 0 {
			return nil
		}
	}
}

// Shut pauses the limiter for everybody who shares it. If it cannot pause, or
// if that fails, this gate alone is held shut. Failed, unless nil, is told of
// a failure, perhaps after Shut has returned.
//
// The pause outlives ctx. Shut returns soon, whether it is recorded or not.
func (g *Gate) Shut(ctx context.Context, l Waiter, pause time.Duration, failed func(error)) {
	until := time.Now().Add(pause)
	p, ok := l.(pauser)
	if !ok {
		g.keepShut(until)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseBound)
		defer cancel()
		if err := p.Pause(ctx, max(pause, time.Microsecond)); err != nil { // a date may be that near
			g.keepShut(until)
			if failed != nil {
				failed(fmt.Errorf("fairlimit: pause of %v: %w", pause, err))
			}
		}
	}()
	stay := time.NewTimer(callerBound)
	defer stay.Stop()
	select {
	case <-done:
	case <-stay.C:
	case <-ctx.Done():
	}
}

func (g *Gate) end() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until
}

// keepShut keeps the gate shut for the callers of this value. The longest counts.
func (g *Gate) keepShut(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

func (g *Gate) waitOpen(ctx context.Context) error {
	for {
		until := g.end()
		rest := time.Until(until)
		if rest <= 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			return fmt.Errorf("%w as the upstream asked: %w", fairlimit.ErrPaused, &fairlimit.RefusedError{Wait: rest})
		}
		if clock.SleepUntil(ctx, until) != nil {
			return ctxerr.Ended(ctx, "left during a pause that the upstream asked for")
		}
	}
}

func waitTurn(ctx context.Context, l Waiter, n int) error {
	if n == 1 {
		return l.Wait(ctx)
	}
	many, ok := l.(manyWaiter)
	if !ok {
		return fmt.Errorf("%w: %d permits of a limiter that has no WaitN (%T)", fairlimit.ErrUnsupported, n, l)
	}
	return many.WaitN(ctx, n)
}
