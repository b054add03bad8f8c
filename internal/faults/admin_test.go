package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// TestAServerThatStandsStillHoldsNoMethodOfAnAdmin is with two clients: one of
// the default timeouts, which are seconds, and one that would wait for ever.
func TestAServerThatStandsStillHoldsNoMethodOfAnAdmin(t *testing.T) {
	redistest.NoLeaks(t)
	s := redistest.StartServer(t)
	usual := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer redistest.Close(usual)
	patient := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer redistest.Close(patient)
	name := redistest.Name(t)
	rate := window.Rate{Permits: 5, Per: time.Hour}
	methods := func(rdb redis.UniversalClient) map[string]func(context.Context) error {
		a, err := window.Open(rdb, name)
		require.NoError(t, err)
		return map[string]func(context.Context) error{
			"TrySetRate":       func(ctx context.Context) error { _, err := a.TrySetRate(ctx, rate); return err },
			"SetRate":          func(ctx context.Context) error { return a.SetRate(ctx, rate) },
			"UpdateRate":       func(ctx context.Context) error { _, err := a.UpdateRate(ctx, rate, true); return err },
			"Config":           func(ctx context.Context) error { _, err := a.Config(ctx); return err },
			"AvailablePermits": func(ctx context.Context) error { _, err := a.AvailablePermits(ctx); return err },
			"Release":          func(ctx context.Context) error { return a.Release(ctx, 1) },
			"Delete":           func(ctx context.Context) error { _, err := a.Delete(ctx); return err },
		}
	}
	for what, call := range methods(usual) {
		_ = call(t.Context()) // it has a connection, and the server has the script
		require.NoError(t, methods(patient)["SetRate"](t.Context()), what)
	}
	bystander := standBy(t)
	s.Pause()
	const patience = 100 * time.Millisecond
	var all sync.WaitGroup
	check := func(ctx context.Context, what string, call func(context.Context) error, patience time.Duration) error {
		start := time.Now()
		err := call(ctx)
		bystander.prompt(t, start, patience, what)
		assert.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, what)
		return err
	}
	for what, call := range methods(usual) {
		for range 10 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				assert.ErrorIs(t, check(ctx, what, call, patience), context.DeadlineExceeded, what)
			})
		}
	}
	held := methods(patient)
	for what, call := range held {
		all.Go(func() {
			err := check(context.Background(), what, call, 5*time.Second)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", what)
		})
	}
	all.Wait()
	start := time.Now()
	left := func() int { return redistest.Running("github.com/fairlimit/fairlimit/internal/bound.") }
	require.Eventually(t, func() bool { return left() == len(held) }, 30*time.Second, 10*time.Millisecond,
		"what was left behind should end with the client's own timeouts")
	t.Logf("what was left behind ended %v later", time.Since(start))
	s.Resume()
	require.NoError(t, methods(usual)["SetRate"](t.Context()), "and goes on")
	require.Eventually(t, func() bool { return left() == 0 }, 10*time.Second, 10*time.Millisecond)
}
