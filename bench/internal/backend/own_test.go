package backend_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func installed() bool {
	_, err := exec.LookPath(redistest.ServerProgram())
	return err == nil
}

// restarts holds a server of our own to what it says of itself.
func restarts(t *testing.T, given *backend.Backend) {
	t.Helper()
	own, err := given.Own(t.Context())
	require.NoError(t, err)
	defer own.Close()
	require.NotEqual(t, given.Addr, own.Addr)
	ctx := t.Context()
	require.NoError(t, own.Client.Set(ctx, "k", "v", 0).Err())

	began := time.Now()
	require.NoError(t, own.Restart(ctx, 100*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	require.Eventually(t, func() bool {
		n, err := own.Client.Exists(ctx, "k").Result()
		return err == nil && n == 0
	}, 5*time.Second, 10*time.Millisecond, "it comes back empty")
}

func TestAnEmbeddedServerOfOurOwnRestarts(t *testing.T) {
	given, err := backend.Open(t.Context(), "")
	require.NoError(t, err)
	defer given.Close()
	restarts(t, given)
}

func TestARealServerOfOurOwnRestarts(t *testing.T) {
	stranger, err := backend.Open(t.Context(), "")
	require.NoError(t, err)
	defer stranger.Close()
	given, err := backend.Open(t.Context(), stranger.Addr)
	require.NoError(t, err)
	defer given.Close()

	if !installed() {
		_, err := given.Own(t.Context())
		require.ErrorIs(t, err, backend.ErrNoServer)
		t.Skip("no redis-server to start")
	}
	restarts(t, given)
}

// TestTheProgramThatIsNamedIsStarted has nothing else in PATH but what starts it
// and clears up after it.
func TestTheProgramThatIsNamedIsStarted(t *testing.T) {
	program, err := exec.LookPath(redistest.ServerProgram())
	if err != nil {
		t.Skip("no redis-server to start")
	}
	path := t.TempDir()
	for _, tool := range []string{"sh", "rm"} {
		at, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(at, filepath.Join(path, tool)))
	}
	program, err = filepath.Abs(program)
	require.NoError(t, err)
	t.Setenv("FAIRLIMIT_REDIS_SERVER", program)
	t.Setenv("PATH", path)
	own, err := backend.Start(t.Context())
	require.NoError(t, err)
	defer own.Close()
	require.NoError(t, own.Client.Ping(t.Context()).Err())
}

func TestWithoutARedisServerNoneIsStarted(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("FAIRLIMIT_REDIS_SERVER", "")
	_, err := backend.Start(t.Context())
	require.ErrorIs(t, err, backend.ErrNoServer)

	stranger, err := backend.Open(t.Context(), "")
	require.NoError(t, err)
	defer stranger.Close()
	given, err := backend.Open(t.Context(), stranger.Addr)
	require.NoError(t, err)
	defer given.Close()
	_, err = given.Own(t.Context())
	require.ErrorIs(t, err, backend.ErrNoServer, "a scenario that needs one is left out")
}
