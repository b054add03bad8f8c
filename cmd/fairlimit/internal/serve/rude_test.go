package serve

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dial sends a text, and no more. Without one it writes nothing: the server may
// have closed the connection.
func (s *served) dial(text string) net.Conn {
	conn, err := net.Dial("unix", s.path)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	if text != "" {
		_, err = io.WriteString(conn, text)
		require.NoError(s.t, err)
	}
	return conn
}

const (
	half   = "POST /v1/queues/tax/turn HTTP/1.1\r\nHost: x\r\nX: "
	asks   = "POST /v1/queues/tax/turn HTTP/1.1\r\nHost: x\r\n\r\n"
	misses = "GET /nix HTTP/1.1\r\nHost: x\r\n\r\n"
	looks  = "GET /v1/queues/tax/events HTTP/1.1\r\nHost: x\r\n\r\n"
)

func TestWhoIsTooSlowIsCutOff(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.slow = 200 * time.Millisecond })
	slow, deaf := s.dial(half), s.dial("")
	cut := make(chan error, 2)
	go func() {
		_, err := io.ReadAll(slow)
		cut <- err
	}()
	go func() { // asks and asks, and takes no answer
		for err := error(nil); ; _, err = io.WriteString(deaf, strings.Repeat(misses, 100)) {
			if err != nil {
				cut <- nil
				return
			}
		}
	}()
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/turn").status, "others are served")
	for range 2 {
		select {
		case err := <-cut:
			require.NoError(t, err)
		case <-time.After(patience):
			require.Fail(t, "a connection is held for ever")
		}
	}
}

func TestWhoClosesHalfOfTheConnectionLeaves(t *testing.T) {
	for _, how := range []func(*Config){together, apart} {
		s := started(t, "unix", how)
		s.do("POST", "/v1/queues/tax/turn")
		conn := s.dial(asks)
		require.Eventually(t, func() bool { return s.queued("tax") == 1 }, patience, time.Millisecond)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		require.Eventually(t, func() bool { return s.queued("tax") == 0 && s.waiting.Load() == 0 },
			patience, time.Millisecond)
	}
}

func TestTheEndIsInTimeWhateverClientsDo(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.crowd = 20 })
	s.do("POST", "/v1/queues/tax/turn")
	for range 50 {
		for _, text := range []string{half, asks, asks + asks, looks, strings.Repeat(misses, 100), asks + misses} {
			s.dial(text)
		}
	}
	require.Eventually(t, func() bool { return s.queued("tax") == 150 }, patience, time.Millisecond)
	began := time.Now()
	s.end()
	require.Less(t, time.Since(began), 5*time.Second)
	require.Zero(t, s.queued("tax"), "all is given back")
}
