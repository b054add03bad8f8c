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
type units map[string]fairlimit.Quota

// queue makes a queue for a provider's units.
func queue(t testing.TB, rdb redis.UniversalClient, name string, of units, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	for unit, quota := range of {
		if unit != "" {
			opts = append(opts, fairlimit.WithUnit(unit, quota))
		}
	}
	q, err := fairlimit.NewQueue(rdb, name, of[""], opts...)
	require.NoError(t, err)
	return q
}

// post sends a body, and returns the status and the answer once it was read.
func post(ctx context.Context, c *http.Client, url, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// body is a request for an answer, in the words of all providers.
func body(n, tokens, most, characters int, took time.Duration, fields string) string {
	text := llmtest.Ask(n, tokens, took)
	text += strings.Repeat(" why", max(0, characters-len(text)-60)/4)
	return fmt.Sprintf(`{"model":"m","max_tokens":%d%s,"messages":[{"role":"user","content":%q}]}`, most, fields, text)
}

// Four processes with five callers each share the budgets of a provider. Nobody is
// turned away, all go in the order in which they asked, and little is unused.
func TestProcessesKeepTheBudgetsOfAProvider(t *testing.T) {
	perMinute := fairlimit.PerMinute
	for name, test := range map[string]struct {
		provider llmlimit.Provider
		units    units
		upstream func(u units) *llmtest.Upstream
		url      string
		fields   string
		most     int
		opts     []fairlimit.Option
		unit     string // of which so much is to be used
		part     float64
		calls    int     // in all
		worst    float64 // of the quota, in any window
	}{
		"OpenAI": {
			provider: llmlimit.OpenAI, units: units{"": perMinute(200), llmlimit.Tokens: perMinute(20_000)},
			upstream: func(u units) *llmtest.Upstream { return llmtest.OpenAI(u[""], u[llmlimit.Tokens]) },
			url:      "http://openai/v1/chat/completions", most: 400, unit: llmlimit.Tokens, part: 0.8, calls: 150, worst: 1,
		},
		"Azure": {
			provider: llmlimit.Azure, units: units{"": perMinute(200), llmlimit.Tokens: perMinute(20_000)},
			upstream: func(u units) *llmtest.Upstream { return llmtest.Azure(u[""], u[llmlimit.Tokens]) },
			url:      "http://azure/openai/deployments/m/chat/completions", most: 400,
			fields: `,"stream":true,"stream_options":{"include_usage":true}`,
			unit:   llmlimit.Tokens, part: 0.7, calls: 100, worst: 1,
		},
		"Anthropic": {
			provider: llmlimit.Anthropic,
			units: units{
				"": perMinute(200), llmlimit.InputTokens: perMinute(80_000), llmlimit.OutputTokens: perMinute(20_000),
			},
			upstream: func(u units) *llmtest.Upstream {
				return llmtest.Anthropic(u[""], u[llmlimit.InputTokens], u[llmlimit.OutputTokens])
			},
			url: "http://anthropic/v1/messages", fields: `,"stream":true`, most: 4096,
			opts: []fairlimit.Option{fairlimit.WithGuard(4 * time.Second)},
			unit: llmlimit.OutputTokens, part: 0.8, calls: 200, worst: 1.15,
		},
	} {
		test.calls = redistest.Long(test.calls/2, test.calls)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, upstream := redistest.Mini(t), test.upstream(test.units)
				base := pipe.Serve(t, upstream)
				began := time.Now()
				asked := make([]time.Time, test.calls)
				var callers sync.WaitGroup
				var mu sync.Mutex
				next := 0
				number := func() int {
					mu.Lock()
					defer mu.Unlock()
					next++
					return next - 1
				}
				for process := range 4 {
					q := queue(t, server.NewClient(t), t.Name(), test.units, test.opts...)
					transport := llmlimit.New(q, test.provider)
					transport.Base = base
					transport.OnError = func(err error) { t.Error(err) }
					client := &http.Client{Transport: transport}
					for caller := range 5 {
						random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
						callers.Go(func() {
							time.Sleep(time.Duration(process+4*caller) * time.Millisecond)
							for n := number(); n < test.calls; n = number() {
								tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
								took := time.Duration(tokens) * 5 * time.Millisecond
								asked[n] = time.Now()
								status, _, err := post(t.Context(), client, test.url,
									body(n, tokens, test.most, 300+random.IntN(1500), took, test.fields))
								assert.NoError(t, err)
								assert.Equal(t, http.StatusOK, status)
							}
						})
					}
				}
				callers.Wait()
				synctest.Wait()

				calls := upstream.Calls()
				assert.Len(t, calls, test.calls)
				assert.Zero(t, upstream.Refused())
				slices.SortStableFunc(calls, func(a, b llmtest.Call) int { return asked[a.Number].Compare(asked[b.Number]) })
				assert.True(t, slices.IsSortedFunc(calls, func(a, b llmtest.Call) int { return a.At.Compare(b.At) }), "in order")
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

// anthropic is a queue of Anthropic's units, and a client that takes its turns.
func anthropic(
	t *testing.T, rdb redis.UniversalClient, base http.RoundTripper, output int,
) (*fairlimit.Queue, *http.Client) {
	t.Helper()
	q := queue(t, rdb, redistest.Name(t), units{
		"": fairlimit.PerHour(10), llmlimit.InputTokens: fairlimit.PerHour(10_000),
		llmlimit.OutputTokens: fairlimit.PerHour(output),
	})
	transport := llmlimit.New(q, llmlimit.Anthropic)
	transport.Base = base
	return q, &http.Client{Transport: transport}
}

func available(t *testing.T, q *fairlimit.Queue, unit string) int {
	t.Helper()
	return limitertest.Status(t, q).Units[unit].Available
}

func TestAStreamIsSettledOnceItIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		read   func(t *testing.T, resp *http.Response)
		output int
	}{
		"read to its end": {func(t *testing.T, resp *http.Response) {
			_, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
		}, 200},
		"closed early": {func(t *testing.T, resp *http.Response) {
			lines, seen := bufio.NewScanner(resp.Body), 0
			for seen < 2 && lines.Scan() {
				seen += strings.Count(lines.Text(), "text_delta")
			}
		}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				upstream := llmtest.Anthropic(fairlimit.PerHour(10), fairlimit.PerHour(10_000), fairlimit.PerHour(8_000))
				q, client := anthropic(t, rdb, pipe.Serve(t, upstream), 8_000)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://anthropic/v1/messages",
					strings.NewReader(body(0, 200, 500, 500, 4*time.Second, `,"stream":true`)))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				require.NoError(t, err)
				assert.Equal(t, 7500, available(t, q, llmlimit.OutputTokens), "reserved until then")
				test.read(t, resp)
				require.NoError(t, resp.Body.Close())
				synctest.Wait()
				assert.Equal(t, 8000-test.output, available(t, q, llmlimit.OutputTokens))
				assert.Equal(t, 9, limitertest.Status(t, q).Available)
			})
		})
	}
}

func TestARequestThatIsRefusedIsNotSent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		upstream := llmtest.OpenAI(fairlimit.PerHour(10), fairlimit.PerHour(1000))
		q := queue(t, rdb, t.Name(), units{"": fairlimit.PerHour(10), llmlimit.Tokens: fairlimit.PerHour(1000)})
		send := func(ctx context.Context, transport http.RoundTripper, most int) error {
			_, _, err := post(ctx, &http.Client{Transport: transport}, "http://openai/v1/chat/completions",
				body(0, 10, most, 0, 0, ""))
			return err
		}
		transport := llmlimit.New(q, llmlimit.OpenAI)
		transport.Base = pipe.Serve(t, upstream)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, send(ctx, transport, 1001), fairlimit.ErrExceedsQuota)
		require.NoError(t, send(ctx, transport, 1000))
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, send(ctx, transport, 1), &refused)
		assert.Greater(t, refused.Wait, 50*time.Minute)

		other := llmlimit.New(q, llmlimit.Anthropic)
		require.ErrorIs(t, send(ctx, other, 1), fairlimit.ErrUnknownUnit)
		require.ErrorIs(t, send(ctx, llmlimit.New(nil, llmlimit.OpenAI), 1), fairlimit.ErrInvalidOption)
		require.ErrorIs(t, send(ctx, llmlimit.New(q, llmlimit.Provider{}), 1), fairlimit.ErrInvalidOption)
		assert.Len(t, upstream.Calls(), 1)
	})
}

// A first guess of 512 tokens would keep all requests from a quota of 300.
func TestAGuessFitsTheQuota(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		upstream := llmtest.Anthropic(fairlimit.PerHour(10), fairlimit.PerHour(10_000), fairlimit.PerHour(300))
		q, client := anthropic(t, rdb, pipe.Serve(t, upstream), 300)
		status, _, err := post(t.Context(), client, "http://anthropic/v1/messages", body(0, 100, 4096, 500, 0, ""))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		synctest.Wait()
		assert.Equal(t, 200, available(t, q, llmlimit.OutputTokens))
	})
}

func TestWhatPausesTheQueue(t *testing.T) {
	const tokensLeft = "X-Ratelimit-Remaining-Tokens"
	for name, test := range map[string]struct {
		provider llmlimit.Provider
		status   int
		header   map[string]string
		body     string
		want     time.Duration
	}{
		"as long as it says": {llmlimit.Anthropic, 429, map[string]string{"Retry-After": "30"}, "", 30 * time.Second},
		"until the tokens are back": {
			llmlimit.OpenAI, 429,
			map[string]string{tokensLeft: "0", "X-Ratelimit-Reset-Tokens": "1m30s", "X-Ratelimit-Reset-Requests": "3h"},
			"", 90 * time.Second,
		},
		"overloaded":      {llmlimit.Anthropic, 529, nil, "", time.Second},
		"it does not say": {llmlimit.OpenAI, 429, nil, "", time.Second},
		"the body says":   {llmlimit.Gemini, 429, nil, retryInfo, 37 * time.Second},
		"in an array":     {llmlimit.Gemini, 429, nil, "[" + retryInfo + "\n]", 37 * time.Second},
		"for too long": {
			llmlimit.Gemini, 429, nil, strings.Replace(retryInfo, "37s", "3700s", 1), time.Minute,
		},
		"something else":      {llmlimit.OpenAI, 500, nil, "", 0},
		"a bad request":       {llmlimit.Anthropic, 400, nil, "", 0},
		"all is well, so far": {llmlimit.OpenAI, 200, map[string]string{tokensLeft: "0"}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				q := queue(t, rdb, t.Name(), units{
					"": fairlimit.PerHour(10), llmlimit.Tokens: fairlimit.PerHour(10_000),
					llmlimit.InputTokens: fairlimit.PerHour(10_000), llmlimit.OutputTokens: fairlimit.PerHour(10_000),
				})
				transport := llmlimit.New(q, test.provider)
				transport.MaxPause = max(test.want, time.Minute)
				transport.Base = sender(func(*http.Request) (*http.Response, error) {
					resp := &http.Response{StatusCode: test.status, Header: http.Header{}}
					resp.Body = io.NopCloser(strings.NewReader(test.body))
					for name, value := range test.header {
						resp.Header.Set(name, value)
					}
					return resp, nil
				})
				_, answer, err := post(t.Context(), &http.Client{Transport: transport}, "http://llm", body(0, 0, 100, 0, 0, ""))
				require.NoError(t, err)
				assert.Equal(t, test.body, answer)
				synctest.Wait()
				paused := limitertest.Status(t, q).Paused
				if test.want == time.Second { // the queue may not pause for so short a time
					assert.LessOrEqual(t, paused, 2*time.Second)
					paused = min(paused, test.want)
				}
				assert.Equal(t, test.want, paused)
			})
		})
	}
}

// The provider's clock is not the client's. Both are in the answer: its Date, and
// when the tokens are back.
func TestAResetCountsFromTheAnswersDate(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the clock is right": 0, "the client's is slow": 10 * time.Minute, "the client's is fast": -10 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				base := sender(func(*http.Request) (*http.Response, error) {
					now, header := time.Now().Add(ahead).UTC(), http.Header{}
					header.Set("Date", now.Format(http.TimeFormat))
					header.Set("Anthropic-Ratelimit-Output-Tokens-Remaining", "0")
					header.Set("Anthropic-Ratelimit-Output-Tokens-Reset", now.Add(40*time.Second).Format(time.RFC3339))
					header.Set("Anthropic-Ratelimit-Requests-Remaining", "7")
					header.Set("Anthropic-Ratelimit-Requests-Reset", now.Add(50*time.Second).Format(time.RFC3339))
					return &http.Response{StatusCode: 429, Header: header, Body: http.NoBody}, nil
				})
				q, client := anthropic(t, rdb, base, 8_000)
				_, _, err := post(t.Context(), client, "http://anthropic/v1/messages", body(0, 10, 100, 0, 0, ""))
				require.NoError(t, err)
				assert.Equal(t, 40*time.Second, limitertest.Status(t, q).Paused)
			})
		})
	}
}

const retryInfo = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[` +
	`{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},` +
	`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`

type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }
