package fairlimit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A tenant with fifty calls goes at its own pace, and stands in nobody's way.
func TestAChainHoldsEachQuotaAndStopsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all := queueOf(t, server.Client, "all", fairlimit.PerSecond(4))
		tenant := func(name string) fairlimit.Limiter {
			return fairlimit.Chain(queueOf(t, server.Client, name, fairlimit.Every(time.Second)), all)
		}
		c, busy := newCrowd(t), tenant("busy")
		c.line(busy, 50)
		for i := range 6 {
			c.line(tenant(fmt.Sprint(i)), 1)
		}
		for i, w := range c.gone() {
			if i < 50 {
				assert.InDelta(t, float64(i), w.at.Seconds(), 1.01, "call %d of the busy tenant", i)
			} else {
				assert.LessOrEqual(t, w.at, 2*time.Second)
			}
		}
		assert.LessOrEqual(t, c.most(time.Second-time.Microsecond), 4)
	})
}

// Somebody has taken the only permit of the second, or of the first.
func TestWhatALaterLimiterRefusesIsGivenBack(t *testing.T) {
	type ask = func(t *testing.T, chain fairlimit.Limiter) error
	late := ask(func(t *testing.T, chain fairlimit.Limiter) error { return chain.Wait(within(t, time.Minute)) })
	leaves := ask(func(t *testing.T, chain fairlimit.Limiter) error {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, leave)
		return chain.Wait(ctx)
	})
	more := ask(func(t *testing.T, chain fairlimit.Limiter) error { return chain.WaitN(t.Context(), 2) })
	atOnce := ask(func(t *testing.T, chain fairlimit.Limiter) error { require.False(t, allow(t, chain)); return nil })
	type chained struct {
		taken int // 0: of the first
		ask   ask
		want  error
	}
	each(t, map[string]chained{
		"the second comes too late":                     {1, late, context.DeadlineExceeded},
		"a caller leaves while it waits for the second": {1, leaves, context.Canceled},
		"a caller leaves while it waits for the first":  {0, leaves, context.Canceled},
		"more than the second ever allows":              {1, more, fairlimit.ErrExceedsQuota},
		"Allow, and the second has none":                {1, atOnce, nil},
		"Allow, and the first has none":                 {0, atOnce, nil},
	}, func(t *testing.T, server *redistest.MiniServer, c chained) {
		quotas := []fairlimit.Quota{fairlimit.PerHour(5), fairlimit.PerHour(5)}
		quotas[c.taken] = fairlimit.PerHour(1)
		one, two := queueOf(t, server.Client, "one", quotas[0]), queueOf(t, server.Client, "two", quotas[1])
		require.NoError(t, []*fairlimit.Queue{one, two}[c.taken].Wait(t.Context()))
		chain := fairlimit.Chain(one, two)
		require.ErrorIs(t, c.ask(t, chain), c.want)
		synctest.Wait()
		want := [2]int{5, 5}
		want[c.taken] = 0
		assert.Equal(t, want, [2]int{status(t, one).Available, status(t, two).Available})
		assert.Zero(t, status(t, chain).Queued)
	})
}

func TestAChainIsALimiterOfTheNarrowest(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		one := queueOf(t, server.Client, "one", fairlimit.PerHour(3))
		two := queueOf(t, server.Client, "two", fairlimit.PerHour(5))
		chain := fairlimit.Chain(fairlimit.Chain(one, two)) // a chain in a chain is one chain
		reserve(t, two, 4)
		require.True(t, allow(t, chain))
		reserve(t, two, 1)
		assert.Equal(t, fairlimit.Status{Queued: 1, Delay: time.Hour}, status(t, chain))

		require.NoError(t, chain.(pauser).Pause(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, status(t, one).Paused)
		assert.Equal(t, time.Minute, status(t, two).Paused)
		require.ErrorIs(t, chain.Wait(within(t, time.Second)), fairlimit.ErrPaused)
		require.NoError(t, chain.Reset(t.Context()))
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, chain))

		reserve(t, two, 5)
		began := time.Now()
		require.ErrorIs(t, fairlimit.Chain(two, one).WaitN(t.Context(), 4), fairlimit.ErrExceedsQuota)
		assert.Zero(t, time.Since(began), "it does not wait for the first")
	})
}

func TestAChainOfNothingLetsNobodyGo(t *testing.T) {
	for _, chain := range []fairlimit.Limiter{fairlimit.Chain(), fairlimit.Chain(nil)} {
		_, allow := chain.Allow(t.Context())
		_, status := chain.Status(t.Context())
		pause := chain.(pauser).Pause(t.Context(), time.Second)
		for _, err := range []error{chain.Wait(t.Context()), allow, status, chain.Reset(t.Context()), pause} {
			require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
		}
	}
}

// What the chain does to all, it does to the others if one fails.
func TestAChainResetsEachOfItsLimiters(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerHour(1))
		require.NoError(t, q.Wait(t.Context()))
		failing := broken{err: assert.AnError}
		require.ErrorIs(t, fairlimit.Chain(failing, q).Reset(t.Context()), assert.AnError)
		assert.Equal(t, 1, status(t, q).Available)
		require.ErrorIs(t, fairlimit.Chain(q, failing).Wait(t.Context()), assert.AnError)
		synctest.Wait()
		assert.Equal(t, 1, status(t, q).Available)
		require.ErrorIs(t, fairlimit.Chain(failing).(pauser).Pause(t.Context(), time.Second), fairlimit.ErrUnsupported)
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
