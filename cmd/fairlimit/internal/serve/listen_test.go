//go:build unix

package serve

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASocketIsItsUsersAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	path := "@s" // a file as well
	l, err := ListenUnix(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	_, err = ListenUnix(path)
	require.ErrorContains(t, err, "another server listens there")

	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close()) // as after a crash
	l, err = ListenUnix(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = ListenUnix(path)
	require.ErrorContains(t, err, "is no socket")
	require.FileExists(t, path)
}

func TestOpenConnectionsAreBounded(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.MostWaiting, c.connections = 1, 2 })
	open := []net.Conn{s.dial(half), s.dial(half), s.dial(half)}
	ended := func() bool { // the server has closed a further one
		conn := s.dial("")
		defer conn.Close()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(slowTimeout/2)))
		_, err := conn.Read(make([]byte, 1))
		return err != nil && !os.IsTimeout(err)
	}
	require.True(t, ended())
	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool {
		got, err := s.try(t.Context(), "POST", "/v1/queues/fast/turn")
		return err == nil && got.status == 200
	}, patience, time.Millisecond, "there is room again")
	for _, conn := range open[1:] {
		require.NoError(t, conn.Close())
	}
	s.end()
	require.Contains(t, s.log.String(), "too many: 3 connections are open")
	require.Equal(t, 1, strings.Count(s.log.String(), "too many"), "told once in a while")
}

func TestASocketOfABusyServerIsNotTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	for err == nil { // until no more of them may line up
		var conn net.Conn
		if conn, err = net.Dial("unix", path); err == nil {
			defer conn.Close()
		}
	}
	_, err = ListenUnix(path)
	require.ErrorContains(t, err, "another server listens there")
	require.FileExists(t, path)
}
