package engines

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// after lets everybody through after a while.
type after time.Duration

func (a after) Acquire(ctx context.Context, _ int) (*measure.Turn, error) {
	return nil, clock.Sleep(ctx, time.Duration(a))
}

func TestByHandAProcessStandsStillByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &ByHand{Acquirer: after(time.Second)}
		began, waits := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, err := limiter.Acquire(t.Context(), 1)
			require.NoError(t, err)
			waits <- time.Since(began)
		}()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, limiter.Pause(t.Context(), 3*time.Second))
		require.NoError(t, limiter.Pause(t.Context(), time.Second), "the longest counts")
		require.Equal(t, 3500*time.Millisecond, <-waits, "who was let through meanwhile goes at the end")
		_, err := limiter.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 4500*time.Millisecond, time.Since(began))
	})
}
