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
	"github.com/fairlimit/fairlimit/internal/limitertest"
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
	addr   net.Addr
	url    string // as clients are told
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

// started serves queue "tax", of one permit an hour, and "fast": on a socket
// ("unix"), on this machine ("tcp"), or for all ("public").
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

	address := map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0", "public": ":0"}[network]
	l, err := net.Listen(strings.Replace(network, "public", "tcp", 1), address)
	require.NoError(t, err)
	s.addr = l.Addr()
	s.url = map[string]string{"tcp": "http", "unix": "unix"}[s.addr.Network()] + "://" + s.addr.String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, s.addr.Network(), s.addr.String())
	}}
	s.client = &http.Client{Transport: transport}
	s.end = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		transport.CloseIdleConnections()
	})
	t.Cleanup(s.end)
	return s
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	text   string
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
	got := reply{answer.StatusCode, answer.Header, string(text), nil}
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

// stands is the status of a queue.
func (s *served) stands(name string) fairlimit.Status { return limitertest.Status(s.t, s.peek(name)) }

// queued is how many permits of a queue are granted ahead.
func (s *served) queued(name string) int { return s.stands(name).Queued }

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

// asked is a request, with the answer's status and a match for its text.
type asked struct {
	method, path string
	status       int
	says         string
}

// answers sends requests below /v1/queues in a row.
func (s *served) answers(requests []asked) {
	s.t.Helper()
	for _, c := range requests {
		got := s.do(c.method, "/v1/queues"+c.path)
		require.Equal(s.t, c.status, got.status, "%s %.60s: %s", c.method, c.path, got.text)
		assert.Regexp(s.t, c.says, got.text, c.path)
		assert.Equal(s.t, "nosniff", got.header.Get("X-Content-Type-Options"))
	}
}

func TestWhatIsAnswered(t *testing.T) {
	s := started(t, "unix", llm, func(c *Config) { c.Quotas["a/b é\"<"], c.Admin = quotas("5/1s"), false })
	s.answers([]asked{
		{"POST", "/tax/turn", 200, `"turn"`},
		{"POST", "/tax/turn?timeout=1m", 409, `"refused":true`},
		{"POST", "/fast/turn?permits=3&timeout=30s&flow=billing&weight=2", 200, `"waited_ms"`},
		{"GET", "/a%2Fb%20%C3%A9%22%3C", 200, `"quotas":\["5/1s"\]`},
		{"GET", "", 200, `"name":"a/b é\\"\\u003c"`},
		{"POST", "/fast/turn?permits=1e3", 400, "permits"},
		{"POST", "/fast/turn?permits=1000001", 400, "1000001"},
		{"POST", "/fast/turn?permits=1&permits=2", 400, "twice"},
		{"POST", "/fast/turn?permit=2", 400, "unit: permit, the queue counts calls only, whose unit is permits"},
		{"POST", "/fast/turn?ünit=1", 400, "no parameter"},
		{"POST", "/llm/turn?points=5", 400, `unit: points, want one of \[tokens\]; the unit of calls is permits`},
		{"POST", "/llm/turn?tokens=-1", 400, "invalid amounts"},
		{"POST", "/fast/turn?timeout=5", 400, "the unit is missing"},
		{"POST", "/fast/turn?timeout=0s", 400, "want more than 0"},
		{"POST", "/fast/turn?flow=a&weight=1001", 400, "weight"},
		{"POST", "/fast/turn?weight=2", 400, "invalid flow"},
		{"POST", "/fast/turn?a=%zz", 400, "query"},
		{"POST", "/fast/reserve?timeout=1s", 400, "no parameter"},
		{"GET", "/%ff", 400, "UTF-8"},
		{"POST", "/tax/pause?for=1s", 403, "-admin"},
		{"POST", "/nix/turn", 404, "no such queue"},
		{"GET", "/nix", 404, "no such queue"},
		{"GET", "/fast/turn", 404, "no such request"},
	})
	require.Equal(t, "{\"ok\":true}\n", s.do("GET", "/healthz").text)
	require.InDelta(t, time.Hour.Milliseconds(), s.do("POST", "/v1/queues/tax/turn?timeout=1m").json["wait_ms"], 60_000)
	require.Zero(t, s.waiting.Load())
	require.Empty(t, s.log)
	require.NoError(t, s.rdb.Close())
	require.Equal(t, 503, s.do("GET", "/healthz").status)
}

func TestAnAdministratorSteers(t *testing.T) {
	s := started(t, "unix", llm)
	s.answers([]asked{
		{"POST", "/fast/pause?for=1s", 200, `"paused_ms":2000\b`},
		{"POST", "/fast/pause?for=1h", 200, `"paused_ms":3600000\b`},
		{"POST", "/fast/turn?timeout=1s", 409, `"paused":true`},
		{"POST", "/fast/resume", 200, ""},
		{"POST", "/fast/turn?timeout=1s", 200, ""},
		{"POST", "/fast/pause", 400, ""},

		{"POST", "/tax/reserve", 200, `"in_ms":0,`},
		{"POST", "/tax/reserve", 200, `"in_ms":3(600|59\d)\d{3}\b`},
		{"POST", "/tax/requeue", 200, ""}, // what has gone counts
		{"GET", "/tax", 200, `"requeued":true,"queued":0,`},
		{"POST", "/tax/turn?timeout=10s", 409, `"paused":false`},
		{"POST", "/tax/reset", 200, ""},
		{"POST", "/tax/turn?timeout=10s", 200, ""},

		{"POST", "/new/quota", 400, ""},
		{"POST", "/new/quota?quotas=a/b", 400, ""},
		{"POST", "/new/quota?quotas=5/1h%3Bflow+3/1h", 400, "requests have a parameter flow"},
		{"POST", "/new/turn", 404, ""},
		{"POST", "/new/quota?quotas=5/1h+burst+1%3B+tokens+50/1h", 200, ""},
		{"POST", "/new/turn?tokens=50", 200, ""},
		{"GET", "/new", 200, `"quotas":\["5/1h burst 1"\].*"quotas":\["50/1h"\]`},
		{"DELETE", "/new/quota", 200, ""},
		{"POST", "/new/turn", 404, ""},
		{"GET", "/new", 404, ""},
	})
}

func TestMetricsNameWhatTheyAreOf(t *testing.T) {
	s := started(t, "unix", func(c *Config) { c.Quotas["a\"\n{x}"] = quotas("5/1s") })
	s.do("POST", "/v1/queues/fast/turn")
	text := s.do("GET", "/metrics").text
	require.Contains(t, text, `fairlimit_permits_total{limiter="fast",outcome="taken"} 1`+"\n")
	require.Contains(t, text, `fairlimit_available{limiter="a\"\n{x}"} 5`+"\n")
	require.Contains(t, text, `fairlimit_serve_answers_total{code="200"} 1`+"\n")
}

// llm is a queue that counts tokens as well.
func llm(c *Config) { c.Quotas["llm"], c.Admin = quotas("60/1h; tokens 2000/1h"), true }

func (s *served) tokens() int { return s.stands("llm").Units["tokens"].Available }

// turn asks for one, and returns the path of what is granted.
func (s *served) turn(path string) string {
	s.t.Helper()
	got := s.do("POST", "/v1/queues/"+path)
	require.Equal(s.t, 200, got.status)
	return fmt.Sprint("/v1/turns/", got.json["turn"])
}

func TestATurnThatNamesAUnitIsSettled(t *testing.T) {
	s := started(t, "unix", llm)
	settle := s.turn("llm/turn?tokens=1200&flow=a") + "/settle"
	require.Equal(t, 800, s.tokens())
	for _, query := range []string{"", "?token=1", "?tokens=x"} {
		require.Equal(t, 400, s.do("POST", settle+query).status)
	}
	require.Equal(t, 200, s.do("POST", settle+"?tokens=700").status)
	require.Equal(t, 1300, s.tokens())
	require.Equal(t, 404, s.do("POST", settle+"?tokens=700").status)
	require.Equal(t, 404, s.do("POST", s.turn("llm/turn")+"/settle?tokens=0").status, "it named no unit")
	for range 2 * mostTurns {
		s.keep(&held{reservation: new(fairlimit.Reservation)})
	}
	require.Equal(t, mostTurns, s.turns.Len(), "the oldest are forgotten")
}

func TestAReservationIsGivenBackByItsNameOrSettledOnceItHasCome(t *testing.T) {
	s := started(t, "unix", llm)
	came, later := s.turn("llm/reserve?tokens=2000"), s.turn("llm/reserve?tokens=1")
	require.Contains(t, s.do("POST", later+"/settle?tokens=0").json["error"], "has not come yet")
	require.Equal(t, 1, s.queued("llm"))

	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err()) // it takes no writes
	require.Equal(t, 503, s.do("DELETE", later).status)
	require.NoError(t, s.rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	require.Equal(t, "{\"given_back\":true}\n", s.do("DELETE", later).text)
	require.Zero(t, s.queued("llm"))
	require.Equal(t, 404, s.do("DELETE", later).status)
	require.Equal(t, 404, s.do("POST", later+"/settle?tokens=0").status)
	require.Equal(t, "{\"given_back\":false}\n", s.do("DELETE", came).text)
	require.Equal(t, 200, s.do("POST", came+"/settle?tokens=0&permits=0").status)
	require.Equal(t, 2000, s.tokens())
	require.Zero(t, s.turns.Len())
}
