package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/pipe"
)

const policyHeader = "Ratelimit-Policy"

// announcing is a base whose answers announce policies, on one line or on several.
func announcing(lines ...string) sender {
	header := http.Header{policyHeader: lines}
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: http.NoBody}, nil
	}
}

// learning is a limiter that writes down what it is to learn.
type learning struct {
	waiter
	learned string
}

func (l *learning) LearnQuotas(_ context.Context, quotas ...fairlimit.Quota) error {
	for _, q := range quotas {
		l.learned += q.String() + " "
	}
	return nil
}

func TestAPolicyIsRead(t *testing.T) {
	const bad = "it is bad"
	seven := strings.Repeat(`"a";q=50;w=60,`, 7)
	for policy, want := range map[string]string{
		"":                                      "",
		`"permin";q=50;w=60`:                    "50/1m ",
		`"a";q=50;w=60 , "b"; q=1000; w=3600`:   "50/1m 1000/1h ",
		"\"a\";q=50;w=60\n\"b\";q=1000;w=3600":  "50/1m 1000/1h ",
		`permin;q=50;w=60`:                      "50/1m ",
		`"a,b;q=1;w=9\"";q=50;w=60`:             "50/1m ",
		`"peruser";pk=:cHsdsRa894==:;q=50;w=60`: "50/1m ",
		`"a";q=50;qu="requests";w=60`:           "50/1m ",
		`"a";q=50;w=60;acme-burst=9;acme-soft`:  "50/1m ",
		`"a";q=1000000;w=1`:                     "1000000/1s ",

		`50;w=60, 1000;w=3600;comment="a, b"`: "50/1m 1000/1h ", // older drafts

		`"a";q=65535;qu="content-bytes";w=10`:                 "",
		`"a";q=2;qu="concurrent-requests"`:                    "",
		`"a";q=0;qu="content-bytes";w=10, "b";q=50;w=60`:      "50/1m ",
		`"lifetime";q=10, 7`:                                  "", // no window
		seven + `1000;w=3600, "i";q=9;qu="content-bytes";w=1`: strings.Repeat("50/1m ", 7) + "1000/1h ",
		seven + `1000;w=3600, "i";q=9;w=1`:                    bad,
		`"a";q=50;w=60, "b";q=1000001;w=1`:                    bad, // more than a million a second
		`"a";q=0;w=60`:                                        bad,
		`"a";q=50;w=0`:                                        bad,
		`"a";q=-1;w=60`:                                       bad,
		`"a";q=1.5;w=60`:                                      bad,
		`"a";q=1;w=99999999999999999999`:                      bad,
		`"a";w=60`:                                            bad,
		`"a";q=50;w=60, "b`:                                   bad,
		`fifty a minute`:                                      bad,
		`limit=50, window=60`:                                 bad,
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &learning{waiter: func(context.Context) error { return nil }}
				var told error
				transport := &httplimit.Transport{
					Limiter: l, Base: announcing(strings.Split(policy, "\n")...), Learn: true,
					OnError: func(err error) { told = err },
				}
				for range 2 { // it looks once a second
					get(t, transport, "http://upstream")
					synctest.Wait()
				}
				assert.Equal(t, want == bad, errors.Is(told, httplimit.ErrBadPolicy), "%v", told)
				assert.Equal(t, strings.TrimPrefix(want, bad), l.learned)
			})
		})
	}
}

func TestAPolicyThatCannotBeReadIsToldWithThePartThatIsWrong(t *testing.T) {
	for policy, want := range map[string]string{
		`"a";q=banana;w=60`:   "q is `banana`, want a whole number above 0, in `\"a\";q=banana;w=60`",
		`"a";q=1;w=soon`:      "w is `soon`, want whole seconds above 0, in ",
		`"a";q=1000001;w=1`:   "q is `1000001`, want at most a million a second, in ",
		`limit=50, window=60`: "the number is `limit=50`, want a whole number above 0, in ",
	} {
		synctest.Test(t, func(t *testing.T) {
			var told error
			get(t, &httplimit.Transport{
				Limiter: counting(t, 5), Base: announcing(policy), Learn: true, OnError: func(err error) { told = err },
			}, "http://upstream")
			synctest.Wait()
			require.ErrorIs(t, told, httplimit.ErrBadPolicy)
			require.ErrorContains(t, told, want)
		})
	}
}

func TestOnErrorHearsWhyAPolicyIsNotLearned(t *testing.T) {
	own := func(t *testing.T) httplimit.Waiter { return counting(t, 5) }
	stored := func(t *testing.T) httplimit.Waiter { return counting(t, 5, fairlimit.WithStoredQuota()) }
	for name, test := range map[string]struct {
		limiter func(t *testing.T) httplimit.Waiter
		policy  string
		want    error
	}{
		"quotas of its own": {own, "6;w=60", fairlimit.ErrInvalidOption},
		"a limiter that cannot": {
			func(t *testing.T) httplimit.Waiter { return fairlimit.Chain(counting(t, 5)) }, "6;w=60", fairlimit.ErrInvalidOption,
		},
		"a quota that is too large": {stored, "2000000000;w=3000", fairlimit.ErrUnsupported},
		"it is learned":             {stored, "6;w=60", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				get(t, &httplimit.Transport{
					Limiter: test.limiter(t), Base: announcing(test.policy), Learn: true,
					OnError: func(err error) { told = err },
				}, "http://upstream")
				synctest.Wait()
				require.ErrorIs(t, told, test.want)
			})
		})
	}
}

// The replicas of an upstream disagree. Each request of two processes reaches one
// of them.
func TestPoliciesThatChangeAllTheTimeAreLearnedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, random := fairlimittest.Start(t), rand.New(rand.NewPCG(1, 2))
		replicas := sender(func(req *http.Request) (*http.Response, error) {
			return announcing([]string{"50;w=1", "60;w=1"}[random.IntN(2)])(req)
		})
		var processes []*httplimit.Transport
		for range 2 {
			q := server.Queue(t, "q", fairlimit.PerSecond(40), fairlimit.WithStoredQuota())
			processes = append(processes, &httplimit.Transport{Limiter: q, Base: replicas, Learn: true})
		}
		var stored string
		var changed []time.Time
		for range 5 * 60 {
			for _, process := range processes {
				get(t, process, "http://upstream")
				synctest.Wait()
				if text, _ := server.Redis.Get("fairlimit:{q}:quota"); text != stored {
					stored, changed = text, append(changed, time.Now())
				}
			}
			time.Sleep(time.Second)
		}
		assert.Len(t, changed, 5)
		for i := range changed[1:] {
			assert.GreaterOrEqual(t, changed[i+1].Sub(changed[i]), time.Minute)
		}
	})
}

// changing is a strict upstream. It announces a policy in each response, and goes
// by it from a moment on.
type changing struct {
	mu      sync.Mutex
	policy  fairlimit.Quota
	strict  time.Time // since when
	arrived []time.Time
	refused int
}

func (c *changing) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	w.Header().Set(policyHeader, fmt.Sprintf(`"default";q=%d;w=%d`, c.policy.Permits, c.policy.Per/time.Second))
	if !now.Before(c.strict) && c.since(now.Add(-c.policy.Per)) >= c.policy.Permits {
		c.refused++
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	c.arrived = append(c.arrived, now)
}

// since, under mu, is how many requests came after then.
func (c *changing) since(then time.Time) int {
	i, _ := slices.BinarySearchFunc(c.arrived, then.Add(1), time.Time.Compare)
	return len(c.arrived) - i
}

// change announces another policy. The upstream goes by it once all processes can
// have learned it (a second), heard of it (another one), and have been silent for
// its window. Until then it lets through what is on its way.
func (c *changing) change(policy fairlimit.Quota) {
	c.mu.Lock()
	defer c.mu.Unlock()
	grace := time.Second + engine.Within + c.policy.Per + policy.Per
	c.policy, c.strict = policy, time.Now().Add(grace+grace/20) // the guard
}

// seen returns and forgets how many requests came since the upstream is strict, and
// how many it refused.
func (c *changing) seen() (strict, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	strict, refused = c.since(c.strict), c.refused
	c.refused = 0
	return strict, refused
}

// Twenty callers of two processes never stop.
func TestThreeChangesOfAPolicyAreFollowedWithoutA429(t *testing.T) {
	for name, learn := range map[string]bool{"with Learn": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := fairlimit.PerSecond(5)
				upstream, server := &changing{policy: first, strict: time.Now()}, fairlimittest.Start(t)
				ctx, stop := context.WithCancel(t.Context())
				var callers sync.WaitGroup
				for range 2 {
					q, err := fairlimit.New(server.Client(t), "q", first, fairlimit.WithStoredQuota())
					require.NoError(t, err)
					client := &http.Client{Transport: &httplimit.Transport{
						Limiter: q, Base: pipe.Serve(t, upstream), Learn: learn,
						OnError: func(err error) { assert.ErrorIs(t, err, httplimit.ErrNoDelay) },
					}}
					for range 10 {
						callers.Go(func() { call(ctx, client) })
					}
				}
				time.Sleep(10 * time.Second)
				refusedAny := false
				for _, policy := range []fairlimit.Quota{
					fairlimit.PerSecond(3), fairlimit.PerSecond(10), {Permits: 30, Per: 10 * time.Second},
				} {
					upstream.change(policy)
					const strictFor = 60 * time.Second
					time.Sleep(time.Until(upstream.strict) + strictFor)
					went, refused := upstream.seen()
					refusedAny = refusedAny || refused > 0
					if learn {
						assert.Zero(t, refused, policy)
						assert.GreaterOrEqual(t, went, int(strictFor/policy.Per)*policy.Permits*9/10, policy)
					}
				}
				assert.Equal(t, !learn, refusedAny)
				stop()
				callers.Wait()
			})
		})
	}
}

// call calls until ctx ends.
func call(ctx context.Context, client *http.Client) {
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream", nil)
		resp, err := client.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
