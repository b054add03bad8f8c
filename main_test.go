package fairlimit_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestMain holds the whole binary to what a limiter promises: no goroutine is
// left when nobody uses it.
func TestMain(m *testing.M) { redistest.Main(m) }

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
	calls   = limitertest.Calls
	engines = limitertest.Engines
	nowhere = redistest.Nowhere
)

// onBoth runs f with each engine on each kind of server.
func onBoth(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option)) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) { f(t, rdb, e) })
		})
	}
}

func queueOf(
	t *testing.T, rdb *redis.Client, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	q, err := fairlimit.NewQueue(rdb, name, quota, append([]fairlimit.Option{fairlimit.WithGuard(0)}, opts...)...)
	require.NoError(t, err)
	return q
}
