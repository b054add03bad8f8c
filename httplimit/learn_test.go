package httplimit_test

import (
	"context"
	"errors"
	"fmt"
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
)

// learning is a limiter that writes down what it is to learn.
type learning struct {
	httplimit.Waiter
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
			bubble(t, func(t *testing.T, r *rig) {
				l := &learning{Waiter: r.queue}
				r.Limiter, r.Learn = l, true
				r.upstream.header = http.Header{"Ratelimit-Policy": strings.Split(policy, "\n")}
				for range 2 { // it looks once a second
					r.get(t, url)
					synctest.Wait()
				}
				assert.Equal(t, want == bad, errors.Is(r.told, httplimit.ErrBadPolicy), "%v", r.told)
				assert.Equal(t, strings.TrimPrefix(want, bad), l.learned)
			})
		})
	}
}

func TestAPolicyThatCannotBeReadIsToldWithThePartThatIsWrong(t *testing.T) {
	type told struct{ policy, want string }
	each(t, map[string]told{
		"its quota":   {`"a";q=banana;w=60`, "q is `banana`, want a whole number above 0, in `\"a\";q=banana;w=60`"},
		"its window":  {`"a";q=1;w=soon`, "w is `soon`, want whole seconds above 0, in "},
		"too much":    {`"a";q=1000001;w=1`, "q is `1000001`, want at most a million a second, in "},
		"older forms": {`limit=50, window=60`, "the number is `limit=50`, want a whole number above 0, in "},
	}, func(t *testing.T, r *rig, c told) {
		r.Learn, r.upstream.header = true, headers("RateLimit-Policy", c.policy)
		r.get(t, url)
		synctest.Wait()
		require.ErrorContains(t, r.told, c.want)
	})
}

// Which quotas a queue learns, and how often, is tested there.
func TestOnErrorHearsWhyAPolicyIsNotLearned(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Learn, r.upstream.header = true, headers("RateLimit-Policy", "6;w=60")
		for _, r.Limiter = range []httplimit.Waiter{r.queue, fairlimit.Chain(r.queue)} {
			r.told = nil
			r.get(t, url)
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, r.told, fairlimit.ErrInvalidOption)
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

func (c *changing) RoundTrip(*http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, answer := time.Now(), upstream{}
	answer.header = headers("RateLimit-Policy", fmt.Sprintf("%d;w=%d", c.policy.Permits, c.policy.Per/time.Second))
	if !now.Before(c.strict) && c.since(now.Add(-c.policy.Per)) >= c.policy.Permits {
		c.refused++
		answer.code = http.StatusTooManyRequests
	} else {
		c.arrived = append(c.arrived, now)
	}
	return answer.RoundTrip(nil)
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

// Twenty callers of two processes never stop.
func TestThreeChangesOfAPolicyAreFollowedWithoutA429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := fairlimit.PerSecond(5)
		upstream, server := &changing{policy: first, strict: time.Now()}, fairlimittest.Start(t)
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 2 {
			q, err := fairlimit.New(server.Client(t), "q", first, fairlimit.WithStoredQuota())
			require.NoError(t, err)
			transport := &httplimit.Transport{Limiter: q, Base: upstream, Learn: true}
			for range 10 {
				callers.Go(func() {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
					for err == nil {
						_, err = transport.RoundTrip(req)
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		for _, policy := range []fairlimit.Quota{
			fairlimit.PerSecond(3), fairlimit.PerSecond(10), {Permits: 30, Per: 10 * time.Second},
		} {
			const strictFor = 60 * time.Second
			upstream.change(policy)
			time.Sleep(time.Until(upstream.strict) + strictFor)
			upstream.mu.Lock()
			assert.Zero(t, upstream.refused, policy)
			assert.GreaterOrEqual(t, upstream.since(upstream.strict), int(strictFor/policy.Per)*policy.Permits*9/10, policy)
			upstream.mu.Unlock()
		}
		stop()
		callers.Wait()
	})
}
