package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestASleepLastsAsLongAsItShouldUnlessItsCtxEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, clock.Sleep(t.Context(), time.Hour))
		require.NoError(t, clock.Sleep(t.Context(), 0))
		require.NoError(t, clock.SleepUntil(t.Context(), start))
		assert.Equal(t, time.Hour, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, clock.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, time.Hour+time.Minute, time.Since(start))
	})
}

// Its ctx ends at the same moment.
func TestATurnThatHasComeIsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			require.NoError(t, clock.Sleep(ctx, time.Minute))
			cancel()
			require.NoError(t, clock.Sleep(ctx, 0))
		}
	})
}

func TestNoSleepEndsEarly(t *testing.T) {
	for d := time.Microsecond; d < 20*time.Millisecond; d *= 2 {
		start := time.Now()
		require.NoError(t, clock.Sleep(t.Context(), d))
		require.GreaterOrEqual(t, time.Since(start), d)
	}
}
