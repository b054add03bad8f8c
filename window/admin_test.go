package window_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// methods are those of an Admin that ask Redis.
func methods(a *window.Admin) map[string]func(ctx context.Context) error {
	rate := window.Rate{Permits: 5, Per: time.Minute}
	return map[string]func(ctx context.Context) error{
		"TrySetRate":       func(ctx context.Context) error { _, err := a.TrySetRate(ctx, rate); return err },
		"SetRate":          func(ctx context.Context) error { return a.SetRate(ctx, rate) },
		"UpdateRate":       func(ctx context.Context) error { _, err := a.UpdateRate(ctx, rate, false); return err },
		"UpdateRate, keep": func(ctx context.Context) error { _, err := a.UpdateRate(ctx, rate, true); return err },
		"Config":           func(ctx context.Context) error { _, err := a.Config(ctx); return err },
		"AvailablePermits": func(ctx context.Context) error { _, err := a.AvailablePermits(ctx); return err },
		"Release":          func(ctx context.Context) error { return a.Release(ctx, 1) },
		"Delete":           func(ctx context.Context) error { _, err := a.Delete(ctx); return err },
	}
}

// silent is a server that answers nothing from a number of scripts on.
type silent struct {
	mu    sync.Mutex
	after int
	ended chan struct{}
}

func (s *silent) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if cmd.Name() == "evalsha" {
		s.mu.Lock()
		s.after--
		hangs := s.after < 0
		s.mu.Unlock()
		if hangs {
			<-s.ended
			return context.Canceled
		}
	}
	return next(ctx, cmd)
}

func TestNoMethodOfAnAdminOutlastsItsCtx(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		hook := &silent{ended: make(chan struct{})}
		defer close(hook.ended)
		rdb.AddHook(redistest.Hook(hook.process))
		for name, call := range methods(open(t, rdb, redistest.Name(t))) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			err := call(ctx)
			cancel()
			assert.Equal(t, time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)

			start = time.Now()
			err = call(context.Background())
			assert.Equal(t, 5*time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)

			err = call(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.NotErrorIs(t, err, engine.ErrOutcomeUnknown, "%s: nothing was sent", name)
			assert.ErrorIs(t, call(nil), window.ErrInvalidArgument, name)
		}
	})
}

// A release of many permits is several runs. Each has five seconds of its own.
func TestAReleaseThatEndsHalfwayIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := newLimiter(t, rdb, 300, time.Hour)
		l.fill(300, 1)
		hook := &silent{after: 1, ended: make(chan struct{})}
		rdb.AddHook(redistest.Hook(hook.process))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Release(ctx, 200)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, engine.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "of 200 permits 128 were released")
		close(hook.ended)
		hook.mu.Lock()
		hook.after = 1000
		hook.mu.Unlock()
		require.Equal(t, 128, l.available())

		require.NoError(t, rdb.Set(t.Context(), l.leftKey(), "x", 0).Err())
		require.NotErrorIs(t, l.Release(t.Context(), 1), engine.ErrOutcomeUnknown, "Redis says no to the first run")
	})
}

// TestAnErrorOfAnAdminNamesItsLimiterOnce is for every method, with a server
// that is not there, and for what is refused before Redis is asked.
func TestAnErrorOfAnAdminNamesItsLimiterOnce(t *testing.T) {
	t.Parallel()
	a := open(t, redistest.Nowhere(t), "tax-office")
	_, unset := open(t, redistest.Standalone(t), "tax-office").Config(t.Context())
	_, opened := window.Open(nil, "tax-office")
	rdb := redistest.Standalone(t)
	name := redistest.Name(t)
	require.NoError(t, rdb.HSet(t.Context(), name, "rate", "x", "interval", 1, "type", 0).Err())
	_, unreadable := open(t, rdb, name).Config(t.Context())
	require.ErrorIs(t, unreadable, engine.ErrState)
	require.Equal(t, 1, strings.Count(unreadable.Error(), name), unreadable)
	errs := map[string]error{
		"Release of fewer than none": a.Release(t.Context(), -1),
		"SetRate of nothing":         a.SetRate(t.Context(), window.Rate{}),
		"Config without a rate":      unset,
		"Open without a client":      opened,
	}
	for what, call := range methods(a) {
		errs[what] = call(t.Context())
	}
	for what, err := range errs {
		require.Error(t, err, what)
		require.True(t, strings.HasPrefix(err.Error(), `fairlimit: "tax-office": `), err)
		for _, once := range []string{"fairlimit: ", `"tax-office"`} {
			require.Equal(t, 1, strings.Count(err.Error(), once), err)
		}
	}
}
