package backend

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAServerOfOurOwnRestartsEmpty(t *testing.T) {
	ctx := t.Context()
	embedded, err := Open(ctx, "")
	require.NoError(t, err)
	defer embedded.Close()
	given, err := Open(ctx, embedded.Addr)
	require.NoError(t, err)
	defer given.Close()
	for name, b := range map[string]*Backend{"embedded": embedded, "given": given} {
		t.Run(name, func(t *testing.T) {
			if name == "given" {
				_ = redistest.Standalone(t) // skips where there is no Redis
			}
			own, err := b.Own(ctx)
			require.NoError(t, err)
			defer own.Close()
			require.NotEqual(t, b.Addr, own.Addr)
			require.NoError(t, own.Client.Set(ctx, "k", "v", 0).Err())

			began := time.Now()
			require.NoError(t, own.Restart(ctx, 100*time.Millisecond))
			require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
			require.Eventually(t, func() bool {
				n, err := own.Client.Exists(ctx, "k").Result()
				return err == nil && n == 0
			}, 5*time.Second, 10*time.Millisecond, "it comes back empty")
		})
	}
}

func TestTheProgramThatIsNamedIsTheOneThatIsNeeded(t *testing.T) {
	t.Setenv("FAIRLIMIT_REDIS_SERVER", "nothing-of-that-name")
	_, err := (&Backend{}).Own(context.Background())
	require.ErrorIs(t, err, ErrNoServer, "a scenario that needs one is left out")
}

func TestAServerIsCalledWhatItIs(t *testing.T) {
	for name, info := range map[string]map[string]string{
		"redis 6.2.14": {"redis_version": "6.2.14"},
		"valkey 9.1.2": {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.1.2"},
		"valkey 7.2.7": {"redis_version": "7.2.4", "valkey_version": "7.2.7"},
	} {
		require.Equal(t, name, nameOf(info))
	}
}
