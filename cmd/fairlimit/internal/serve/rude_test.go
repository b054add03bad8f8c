package serve

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// dial sends a text, and no more. Without one it writes nothing: the server may
// have closed the connection.
func (s *served) dial(text string) net.Conn {
	conn, err := net.Dial("unix", s.addr.String())
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
	owes   = "POST /v1/queues/tax/turn HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
	looks  = "GET /v1/queues/tax/events HTTP/1.1\r\nHost: x\r\n\r\n"
)

func TestWhoIsTooSlowIsCutOff(t *testing.T) {
	s := started(t, "unix")
	var cut sync.WaitGroup
	var told [2]string
	began := time.Now()
	for i, text := range []string{half, owes} {
		conn := s.dial(text)
		cut.Go(func() {
			all, _ := io.ReadAll(conn)
			told[i] = string(all)
		})
	}
	deaf := s.dial("")
	cut.Go(func() { // asks and asks, and takes no answer
		for err := error(nil); err == nil; {
			_, err = io.WriteString(deaf, strings.Repeat(misses, 100))
		}
	})
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/turn").status, "others are served")
	cut.Wait()
	require.Empty(t, told[0])
	require.Contains(t, told[1], "HTTP/1.1 400 ", "a body is refused before it comes")
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
	s.wait("/v1/queues/tax/turn")
	time.Sleep(max(0, 3*s.slow-time.Since(began)))
	require.Equal(t, 1, s.queued("tax"), "who waits for a turn is not slow")
}

func TestWhoLeavesGivesItsTurnBack(t *testing.T) {
	closes := func(c net.Conn) { _ = c.Close() }
	shuts := func(c net.Conn) { _ = c.(*net.UnixConn).CloseWrite() }
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	for query, leave := range map[string]func(net.Conn){"": closes, "?timeout=3h": shuts, "?flow=a": closes} {
		conn := s.dial(strings.Replace(asks, "turn", "turn"+query, 1))
		s.until(func() bool { return s.queued("tax") == 1 })
		require.Equal(t, int64(1), s.peek("tax").waiting.Load())
		require.Zero(t, s.peek("fast").waiting.Load(), "nobody waits there")
		leave(conn)
		s.until(func() bool { return s.queued("tax") == 0 && s.waiting.Load() == 0 }, query)
		require.Zero(t, s.peek("tax").waiting.Load())
	}
}

func TestTheEndIsInTimeWhateverClientsDo(t *testing.T) {
	s := started(t, "unix")
	s.do("POST", "/v1/queues/tax/turn")
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reserve").status)
	var told []chan reply
	for range 50 {
		told = append(told, s.wait("/v1/queues/tax/turn"))
	}
	for range 50 {
		for _, text := range []string{"", half, owes, asks, asks + asks, looks, misses + misses, asks + misses} {
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

// questions counts what Redis is asked from now on.
func (s *served) questions() *atomic.Int64 {
	asked := new(atomic.Int64)
	s.rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		asked.Add(1)
		return next(ctx, cmd)
	}))
	return asked
}

func TestBeyondWhatMayWaitNothingIsAsked(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.MostWaiting = 3 })
	asked := s.questions()
	s.do("POST", "/v1/queues/tax/turn")
	for range 3 {
		s.wait("/v1/queues/tax/turn")
	}
	s.until(func() bool { return s.queued("tax") == 3 })
	before := asked.Load()
	for _, path := range []string{"tax/turn", "tax/reserve", "nix/turn"} {
		got := s.do("POST", "/v1/queues/"+path)
		require.Equal(t, 429, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
	require.Equal(t, before, asked.Load())
}

func TestWhoMayAsk(t *testing.T) {
	none := func(*Config) {}
	token := func(c *Config) { c.Token = "s3cret" }
	named := func(c *Config) { c.Host = "limits.example" }
	const turn = "/v1/queues/fast/turn"
	for _, c := range []struct {
		what, network string
		change        func(*Config)
		method, path  string
		header        []string
		status        int
	}{
		{"a page of this machine", "tcp", none, "GET", "/", []string{"Host", "LOCALHOST:1"}, 200},
		{"a name that leads here", "tcp", none, "GET", "/", []string{"Host", "evil.example:7070"}, 421},
		{"the same, with a token", "tcp", token, "GET", "/", []string{"Host", "limits.example"}, 200},
		{"the same, over a socket", "unix", none, "GET", "/", []string{"Host", "evil.example"}, 200},
		{"a name of a public address", "public", none, "GET", "/", []string{"Host", "evil.example:7070"}, 421},
		{"the name that it listens at", "public", named, "GET", "/", []string{"Host", "LIMITS.example:7070"}, 200},
		{"an address", "public", none, "GET", "/", []string{"Host", "192.0.2.7:7070"}, 200},
		{"a name that nobody can own", "public", none, "GET", "/", []string{"Host", "fairlimit:7070"}, 200},
		{"another site's form", "tcp", none, "POST", turn, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"an old browser's", "tcp", none, "POST", turn, []string{"Origin", "http://evil.example"}, 403},
		{"another site's picture", "tcp", none, "GET", "/v1/queues", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"the page", "tcp", none, "POST", turn, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"no token", "tcp", token, "POST", turn, nil, 401},
		{"a wrong one", "tcp", token, "POST", turn, []string{"Authorization", "Bearer s3cre"}, 401},
		{"the token", "tcp", token, "POST", turn, []string{"Authorization", "Bearer s3cret"}, 200},
		{"the page has no secret", "tcp", token, "GET", "/", nil, 200},
		{"nor has the document", "tcp", token, "GET", "/openapi.json", nil, 200},
		{"the figures have", "tcp", token, "GET", "/metrics", nil, 401},
		{"a long header", "tcp", none, "GET", "/", []string{"X", strings.Repeat("x", 40_000)}, 431},
	} {
		s := started(t, c.network, c.change)
		assert.Equal(t, c.status, s.do(c.method, c.path, c.header...).status, c.what)
	}
}
