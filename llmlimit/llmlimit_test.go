package llmlimit_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/llmlimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// units are the quotas of a provider, by unit; "" is requests.
type units = map[string]fairlimit.Quota

const input, output = llmlimit.InputTokens, llmlimit.OutputTokens

// queue makes a queue for a provider's units.
func queue(t testing.TB, rdb redis.UniversalClient, of units, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	for unit, quota := range of {
		if unit != "" {
			opts = append(opts, fairlimit.WithUnit(unit, quota))
		}
	}
	return limitertest.Named(t, rdb, t.Name(), of[""], opts...)
}

// request is one for an answer of so many tokens.
func request(t *testing.T, tokens, most, characters int, took time.Duration) *http.Request {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","output":%d,"took":%d,"max_tokens":%d,"messages":[%q]}`,
		tokens, took, most, strings.Repeat("why ", max(0, characters-100)/4))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://llm/v1/messages", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// send returns the status, and the answer once it was read.
func send(transport http.RoundTripper, req *http.Request) (int, string, error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// Four processes with five callers each share the budgets of Anthropic. Nobody is
// turned away, and little is unused. In which order they go is the queue's to say.
func TestProcessesKeepTheBudgetsOfAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perMinute := fairlimit.PerMinute
		quotas := units{"": perMinute(200), input: perMinute(80_000), output: perMinute(20_000)}
		server, upstream, began := redistest.Mini(t), newUpstream(quotas), time.Now()
		var callers sync.WaitGroup
		for process := range 4 {
			q := queue(t, server.NewClient(t), quotas, fairlimit.WithGuard(4*time.Second))
			transport := llmlimit.New(q, llmlimit.Anthropic)
			transport.Base, transport.OnError = upstream, func(err error) { t.Error(err) }
			for caller := range 5 {
				random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
				callers.Go(func() {
					for range 10 {
						tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
						took := time.Duration(tokens) * 5 * time.Millisecond
						status, _, err := send(transport, request(t, tokens, 4096, 300+random.IntN(1500), took))
						assert.NoError(t, err)
						assert.Equal(t, http.StatusOK, status)
					}
				})
			}
		}
		callers.Wait()
		synctest.Wait()

		assert.Zero(t, upstream.refused)
		for unit, quota := range quotas {
			assert.LessOrEqual(t, float64(upstream.worst[unit]), 1.15*float64(quota.Permits), unit)
		}
		used := float64(upstream.sum(output, time.Time{})) / time.Since(began).Minutes()
		assert.Greater(t, used, 0.8*float64(quotas[output].Permits))
	})
}

// A first guess of 512 tokens would keep all requests from a quota of 300.
func TestAGuessFitsTheQuota(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		perHour := fairlimit.PerHour
		q := queue(t, rdb, units{"": perHour(10), input: perHour(10_000), output: perHour(300)})
		transport := llmlimit.New(q, llmlimit.Anthropic)
		transport.Base = answering{status: http.StatusOK}
		_, _, err := send(transport, request(t, 100, 4096, 500, 0))
		require.NoError(t, err)
		assert.Equal(t, 300-512/2, limitertest.Status(t, q).Units[output].Available)
	})
}

// What else is refused is tested in httplimit.
func TestWhatIsNotConfiguredIsNotSent(t *testing.T) {
	q := limitertest.Alone(t, fairlimit.PerHour(10))
	for transport, want := range map[*httplimit.Transport]error{
		llmlimit.New(q, llmlimit.OpenAI):     fairlimit.ErrUnknownUnit,
		llmlimit.New(nil, llmlimit.OpenAI):   fairlimit.ErrInvalidOption,
		llmlimit.New(q, llmlimit.Provider{}): fairlimit.ErrInvalidOption,
	} {
		_, _, err := send(transport, request(t, 1, 1, 0, 0))
		require.ErrorIs(t, err, want)
	}
}

// answering is a base that answers in one way.
type answering struct {
	status int
	header http.Header
	body   string
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

const retryInfo = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[` +
	`{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},` +
	`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`

// Which answers refuse, and what their headers say, is tested in httplimit.
func TestWhatPausesTheQueue(t *testing.T) {
	const atLeast = 2 * time.Second
	inHeader := http.Header{"Retry-After": {"30"}}
	for name, test := range map[string]struct {
		provider llmlimit.Provider
		answer   answering
		want     time.Duration
	}{
		"as long as it says": {llmlimit.Anthropic, answering{429, inHeader, ""}, 30 * time.Second},
		"overloaded":         {llmlimit.Anthropic, answering{529, nil, ""}, atLeast},
		"it does not say":    {llmlimit.OpenAI, answering{429, nil, ""}, atLeast},
		"unavailable":        {llmlimit.OpenAI, answering{503, nil, ""}, 0},
		"the body says":      {llmlimit.Gemini, answering{429, nil, "[" + retryInfo + "\n]"}, 37 * time.Second},
		"for too long": {
			llmlimit.Gemini, answering{429, nil, strings.Replace(retryInfo, "37s", "3700s", 1)}, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				perHour := fairlimit.PerHour(10_000)
				q := queue(t, rdb, units{"": perHour, input: perHour, output: perHour, llmlimit.Tokens: perHour})
				transport := llmlimit.New(q, test.provider)
				transport.MaxPause, transport.Base = time.Minute, test.answer
				_, answer, err := send(transport, request(t, 0, 100, 0, 0))
				require.NoError(t, err)
				assert.Equal(t, test.answer.body, answer)
				synctest.Wait()
				assert.Equal(t, test.want, limitertest.Status(t, q).Paused)
			})
		})
	}
}
