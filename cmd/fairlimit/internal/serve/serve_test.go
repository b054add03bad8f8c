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
	"net/http/httptrace"
	"path/filepath"
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

func (s *served) listen(network string) {
	var l net.Listener
	var err error
	dialer := new(net.Dialer)
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	if network == "unix" {
		s.path = filepath.Join(s.t.TempDir(), "s")
		l, err = ListenUnix(s.path)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", s.path)
		}
		s.url = "http://fairlimit"
	} else {
		l, err = net.Listen("tcp", map[string]string{"tcp": "127.0.0.1:0", "public": ":0"}[network])
		require.NoError(s.t, err)
		s.url = fmt.Sprintf("http://127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
	}
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
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
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
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
	status, err := s.queues.peek(name).Status(context.Background())
	require.NoError(s.t, err)
	return status.Queued
}

// wait sends a request for a turn that has to wait, and returns what it is told.
func (s *served) wait(ctx context.Context, path string) chan reply {
	sent, told := make(chan struct{}), make(chan reply, 1)
	before := s.waiting.Load()
	go func() {
		ctx := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) },
		})
		got, _ := s.try(ctx, "POST", path)
		told <- got
	}()
	<-sent
	s.until(func() bool { return s.waiting.Load() > before })
	return told
}

func TestWhatIsAnswered(t *testing.T) {
	s := started(t, "unix", func(c *Config) {
		c.Quotas["a/b é\"<"], c.Quotas["llm"] = quotas("5/1s"), quotas("60/1h; tokens 2000/1h")
	})
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
	const fast, tax = "/v1/queues/fast/turn", "/v1/queues/tax/turn"
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/v1/queues/a%2Fb%20%C3%A9%22%3C", 200, `"quotas":["5/1s"]`},
		{"POST", fast, 200, `"waited_ms"`},
		{"POST", fast + "?permits=3&timeout=30s&flow=billing&weight=2", 200, `"turn"`},
		{"POST", "/v1/queues/a%2Fb%20%C3%A9%22%3C/turn", 200, `"turn"`},
		{"POST", tax + "?timeout=1m", 409, `"refused":true`},
		{"POST", fast + "?permits=0", 400, `"error"`},
		{"POST", fast + "?permits=1e3", 400, "permits"},
		{"POST", fast + "?permits=1000001", 400, "1000001"},
		{"POST", fast + "?permit=2", 400, "no such parameter"},
		{"POST", "/v1/queues/llm/turn?points=5", 400, "no such parameter"},
		{"POST", "/v1/queues/llm/turn?tokens=2001", 400, "2001"},
		{"POST", fast + "?tokens=-1", 400, "tokens"},
		{"POST", fast + "?ünit=1", 400, "no parameter"},
		{"POST", fast + "?permits=1&permits=2", 400, "twice"},
		{"POST", fast + "?timeout=5", 400, "the unit is missing"},
		{"POST", fast + "?timeout=-5s", 400, "want"},
		{"POST", fast + "?timeout=0s", 400, "want more than 0"},
		{"POST", fast + "?timeout=99999999h", 400, "want a duration"},
		{"POST", fast + "?flow=", 400, "empty id"},
		{"GET", "/v1/queues/%ff", 400, "UTF-8"},
		{"POST", fast + "?flow=a&weight=1001", 400, "weight"},
		{"POST", fast + "?weight=2", 400, "invalid flow"},
		{"POST", fast + "?a=%zz", 400, "query"},
		{"POST", "/v1/queues/nix/turn", 404, "no such queue"},
		{"GET", "/v1/queues/nix", 404, "no such queue"},
		{"GET", "/v1/queues/tax", 200, `"quotas":["1/1h"]`},
		{"GET", "/v1/queues", 200, `"name":"a/b é\"\u003c"`},
		{"GET", fast, 404, "no such request"},
		{"POST", "/v1/queues/fast/reserve?timeout=1s", 400, "no parameter"},
		{"DELETE", "/v1/turns/nix", 404, "no such turn"},
		{"POST", "/v1/queues/tax/pause?for=1s", 403, "-admin"},
		{"GET", "/healthz", 200, `"ok":true`},
		{"GET", "/nix", 404, "no such request"},
		{"GET", "/..%2f..%2fetc/passwd", 404, ""},
	} {
		got := s.do(c.method, c.path)
		text, _ := json.Marshal(got.json)
		assert.Equal(t, c.status, got.status, "%s %.60s: %s", c.method, c.path, text)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		if c.says != "" {
			plain, _ := got.json["error"].(string)
			assert.Contains(t, plain+string(text), c.says, c.path)
		}
	}
	require.Zero(t, s.waiting.Load())
	require.InDelta(t, time.Hour.Milliseconds(), s.do("POST", tax+"?timeout=1m").json["wait_ms"], 60_000)
	require.Empty(t, s.log)
}

func TestAnAdministratorSteers(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.Admin = true })
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/pause?for=1h").status)
	require.Equal(t, true, s.do("POST", "/v1/queues/fast/turn?timeout=1s").json["paused"])
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/resume").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/fast/turn?timeout=1s").status)

	for range 2 {
		require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reserve").status)
	}
	require.Equal(t, 1, s.queued("tax"))
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/requeue").status)
	require.Zero(t, s.queued("tax"), "nobody waits for the turn ahead")
	require.Contains(t, s.do("GET", "/v1/queues/tax").json["notes"].([]any)[0], "requeued 0s ago")
	require.Equal(t, 409, s.do("POST", "/v1/queues/tax/turn?timeout=10s").status, "what has gone counts")
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reset").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn?timeout=10s").status)
	require.Equal(t, 400, s.do("POST", "/v1/queues/fast/pause").status)
	require.Equal(t, 400, s.do("POST", "/v1/queues/new/quota").status)
	require.Equal(t, 400, s.do("POST", "/v1/queues/new/quota?quotas=a/b").status)

	require.Equal(t, 404, s.do("POST", "/v1/queues/new/turn").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/new/quota?quotas=5/1h+burst+1").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/new/turn").status)
	require.Equal(t, []any{"5/1h burst 1"}, s.do("GET", "/v1/queues/new").json["quotas"])
	require.Len(t, s.queues.all(), 3)
	require.Equal(t, 200, s.do("DELETE", "/v1/queues/new/quota").status)
	require.Equal(t, 404, s.do("POST", "/v1/queues/new/turn").status)
	require.Len(t, s.queues.all(), 2)
}

func TestMetricsNameWhatTheyAreOf(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.Quotas["a\"\n{x}"] = quotas("5/1s") })
	s.do("POST", "/v1/queues/fast/turn")
	answer, err := s.client.Get(s.url + "/metrics")
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

func (s *served) tokens() fairlimit.UnitStatus {
	status, err := s.queues.peek("llm").Status(s.t.Context())
	require.NoError(s.t, err)
	return status.Units["tokens"]
}

func TestATurnThatNamesAUnitIsSettled(t *testing.T) {
	s := started(t, "unix", llm)
	got := s.do("POST", "/v1/queues/llm/turn?tokens=1200&flow=a")
	require.Equal(t, 200, got.status)
	require.Equal(t, 800, s.tokens().Available)
	require.Equal(t, 409, s.do("POST", "/v1/queues/llm/turn?tokens=1200&timeout=1s").status)
	turn := fmt.Sprint("/v1/turns/", got.json["turn"], "/settle")
	require.Equal(t, 400, s.do("POST", turn).status)
	require.Equal(t, 400, s.do("POST", turn+"?token=1").status)
	require.Equal(t, 400, s.do("POST", turn+"?tokens=x").status)
	require.Equal(t, 200, s.do("POST", turn+"?tokens=700").status)
	require.Equal(t, 1300, s.tokens().Available)
	require.Equal(t, 404, s.do("POST", turn+"?tokens=700").status)
	unnamed := s.do("POST", "/v1/queues/llm/turn").json["turn"]
	require.Equal(t, 404, s.do("POST", fmt.Sprint("/v1/turns/", unnamed, "/settle?tokens=0")).status)
	for range mostTurns {
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
	ahead := s.do("POST", turn+"/settle?tokens=0")
	require.Equal(t, 409, ahead.status)
	require.Contains(t, ahead.json["error"], "has not come yet")
	require.Equal(t, 1, s.queued("llm"))
	require.Equal(t, map[string]any{"given_back": true}, s.do("DELETE", turn).json)
	require.Zero(t, s.queued("llm"))
	require.Equal(t, 404, s.do("DELETE", turn).status)
	require.Equal(t, 404, s.do("POST", turn+"/settle?tokens=0").status)
	require.Equal(t, map[string]any{"given_back": false}, s.do("DELETE", came).json)
	require.Equal(t, 200, s.do("POST", came+"/settle?tokens=0&permits=0").status)
	require.Equal(t, 2000, s.tokens().Available)
	require.Zero(t, s.turns.Len())
}

func TestAReservationThatRedisDidNotTakeBackCanBeGivenBackAgain(t *testing.T) {
	s := started(t, "unix", llm)
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
	turn := fmt.Sprint("/v1/turns/", s.do("POST", "/v1/queues/tax/reserve").json["turn"])
	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err()) // it takes no writes
	refused, err := s.try(t.Context(), "DELETE", turn)
	require.NoError(t, err)
	require.Equal(t, 503, refused.status)
	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	require.Equal(t, map[string]any{"given_back": true}, s.do("DELETE", turn).json)
	require.Zero(t, s.queued("tax"))
}

func TestUnitsAreStored(t *testing.T) {
	s := started(t, "unix", llm)
	for _, unit := range []string{"permits", "timeout", "flow", "weight"} {
		got := s.do("POST", "/v1/queues/new/quota?quotas=5/1h%3B"+unit+"+3/1h")
		require.Equal(t, 400, got.status)
		require.Contains(t, got.json["error"], "requests have a parameter "+unit)
	}
	require.Equal(t, 200, s.do("POST", "/v1/queues/new/quota?quotas=5/1h%3B+tokens+50/1h").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/new/turn?tokens=50").status)
	unit := s.do("GET", "/v1/queues/new").json["units"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"tokens", []any{"50/1h"}, 0.0, 0.0},
		[]any{unit["unit"], unit["quotas"], unit["available"], unit["queued"]})
}
