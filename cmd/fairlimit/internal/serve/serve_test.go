package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is how long a busy machine may take for anything.
const patience = 2 * time.Minute

// slow is how long a client may take under test.
const slow = 500 * time.Millisecond

// served is a server under test, with a client.
type served struct {
	*Server
	t      testing.TB
	rdb    *redis.Client
	url    string
	path   string // of the socket, if it is one
	client *http.Client
	log    *bytes.Buffer
	end    func() // and wait until it has ended
}

func quotas(text string) (q Quotas) {
	if err := q.Add(text); err != nil {
		panic(err)
	}
	return q
}

// started serves queue "tax", of one permit an hour, and "fast".
func started(t testing.TB, network string, change ...func(*Config)) *served {
	t.Helper()
	s := &served{t: t, rdb: redistest.Standalone(t), log: new(bytes.Buffer)}
	cfg := Config{
		Redis: s.rdb, Prefix: redistest.Name(t) + ":", MostWaiting: 1000, Log: log.New(s.log, "", 0),
		Quotas: map[string]Quotas{"tax": quotas("1/1h"), "fast": quotas("1000000/1s")},
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	s.Server, err = New(t.Context(), cfg)
	require.NoError(t, err)
	s.slow = slow
	s.listen(network)
	return s
}

// listen serves on a socket, on this machine ("tcp"), or for all ("public").
func (s *served) listen(network string) {
	address := map[string]string{"tcp": "127.0.0.1:0", "public": ":0"}[network]
	if network == "unix" {
		s.path = filepath.Join(s.t.TempDir(), "s")
		address = s.path
	}
	l, err := net.Listen(strings.Replace(network, "public", "tcp", 1), address)
	require.NoError(s.t, err)
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, l.Addr().Network(), l.Addr().String())
	}}
	s.client = &http.Client{Transport: transport}
	s.end = sync.OnceFunc(func() {
		cancel()
		require.NoError(s.t, <-ended)
		transport.CloseIdleConnections()
	})
	s.t.Cleanup(s.end)
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	json   map[string]any
}

func (s *served) try(ctx context.Context, method, path string, header ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	got := reply{answer.StatusCode, answer.Header, nil}
	_ = json.Unmarshal(text, &got.json)
	return got, err
}

func (s *served) do(method, path string, header ...string) reply {
	s.t.Helper()
	got, err := s.try(s.t.Context(), method, path, header...)
	require.NoError(s.t, err)
	s.check(method, path, got)
	return got
}

// until waits until something holds.
func (s *served) until(holds func() bool, why ...any) {
	s.t.Helper()
	require.Eventually(s.t, holds, patience, time.Millisecond, why...)
}

// queued is how many permits of a queue are granted ahead.
func (s *served) queued(name string) int {
	status, err := s.peek(name).Status(context.Background())
	require.NoError(s.t, err)
	return status.Queued
}

// wait sends a request for a turn that has to wait, and returns what it is told.
func (s *served) wait(path string) chan reply {
	told, before := make(chan reply, 1), s.waiting.Load()
	go func() {
		got, _ := s.try(s.t.Context(), "POST", path)
		told <- got
	}()
	s.until(func() bool { return s.waiting.Load() > before })
	return told
}

func TestWhatIsAnswered(t *testing.T) {
	s := started(t, "unix", llm, func(c *Config) { c.Quotas["a/b é\"<"], c.Admin = quotas("5/1s"), false })
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
	const fast = "/v1/queues/fast/turn"
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/v1/queues/a%2Fb%20%C3%A9%22%3C", 200, `"quotas":["5/1s"]`},
		{"GET", "/v1/queues", 200, `"name":"a/b é\"\u003c"`},
		{"GET", "/healthz", 200, `"ok":true`},
		{"POST", fast + "?permits=3&timeout=30s&flow=billing&weight=2", 200, `"waited_ms"`},
		{"POST", "/v1/queues/tax/turn?timeout=1m", 409, `"refused":true`},
		{"POST", fast + "?permits=0", 400, `"error"`},
		{"POST", fast + "?permits=1e3", 400, "permits"},
		{"POST", fast + "?permits=1000001", 400, "1000001"},
		{"POST", fast + "?permits=1&permits=2", 400, "twice"},
		{"POST", fast + "?permit=2", 400, "unit: permit, the queue counts calls only, whose unit is permits"},
		{"POST", fast + "?ünit=1", 400, "no parameter"},
		{"POST", "/v1/queues/llm/turn?points=5", 400, "unit: points, want one of [tokens]; the unit of calls is permits"},
		{"POST", "/v1/queues/llm/turn?tokens=2001", 400, "2001"},
		{"POST", "/v1/queues/llm/turn?tokens=-1", 400, "tokens"},
		{"POST", fast + "?timeout=5", 400, "the unit is missing"},
		{"POST", fast + "?timeout=0s", 400, "want more than 0"},
		{"POST", fast + "?flow=", 400, "empty id"},
		{"POST", fast + "?flow=a&weight=1001", 400, "weight"},
		{"POST", fast + "?weight=2", 400, "invalid flow"},
		{"POST", fast + "?a=%zz", 400, "query"},
		{"POST", "/v1/queues/fast/reserve?timeout=1s", 400, "no parameter"},
		{"GET", "/v1/queues/%ff", 400, "UTF-8"},
		{"POST", "/v1/queues/tax/pause?for=1s", 403, "-admin"},
		{"POST", "/v1/queues/nix/turn", 404, "no such queue"},
		{"GET", "/v1/queues/nix", 404, "no such queue"},
		{"GET", fast, 404, "no such request"},
		{"DELETE", "/v1/turns/nix", 404, "no such turn"},
	} {
		got := s.do(c.method, c.path)
		text, _ := json.Marshal(got.json)
		plain, _ := got.json["error"].(string)
		assert.Equal(t, c.status, got.status, "%s %.60s: %s", c.method, c.path, text)
		assert.Contains(t, plain+string(text), c.says, c.path)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	}
	require.InDelta(t, time.Hour.Milliseconds(), s.do("POST", "/v1/queues/tax/turn?timeout=1m").json["wait_ms"], 60_000)
	require.Zero(t, s.waiting.Load())
	require.Empty(t, s.log)
}

func TestAnAdministratorSteers(t *testing.T) {
	s := started(t, "unix", llm)
	for _, c := range []struct {
		method, path string
		status       int
		why          string
	}{
		{"POST", "fast/pause?for=1s", 200, ""},
		{"POST", "fast/pause?for=1h", 200, ""},
		{"POST", "fast/turn?timeout=1s", 409, "it is paused"},
		{"POST", "fast/resume", 200, ""},
		{"POST", "fast/turn?timeout=1s", 200, ""},
		{"POST", "fast/pause", 400, ""},

		{"POST", "tax/reserve", 200, ""},
		{"POST", "tax/reserve", 200, ""},
		{"POST", "tax/requeue", 200, ""},
		{"POST", "tax/turn?timeout=10s", 409, "what has gone counts"},
		{"POST", "tax/reset", 200, ""},
		{"POST", "tax/turn?timeout=10s", 200, ""},

		{"POST", "new/quota", 400, ""},
		{"POST", "new/quota?quotas=a/b", 400, ""},
		{"POST", "new/quota?quotas=5/1h%3Bflow+3/1h", 400, "requests have a parameter of that name"},
		{"POST", "new/turn", 404, ""},
		{"POST", "new/quota?quotas=5/1h+burst+1%3B+tokens+50/1h", 200, ""},
		{"POST", "new/turn?tokens=50", 200, ""},
		{"GET", "new", 200, ""},
		{"DELETE", "new/quota", 200, ""},
		{"POST", "new/turn", 404, ""},
		{"GET", "new", 404, ""},
	} {
		got := s.do(c.method, "/v1/queues/"+c.path)
		require.Equal(t, c.status, got.status, "%s %s: %v", c.path, c.why, got.json)
		switch c.path {
		case "tax/requeue":
			require.Zero(t, s.queued("tax"), "nobody waits for the turn ahead")
			require.Equal(t, true, s.do("GET", "/v1/queues/tax").json["requeued"])
		case "fast/pause?for=1s":
			require.EqualValues(t, 2000, got.json["paused_ms"])
		case "new":
			if c.status == 200 {
				require.Equal(t, []any{"5/1h burst 1"}, got.json["quotas"])
				require.Equal(t, []any{"50/1h"}, got.json["units"].([]any)[0].(map[string]any)["quotas"])
			}
		}
	}
}

func TestMetricsNameWhatTheyAreOf(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.Quotas["a\"\n{x}"] = quotas("5/1s") })
	s.do("POST", "/v1/queues/fast/turn")
	answer, err := s.client.Get("http://localhost/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `fairlimit_permits_total{limiter="fast",outcome="taken"} 1`+"\n")
	require.Contains(t, string(text), `fairlimit_available{limiter="a\"\n{x}"} 5`+"\n")
	require.Contains(t, string(text), `fairlimit_serve_answers_total{code="200"} 1`+"\n")
}

// llm is a queue that counts tokens as well.
func llm(c *Config) { c.Quotas["llm"], c.Admin = quotas("60/1h; tokens 2000/1h"), true }

func (s *served) tokens() int {
	status, err := s.peek("llm").Status(s.t.Context())
	require.NoError(s.t, err)
	return status.Units["tokens"].Available
}

func TestATurnThatNamesAUnitIsSettled(t *testing.T) {
	s := started(t, "unix", llm)
	got := s.do("POST", "/v1/queues/llm/turn?tokens=1200&flow=a")
	require.Equal(t, 200, got.status)
	require.Equal(t, 800, s.tokens())
	turn := fmt.Sprint("/v1/turns/", got.json["turn"], "/settle")
	for _, query := range []string{"", "?token=1", "?tokens=x"} {
		require.Equal(t, 400, s.do("POST", turn+query).status)
	}
	require.Equal(t, 200, s.do("POST", turn+"?tokens=700").status)
	require.Equal(t, 1300, s.tokens())
	require.Equal(t, 404, s.do("POST", turn+"?tokens=700").status)
	unnamed := s.do("POST", "/v1/queues/llm/turn").json["turn"]
	require.Equal(t, 404, s.do("POST", fmt.Sprint("/v1/turns/", unnamed, "/settle?tokens=0")).status)
	for range 2 * mostTurns {
		s.keep(&held{reservation: new(fairlimit.Reservation)})
	}
	require.Equal(t, mostTurns, s.turns.Len(), "the oldest are forgotten")
}

func TestAReservationIsGivenBackByItsNameOrSettledOnceItHasCome(t *testing.T) {
	s := started(t, "unix", llm)
	came := fmt.Sprint("/v1/turns/", s.do("POST", "/v1/queues/llm/reserve?tokens=2000").json["turn"])
	later := s.do("POST", "/v1/queues/llm/reserve?tokens=1")
	require.InDelta(t, time.Hour.Milliseconds(), later.json["in_ms"], 60_000)
	turn := fmt.Sprint("/v1/turns/", later.json["turn"])
	require.Contains(t, s.do("POST", turn+"/settle?tokens=0").json["error"], "has not come yet")
	require.Equal(t, 1, s.queued("llm"))

	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err()) // it takes no writes
	require.Equal(t, 503, s.do("DELETE", turn).status)
	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	require.Equal(t, map[string]any{"given_back": true}, s.do("DELETE", turn).json)
	require.Zero(t, s.queued("llm"))
	require.Equal(t, 404, s.do("DELETE", turn).status)
	require.Equal(t, 404, s.do("POST", turn+"/settle?tokens=0").status)
	require.Equal(t, map[string]any{"given_back": false}, s.do("DELETE", came).json)
	require.Equal(t, 200, s.do("POST", came+"/settle?tokens=0&permits=0").status)
	require.Equal(t, 2000, s.tokens())
	require.Zero(t, s.turns.Len())
}
