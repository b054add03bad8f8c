package llmlimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/llmtest"
	"github.com/fairlimit/fairlimit/internal/pipe"
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
	q, err := fairlimit.NewQueue(rdb, t.Name(), of[""], opts...)
	require.NoError(t, err)
	return q
}

// request is one for an answer of so many tokens, in the words of all providers.
func request(
	ctx context.Context, url string, n, tokens, most, characters int, took time.Duration, fields string,
) *http.Request {
	body := fmt.Sprintf(`{"model":"m","number":%d,"output":%d,"took":%d,"max_tokens":%d%s,"messages":[%q]}`,
		n, tokens, took, most, fields, strings.Repeat("why ", max(0, characters-100)/4))
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return req
}

// send returns the status, and the answer once it was read.
func send(transport http.RoundTripper, req *http.Request) (int, string, error) {
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

const messages = "http://anthropic/v1/messages"

// Four processes with five callers each share the budgets of a provider. Nobody is
// turned away, all go in the order in which they asked, and little is unused.
func TestProcessesKeepTheBudgetsOfAProvider(t *testing.T) {
	perMinute := fairlimit.PerMinute
	tokens := units{"": perMinute(200), llmlimit.Tokens: perMinute(20_000)}
	for name, test := range map[string]struct {
		provider llmlimit.Provider
		upstream func(units) *llmtest.Upstream
		units    units
		url      string
		fields   string
		most     int
		guard    time.Duration
		unit     string // of which so much is to be used
		part     float64
		calls    int     // in all
		worst    float64 // of the quota, in any window
	}{
		"OpenAI": {
			provider: llmlimit.OpenAI, upstream: llmtest.OpenAI, units: tokens,
			url: "http://openai/v1/chat/completions", most: 400,
			unit: llmlimit.Tokens, part: 0.8, calls: 150, worst: 1,
		},
		"Azure": {
			provider: llmlimit.Azure, upstream: llmtest.Azure, units: tokens,
			url: "http://azure/openai/deployments/m/chat/completions", most: 400,
			fields: `,"stream":true,"stream_options":{"include_usage":true}`,
			unit:   llmlimit.Tokens, part: 0.7, calls: 100, worst: 1,
		},
		"Anthropic": {
			provider: llmlimit.Anthropic, upstream: llmtest.Anthropic,
			units: units{"": perMinute(200), input: perMinute(80_000), output: perMinute(20_000)},
			url:   messages, fields: `,"stream":true`, most: 4096, guard: 4 * time.Second,
			unit: output, part: 0.8, calls: 200, worst: 1.15,
		},
	} {
		test.calls = redistest.Long(test.calls/2, test.calls)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, upstream, began := redistest.Mini(t), test.upstream(test.units), time.Now()
				base, asked := pipe.Serve(t, upstream), make([]time.Time, test.calls)
				var callers sync.WaitGroup
				var next atomic.Int64
				for process := range 4 {
					q := queue(t, server.NewClient(t), test.units, fairlimit.WithGuard(max(test.guard, 250*time.Millisecond)))
					transport := llmlimit.New(q, test.provider)
					transport.Base = base
					transport.OnError = func(err error) { t.Error(err) }
					for caller := range 5 {
						random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
						callers.Go(func() {
							time.Sleep(time.Duration(process+4*caller) * time.Millisecond)
							for n := int(next.Add(1)) - 1; n < test.calls; n = int(next.Add(1)) - 1 {
								tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
								took := time.Duration(tokens) * 5 * time.Millisecond
								asked[n] = time.Now()
								status, _, err := send(transport, request(t.Context(), test.url,
									n, tokens, test.most, 300+random.IntN(1500), took, test.fields))
								assert.NoError(t, err)
								assert.Equal(t, http.StatusOK, status)
							}
						})
					}
				}
				callers.Wait()
				synctest.Wait()

				calls, refused := upstream.Calls()
				assert.Len(t, calls, test.calls)
				assert.Zero(t, refused)
				slices.SortStableFunc(calls, func(a, b llmtest.Call) int { return asked[a.Number].Compare(asked[b.Number]) })
				inOrder := slices.IsSortedFunc(calls, func(a, b llmtest.Call) int { return a.At.Compare(b.At) })
				assert.True(t, inOrder)
				took := time.Since(began)
				for unit, quota := range test.units {
					used, worst := upstream.Used(unit)
					part := float64(used) / (float64(quota.Permits) * took.Minutes())
					full := float64(worst) / float64(quota.Permits)
					t.Logf("%q: %.0f %% used in %v, windows %.0f %% full", unit, 100*part, took, 100*full)
					assert.LessOrEqual(t, full, test.worst, unit)
					if unit == test.unit {
						assert.Greater(t, part, test.part, unit)
					}
				}
			})
		})
	}
}

// anthropic is a queue of Anthropic's units, and what takes its turns.
func anthropic(t *testing.T, base http.RoundTripper, rdb redis.UniversalClient, outputs int) (
	*fairlimit.Queue, http.RoundTripper,
) {
	t.Helper()
	q := queue(t, rdb, ofAnthropic(outputs))
	transport := llmlimit.New(q, llmlimit.Anthropic)
	transport.Base = base
	return q, transport
}

func ofAnthropic(outputs int) units {
	return units{"": fairlimit.PerHour(10), input: fairlimit.PerHour(10_000), output: fairlimit.PerHour(outputs)}
}

func available(t *testing.T, q *fairlimit.Queue, unit string) int {
	t.Helper()
	return limitertest.Status(t, q).Units[unit].Available
}

func TestAStreamIsSettledOnceItIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		deltas int // that are read
		output int
	}{
		"read to its end": {5, 200},
		"closed early":    {2, 100},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q, transport := anthropic(t, pipe.Serve(t, llmtest.Anthropic(ofAnthropic(8_000))), rdb, 8_000)
				resp, err := transport.RoundTrip(request(t.Context(), messages, 0, 200, 500, 500, 4*time.Second, `,"stream":true`))
				require.NoError(t, err)
				assert.Equal(t, 7500, available(t, q, output), "reserved until then")
				lines, seen := bufio.NewScanner(resp.Body), 0
				for seen < test.deltas && lines.Scan() {
					seen += strings.Count(lines.Text(), "text_delta")
				}
				require.NoError(t, resp.Body.Close())
				synctest.Wait()
				assert.Equal(t, 8000-test.output, available(t, q, output))
				assert.Equal(t, 9, limitertest.Status(t, q).Available)
			})
		})
	}
}

func TestARequestThatIsRefusedIsNotSent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		of := units{"": fairlimit.PerHour(10), llmlimit.Tokens: fairlimit.PerHour(1000)}
		q, upstream := queue(t, rdb, of), llmtest.OpenAI(of)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ask := func(transport http.RoundTripper, most int) error {
			_, _, err := send(transport, request(ctx, "http://openai/v1/chat/completions", 0, 10, most, 0, 0, ""))
			return err
		}
		transport := llmlimit.New(q, llmlimit.OpenAI)
		transport.Base = pipe.Serve(t, upstream)
		require.ErrorIs(t, ask(transport, 1001), fairlimit.ErrExceedsQuota)
		require.NoError(t, ask(transport, 1000))
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, ask(transport, 1), &refused)
		assert.Greater(t, refused.Wait, 50*time.Minute)

		require.ErrorIs(t, ask(llmlimit.New(q, llmlimit.Anthropic), 1), fairlimit.ErrUnknownUnit)
		require.ErrorIs(t, ask(llmlimit.New(nil, llmlimit.OpenAI), 1), fairlimit.ErrInvalidOption)
		require.ErrorIs(t, ask(llmlimit.New(q, llmlimit.Provider{}), 1), fairlimit.ErrInvalidOption)
		calls, _ := upstream.Calls()
		assert.Len(t, calls, 1)
	})
}

// A first guess of 512 tokens would keep all requests from a quota of 300.
func TestAGuessFitsTheQuota(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q, transport := anthropic(t, pipe.Serve(t, llmtest.Anthropic(ofAnthropic(300))), rdb, 300)
		status, _, err := send(transport, request(t.Context(), messages, 0, 100, 4096, 500, 0, ""))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		synctest.Wait()
		assert.Equal(t, 200, available(t, q, output))
	})
}

// answering is a base that answers in one way.
type answering struct {
	status int
	header map[string]string
	body   string
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body))}
	for name, value := range a.header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

const retryInfo = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[` +
	`{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},` +
	`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`

func TestWhatPausesTheQueue(t *testing.T) {
	const tokensLeft, atLeast = "X-Ratelimit-Remaining-Tokens", 2 * time.Second
	type headers = map[string]string
	for name, test := range map[string]struct {
		provider llmlimit.Provider
		answer   answering
		want     time.Duration
	}{
		"as long as it says": {llmlimit.Anthropic, answering{429, headers{"Retry-After": "30"}, ""}, 30 * time.Second},
		"until the tokens are back": {llmlimit.OpenAI, answering{429, headers{
			tokensLeft: "0", "X-Ratelimit-Reset-Tokens": "1m30s", "X-Ratelimit-Reset-Requests": "3h",
		}, ""}, time.Minute}, // MaxPause
		"overloaded":          {llmlimit.Anthropic, answering{529, nil, ""}, atLeast},
		"it does not say":     {llmlimit.OpenAI, answering{429, nil, ""}, atLeast},
		"the body says":       {llmlimit.Gemini, answering{429, nil, retryInfo}, 37 * time.Second},
		"in an array":         {llmlimit.Gemini, answering{429, nil, "[" + retryInfo + "\n]"}, 37 * time.Second},
		"something else":      {llmlimit.OpenAI, answering{500, nil, ""}, 0},
		"a bad request":       {llmlimit.Anthropic, answering{400, nil, ""}, 0},
		"all is well, so far": {llmlimit.OpenAI, answering{200, headers{tokensLeft: "0"}, ""}, 0},
		"for too long": {
			llmlimit.Gemini, answering{429, nil, strings.Replace(retryInfo, "37s", "3700s", 1)}, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				of := ofAnthropic(10_000)
				of[llmlimit.Tokens] = fairlimit.PerHour(10_000)
				q := queue(t, rdb, of)
				transport := llmlimit.New(q, test.provider)
				transport.MaxPause = time.Minute
				transport.Base = test.answer
				_, answer, err := send(transport, request(t.Context(), "http://llm", 0, 0, 100, 0, 0, ""))
				require.NoError(t, err)
				assert.Equal(t, test.answer.body, answer)
				synctest.Wait()
				assert.Equal(t, test.want, limitertest.Status(t, q).Paused)
			})
		})
	}
}
