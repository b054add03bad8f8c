package kubelimit_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.New
	status  = limitertest.Status
)

// onEach runs f on a Redis inside the process and on a real one.
func onEach(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Run("embedded", func(t *testing.T) {
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		f(t, server.Client())
	})
	t.Run("redis", func(t *testing.T) { f(t, redistest.Standalone(t)) })
}
