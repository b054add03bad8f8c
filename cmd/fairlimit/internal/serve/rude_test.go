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

func TestWhoLeavesGivesItsTurnBack(t *testing.T) {
	closes := func(c net.Conn) { _ = c.Close() }
	half := func(c net.Conn) { _ = c.(*net.UnixConn).CloseWrite() }
	hides := func(c net.Conn) { // what is sent before the first is answered
		_, _ = io.WriteString(c, asks)
		_ = c.Close()
	}
	for _, c := range []struct {
		how   func(*Config)
		query string
		leave func(net.Conn)
	}{
		{together, "", closes},
		{together, "?timeout=3h", half},
		{together, "?flow=a", closes},
		{apart, "", half},
		{apart, "?timeout=3h", hides},
		{apart, "?flow=a", closes},
	} {
		s := started(t, "unix", c.how)
		s.do("POST", "/v1/queues/tax/turn")
		conn := s.dial(strings.Replace(asks, "turn", "turn"+c.query, 1))
		s.until(func() bool { return s.queued("tax") == 1 })
		tax := s.queues.peek("tax")
		require.Equal(t, int64(1), tax.waiting.Load())
		require.Zero(t, s.queues.peek("fast").waiting.Load(), "nobody waits there")
		c.leave(conn)
		s.until(func() bool { return s.queued("tax") == 0 && s.waiting.Load() == 0 }, c.query)
		require.Zero(t, tax.waiting.Load())
		s.end() // all has been counted
		last := tax.history.last(time.Now())
		require.Equal(t, []int64{1, 0}, []int64{last[0].Turns, last[len(last)-1].Failed}, "who leaves is no failure")
	}
}

func TestTheEndIsInTimeWhateverClientsDo(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.crowd = 20 })
	s.do("POST", "/v1/queues/tax/turn")
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reserve").status)
	var told []chan reply
	for range 50 { // together, and apart
		told = append(told, s.wait(t.Context(), "/v1/queues/tax/turn"))
	}
	for range 50 {
		for _, text := range []string{"", half, asks, asks + asks, looks, strings.Repeat(misses, 100), asks + misses} {
			s.dial(text)
		}
	}
	s.until(func() bool { return s.queued("tax") == 201 })
	began := time.Now()
	s.end()
	require.Less(t, time.Since(began), 5*time.Second)
	for _, c := range told {
		got := <-c
		require.Equal(t, 503, got.status)
		require.Contains(t, got.json["error"], "gave the turn back")
	}
	require.Equal(t, 1, s.queued("tax"), "whoever holds the reservation will go")
}
