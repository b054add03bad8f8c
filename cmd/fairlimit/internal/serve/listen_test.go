//go:build unix

package serve

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASocketIsItsUsersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := ListenUnix(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	_, err = ListenUnix(path)
	require.ErrorContains(t, err, "address already in use")

	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close()) // as after a crash
	l, err = ListenUnix(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = ListenUnix(path)
	require.Error(t, err)
	require.FileExists(t, path)
}

func TestOpenConnectionsAreBounded(t *testing.T) {
	s := started(t, "unix")
	s.open.Store(s.MostWaiting + spareConnections)
	_, err := s.dial("").Read(make([]byte, 1))
	require.Error(t, err, "the server has closed it")
	s.until(func() bool { return s.open.Load() == s.MostWaiting+spareConnections })
	s.open.Store(0)
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/turn").status)
}
