package fairlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestZeroOptionsAreTheDefaults(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.PerHour(1), fairlimit.WithMaxWait(time.Second), fairlimit.WithMaxWait(0),
			fairlimit.WithGuard(0))
		require.NoError(t, l.Wait(t.Context()))
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	})
}

func TestAPrefixStandsBeforeTheKey(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		for prefix, opts := range map[string][]fairlimit.Option{
			"fairlimit:": nil,
			"":           {fairlimit.WithPrefix("")},
			"p{q}":       {fairlimit.WithPrefix("p{q}")},
		} {
			require.NoError(t, named(t, rdb, name, fairlimit.PerHour(1), opts...).Wait(t.Context()))
			left, err := rdb.PTTL(t.Context(), prefix+"{"+name+"}").Result()
			require.NoError(t, err)
			assert.InDelta(t, time.Hour, left, float64(10*time.Second), "the TTL is the backlog")
		}
	})
}

func TestAGuardLengthensPer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter(t, rdb, fairlimit.Every(time.Second), fairlimit.WithGuard(50*time.Millisecond))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, 1050*time.Millisecond, r.Delay())
	})
}
