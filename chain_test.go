package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// chained is a chain of two queues, and the two.
func chained(
	t *testing.T, rdb redis.UniversalClient, first, second fairlimit.Quota, opts ...fairlimit.Option,
) (chain, one, two fairlimit.Limiter) {
	t.Helper()
	one = named(t, rdb, "one", first)
	two = named(t, rdb, "two", second, opts...)
	return fairlimit.Chain(one, two), one, two
}

// take has a limiter grant n permits that are due at once, or later.
func take(t *testing.T, l fairlimit.Limiter, n int) {
	t.Helper()
	_, err := l.(fairlimit.Reserver).ReserveN(t.Context(), n)
	require.NoError(t, err)
}

func free(t *testing.T, limiters ...fairlimit.Limiter) (available []int) {
	t.Helper()
	for _, l := range limiters {
		available = append(available, status(t, l).Available)
	}
	return available
}

// A tenant with a hundred calls goes at its own pace, and stands in nobody's way.
func TestAChainHoldsEachQuotaAndStopsNobody(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		all := named(t, rdb, "all", fairlimit.PerSecond(4))
		tenant := func(name string) fairlimit.Limiter {
			return fairlimit.Chain(named(t, rdb, name, fairlimit.Every(time.Second)), all)
		}
		began := time.Now()
		went := map[string][]time.Duration{}
		var mu sync.Mutex
		var callers sync.WaitGroup
		call := func(name string, n int) {
			chain := tenant(name)
			for range n {
				callers.Go(func() {
					assert.NoError(t, chain.Wait(t.Context()))
					mu.Lock()
					defer mu.Unlock()
					went[name] = append(went[name], time.Since(began))
				})
			}
		}
		call("busy", 100)
		synctest.Wait()
		for i := range 6 {
			call(fmt.Sprint(i), 1)
		}
		callers.Wait()
		for i, at := range went["busy"] {
			assert.InDelta(t, float64(i), at.Seconds(), 1.01, "call %d of the busy tenant", i)
		}
		for i := range 6 {
			assert.LessOrEqual(t, went[fmt.Sprint(i)][0], 2*time.Second)
		}
	})
}

// TestWhatALaterLimiterRefusesIsGivenBack goes through the ways in which a chain
// says no. Of the first quota nothing is used afterwards, of the second no more
// than before.
func TestWhatALaterLimiterRefusesIsGivenBack(t *testing.T) {
	hourly, once := fairlimit.PerHour(5), fairlimit.PerHour(1)
	late, left := context.DeadlineExceeded, context.Canceled
	for name, c := range map[string]struct {
		first, second  fairlimit.Quota
		opts           []fairlimit.Option
		taken          []int // before
		permits        int
		within, leaves time.Duration // its deadline, and when it leaves
		allow          bool
		want           error
		free           []int
	}{
		"the second comes too late": {
			first: hourly, second: once, taken: []int{0, 1}, within: time.Minute, want: late, free: []int{5, 0},
		},
		"the second comes later than it may": {
			first: hourly, second: once, taken: []int{0, 1},
			opts: []fairlimit.Option{fairlimit.WithMaxWait(time.Minute)}, want: late, free: []int{5, 0},
		},
		"a caller that leaves while it waits for the second": {
			first: hourly, second: once, taken: []int{0, 1}, leaves: time.Minute, want: left, free: []int{5, 0},
		},
		"a caller that leaves while it waits for the first": {
			first: once, second: hourly, taken: []int{1, 0}, leaves: time.Minute, want: left, free: []int{0, 5},
		},
		"more than the second ever allows": {
			first: hourly, second: once, taken: []int{0, 0}, permits: 2,
			want: fairlimit.ErrExceedsQuota, free: []int{5, 1},
		},
		"more than the second ever allows, and none is free at the first": {
			first: hourly, second: once, taken: []int{5, 0}, permits: 2,
			want: fairlimit.ErrExceedsQuota, free: []int{0, 1},
		},
		"Allow, and the second has none": {
			first: hourly, second: once, taken: []int{0, 1}, allow: true, free: []int{5, 0},
		},
		"Allow, and the first has none": {
			first: once, second: hourly, taken: []int{1, 0}, allow: true, free: []int{0, 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				chain, one, two := chained(t, rdb, c.first, c.second, c.opts...)
				for i, l := range []fairlimit.Limiter{one, two} {
					if c.taken[i] > 0 {
						take(t, l, c.taken[i])
					}
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.within > 0 {
					ctx, leave = context.WithTimeout(ctx, c.within)
					defer leave()
				}
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, leave)
				}
				began := time.Now()
				if c.allow {
					ok, err := chain.Allow(ctx)
					require.NoError(t, err)
					assert.False(t, ok)
				} else {
					require.ErrorIs(t, chain.WaitN(ctx, max(1, c.permits)), c.want)
				}
				assert.Equal(t, c.leaves, time.Since(began))
				synctest.Wait()
				assert.Equal(t, c.free, free(t, one, two))
				assert.Zero(t, status(t, chain).Queued)
			})
		})
	}
}

// Two lines of 3 s that stand side by side are over in 3 s.
func TestAChainRefusesNobodyWhoComesInTime(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		chain, one, two := chained(t, rdb, fairlimit.PerSecond(1), fairlimit.PerSecond(1))
		for range 3 {
			take(t, one, 1)
			take(t, two, 1)
		}
		ctx := within(t, 4*time.Second)
		began := time.Now()
		require.NoError(t, chain.Wait(ctx))
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestAChainIsALimiterOfTheNarrowest(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		chain, one, two := chained(t, rdb, fairlimit.PerHour(3), fairlimit.PerHour(5))
		chain = fairlimit.Chain(chain) // a chain in a chain is one chain
		take(t, two, 4)
		ok, err := chain.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		take(t, two, 1)
		assert.Equal(t, fairlimit.Status{Available: 0, Queued: 1, Delay: time.Hour}, status(t, chain))

		require.NoError(t, chain.(pauser).Pause(t.Context(), time.Minute))
		for _, l := range []fairlimit.Limiter{one, two, chain} {
			assert.Equal(t, time.Minute, status(t, l).Paused)
		}
		ctx := within(t, time.Second)
		require.ErrorIs(t, chain.Wait(ctx), fairlimit.ErrPaused)

		require.NoError(t, chain.Reset(t.Context()))
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, chain))
	})
}

func TestAChainOfNothingLetsNobodyGo(t *testing.T) {
	for _, chain := range []fairlimit.Limiter{fairlimit.Chain(), fairlimit.Chain(nil)} {
		_, allow := chain.Allow(t.Context())
		_, status := chain.Status(t.Context())
		for _, err := range []error{
			chain.Wait(t.Context()), allow, status, chain.Reset(t.Context()),
			chain.(pauser).Pause(t.Context(), time.Second),
		} {
			require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
		}
	}
}

// The first limiter of a chain fails. What the chain does to all, it does to the
// others all the same.
func TestAChainResetsEachOfItsLimiters(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := limiter(t, rdb, fairlimit.PerHour(1))
		require.NoError(t, q.Wait(t.Context()))
		failing := broken{q, assert.AnError}
		require.ErrorIs(t, fairlimit.Chain(failing, q).Reset(t.Context()), assert.AnError)
		assert.Equal(t, 1, status(t, q).Available)
		require.ErrorIs(t, fairlimit.Chain(failing).(pauser).Pause(t.Context(), time.Second), fairlimit.ErrUnsupported)
	})
}

// On the real clock, with limiters that cannot give back among them.
func TestAChainOnEveryEngine(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		queue := limiter(t, rdb, fairlimit.PerHour(5))
		other, err := fairlimit.New(rdb, redistest.Name(t)+" window", fairlimit.PerHour(2),
			fairlimit.WithEngine(window.New))
		require.NoError(t, err)
		open := named(t, rdb, redistest.Name(t)+" open", fairlimit.PerHour(9),
			fairlimit.WithFallback(fairlimit.FailOpen))
		chain := fairlimit.Chain(queue, open, other)
		require.NoError(t, chain.Wait(t.Context()))
		require.NoError(t, chain.Wait(t.Context()))
		ctx := within(t, time.Minute)
		require.ErrorAs(t, chain.Wait(ctx), new(*fairlimit.RefusedError))
		assert.Equal(t, []int{3, 6, 0}, free(t, queue, open, other), "open keeps what it granted")
		failing := errors.New("no")
		require.ErrorIs(t, fairlimit.Chain(queue, broken{queue, failing}).Wait(t.Context()), failing)
		assert.Equal(t, []int{3}, free(t, queue))
	})
}

// broken is a limiter of somebody else, which fails.
type broken struct {
	fairlimit.Limiter
	err error
}

func (b broken) WaitN(context.Context, int) error { return b.err }
func (b broken) Reset(context.Context) error      { return b.err }

type pauser interface {
	Pause(ctx context.Context, d time.Duration) error
}
