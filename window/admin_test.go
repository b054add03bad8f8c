package window_test

import (
	"context"
	"strings"
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

func TestNoMethodOfAnAdminOutlastsItsCtx(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		redistest.Break(rdb).BlackHole()
		for name, call := range methods(open(t, rdb, redistest.Name(t))) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			err := call(ctx)
			assert.Equal(t, time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)

			err = call(context.Background())
			assert.Equal(t, 6*time.Second, time.Since(start), name)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, name)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)

			err = call(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.NotErrorIs(t, err, engine.ErrOutcomeUnknown, "%s: nothing was sent", name)
			assert.ErrorIs(t, call(nil), window.ErrInvalidArgument, name)
		}
	})
}

// Errors come from a server that is not there, from Redis, and from before Redis
// is asked.
func TestAnErrorOfAnAdminNamesItsLimiterOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	require.NoError(t, rdb.HSet(t.Context(), "tax-office", "rate", "x", "interval", 1, "type", 0).Err())
	_, unreadable := open(t, rdb, "tax-office").Config(t.Context())
	require.ErrorIs(t, unreadable, engine.ErrState)
	_, opened := window.Open(nil, "tax-office")
	a := open(t, redistest.Nowhere(t), "tax-office")
	errs := []error{unreadable, opened, a.Release(t.Context(), -1), a.SetRate(t.Context(), window.Rate{})}
	for _, call := range methods(a) {
		errs = append(errs, call(t.Context()))
	}
	for _, err := range errs {
		require.ErrorContains(t, err, `fairlimit: "tax-office": `)
		for _, once := range []string{"fairlimit: ", `"tax-office"`} {
			require.Equal(t, 1, strings.Count(err.Error(), once), err)
		}
	}
}
