package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestADurationWithoutItsUnitIsRefused(t *testing.T) {
	t.Parallel()
	second := fairlimit.PerSecond(1)
	made := func(quota fairlimit.Quota, opts ...fairlimit.Option) error {
		_, err := fairlimit.New(nowhere(t), "n", quota, opts...)
		return err
	}
	for what, err := range map[string]error{
		"Per":             made(fairlimit.Quota{Permits: 1, Per: 50}),
		"Every":           made(fairlimit.Every(50)),
		"WithExtraQuota":  made(second, fairlimit.WithExtraQuota(fairlimit.Every(50))),
		"WithGuard":       made(second, fairlimit.WithGuard(50)),
		"WithMaxWait":     made(second, fairlimit.WithMaxWait(50)),
		"WithMaxLateness": made(second, fairlimit.WithMaxLateness(50)),
		"WithPauseWithin": made(second, fairlimit.WithPauseWithin(50)),
		"KeepAlive":       made(second, fairlimit.WithEngine(window.With(window.KeepAlive(50)))),
		"RetryTick":       made(second, fairlimit.WithEngine(window.With(window.RetryTick(50)))),
	} {
		require.ErrorContains(t, err, "50ns: did you mean 50 * time.Millisecond?", what)
	}
	require.ErrorIs(t, made(fairlimit.Every(999)), fairlimit.ErrInvalidQuota)
	require.ErrorIs(t, made(second, fairlimit.WithGuard(999)), fairlimit.ErrInvalidOption)
	require.NoError(t, made(fairlimit.Every(time.Microsecond), fairlimit.WithGuard(time.Microsecond)))
}

func TestAPauseOrAStoredQuotaWithoutAUnitIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := queueOf(t, rdb, "n", fairlimit.PerSecond(1))
		err := q.Pause(t.Context(), 3)
		require.ErrorIs(t, err, fairlimit.ErrInvalidPause)
		require.ErrorContains(t, err, "3ns: did you mean 3 * time.Millisecond?")
		err = q.SetQuotas(t.Context(), fairlimit.Every(1))
		require.ErrorIs(t, err, fairlimit.ErrInvalidQuota)
		require.ErrorContains(t, err, "1ns: did you mean 1 * time.Millisecond?")
		status, err := q.Status(t.Context())
		require.NoError(t, err)
		require.Zero(t, status.Paused)
	})
}
