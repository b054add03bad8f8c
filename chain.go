package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Chain returns a Limiter that waits for one limiter after the other, such as 5 a
// second for each tenant and 20 a second for all of them:
//
//	limiter := fairlimit.Chain(tenant, all)
//
// Put the limiter of fewer callers first. A caller joins the next line only when
// its turn at the limiter before has come. So a tenant with a hundred calls has
// no more of them in the line of all than its own quota lets go. Each line has
// its own order.
//
// Ctx's deadline holds for all waits together. Each limiter refuses at once a turn
// that comes after it, once the caller's turn at the one before has come.
//
// If a later limiter refuses or fails, what the earlier ones granted is given
// back. It stays taken at a limiter that is not a [*Queue], such as one on
// window, or a [Fallback].
//
// Status says how much is available at all of them, how many are queued at any,
// and the longest delay. Reset resets all. The Limiter also has the method Pause
// of [Queue], which pauses all that can be paused.
//
// It is the way for tenants: each has at most its own quota, and one that is alone
// gets no more. A tenant that may use all of the common quota while others are idle
// is a [WithFlow]. Several quotas for the same calls are one queue, with
// [WithExtraQuota].
//
// A call goes when its last turn comes, which may be long after its first. So
// only the last quota is strict where the calls arrive. The others need a
// [WithGuard] as long as the later waits differ.
//
// If a limiter is nil, or there is none, every call returns an error that matches
// [ErrInvalidOption].
func Chain(limiters ...Limiter) Limiter {
	if len(limiters) == 0 {
		return breaks("Chain: no limiters")
	}
	c := &chain{}
	for i, l := range limiters {
		if engine.IsNil(l) {
			return breaks("Chain: limiter %d is nil", i+1)
		}
		if inner, ok := l.(*chain); ok {
			c.limiters = append(c.limiters, inner.limiters...)
		} else {
			c.limiters = append(c.limiters, l)
		}
	}
	return c
}

type chain struct{ limiters []Limiter } // at least one

var _ Limiter = (*chain)(nil)

func (c *chain) Wait(ctx context.Context) error { return c.WaitN(ctx, 1) }

func (c *chain) WaitN(ctx context.Context, n int) error {
	_, err := c.all(ctx, n, func(l Limiter) (turn *Turn, ok bool, err error) {
		if q, ok := l.(*Queue); ok {
			taken, err := q.waitN(ctx, n)
			return &Turn{limiter: q.limiter, turn: taken}, err == nil, err
		}
		err = l.WaitN(ctx, n)
		return nil, err == nil, err
	})
	return err
}

func (c *chain) Allow(ctx context.Context) (bool, error) { return c.AllowN(ctx, 1) }

func (c *chain) AllowN(ctx context.Context, n int) (bool, error) {
	return c.all(ctx, n, func(l Limiter) (turn *Turn, ok bool, err error) {
		if q, ok := l.(*Queue); ok {
			taken, ok, err := q.allowN(ctx, n)
			return &Turn{limiter: q.limiter, turn: taken}, ok, err
		}
		ok, err = l.AllowN(ctx, n)
		return nil, ok, err
	})
}

// all takes a turn of each limiter, or gives back what it took. A turn is nil if
// it cannot be given back.
func (c *chain) all(
	ctx context.Context, n int, take func(Limiter) (turn *Turn, ok bool, err error),
) (bool, error) {
	if err := c.check(ctx, n); err != nil {
		return false, err
	}
	var taken []*Turn
	for _, l := range c.limiters {
		turn, ok, err := take(l)
		if !ok {
			for _, turn := range taken {
				turn.limiter.line.Abandon(turn.turn)
			}
			return false, err
		}
		if turn != nil {
			taken = append(taken, turn)
		}
	}
	return true, nil
}

// check returns the error of a call that one of the limiters never lets through.
func (c *chain) check(ctx context.Context, n int) error {
	for _, l := range c.limiters {
		if q, ok := l.(*Queue); ok {
			if err := q.check(ctx, n); err != nil {
				return q.named(err)
			}
		}
	}
	return nil
}

func (c *chain) Status(ctx context.Context) (all Status, err error) {
	for i, l := range c.limiters {
		s, err := l.Status(ctx)
		if err != nil {
			return Status{}, err
		}
		if i == 0 || s.Available < all.Available {
			all.Available = s.Available
		}
		all.Queued += s.Queued
		all.Delay, all.Paused = max(all.Delay, s.Delay), max(all.Paused, s.Paused)
	}
	return all, nil
}

func (c *chain) Reset(ctx context.Context) (err error) {
	for _, l := range c.limiters {
		err = errors.Join(err, l.Reset(ctx))
	}
	return err
}

// Pause pauses all that can be paused.
func (c *chain) Pause(ctx context.Context, d time.Duration) (err error) {
	paused := false
	for _, l := range c.limiters {
		if p, ok := l.(pauser); ok {
			paused = true
			err = errors.Join(err, p.Pause(ctx, d))
		}
	}
	if !paused {
		return fmt.Errorf("%w: no limiter of the Chain can be paused", ErrUnsupported)
	}
	return err
}

// broken is a limiter that could not be made by a function without an error: every
// call returns why.
type broken struct{ why error }

var _ Limiter = broken{}

func breaks(format string, args ...any) Limiter {
	return broken{fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(format, args...))}
}

func (b broken) Wait(context.Context) error                 { return b.why }
func (b broken) WaitN(context.Context, int) error           { return b.why }
func (b broken) Allow(context.Context) (bool, error)        { return false, b.why }
func (b broken) AllowN(context.Context, int) (bool, error)  { return false, b.why }
func (b broken) Status(context.Context) (Status, error)     { return Status{}, b.why }
func (b broken) Reset(context.Context) error                { return b.why }
func (b broken) Pause(context.Context, time.Duration) error { return b.why }
