package faults_test

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
func TestMain(m *testing.M) {
	redistest.Parallel(12)
	redistest.Main(m)
}

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
	calls   = limitertest.Calls
	engines = limitertest.Engines
	nowhere = redistest.Nowhere
)

// maker makes limiters on one engine.
type maker func(
	t *testing.T, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) fairlimit.Limiter

// onEngines runs f for each engine, in parallel.
func onEngines(t *testing.T, f func(t *testing.T, build maker)) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, func(
				t *testing.T, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
			) fairlimit.Limiter {
				t.Helper()
				l, err := fairlimit.New(rdb, name, quota, append(opts, e)...)
				require.NoError(t, err)
				return l
			})
		})
	}
}
