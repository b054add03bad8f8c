package engines

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheTurnsOfAProcessAreNoted(t *testing.T) {
	t.Parallel()
	limiter := open(t, fairEngine, server(t).Client(), 2, time.Hour, 1)
	for range 2 {
		_, err := limiter.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	told := limiter.(Teller).Told()
	require.Len(t, told.Turns, 2)
	for _, turn := range told.Turns {
		require.Equal(t, 1, turn.Permits)
		require.Less(t, turn.Sent, turn.Replied)
		require.Zero(t, turn.Wait)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := limiter.Acquire(ctx, 2)
	require.ErrorIs(t, err, context.Canceled)
	told = limiter.(Teller).Told()
	require.Len(t, told.Turns, 3)
	require.InDelta(t, time.Hour, told.Turns[2].Wait, float64(time.Minute))
	require.Eventually(t, func() bool {
		told = limiter.(Teller).Told()
		return len(told.Returned) == 1 && told.Returned[0] == 2
	}, 5*time.Second, time.Millisecond, "the third of all")
}
