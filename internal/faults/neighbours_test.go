package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAStateOfAnotherVersionEnds is with an earlier version and a later one. It
// is an error while there is a state of that version, and then a queue of ours.
func TestAStateOfAnotherVersionEnds(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	key := limitertest.Key(name)
	require.NoError(t, named(t, rdb, name, fairlimit.PerHour(1)).Wait(t.Context()))
	own := rdb.Get(t.Context(), key).Val()
	for _, version := range []string{"fair4", "fair6"} {
		other := version + strings.TrimPrefix(own, "fair5")
		require.NotEqual(t, other, own)
		require.NoError(t, rdb.Set(t.Context(), key, other, 200*time.Millisecond).Err())
		l := named(t, rdb, name, fairlimit.PerHour(1)) // it knows of no turn
		_, err := l.Allow(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrState)
		require.Equal(t, other, rdb.Get(t.Context(), key).Val(), "it is left alone")
		gone := func() bool { return rdb.Exists(t.Context(), key).Val() == 0 }
		require.Eventually(t, gone, 10*time.Second, time.Millisecond)
		require.NoError(t, l.Wait(t.Context()))
	}
}
