package scenario

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

func TestTheScenariosThereAre(t *testing.T) {
	var names, unjudged []string
	for _, s := range All {
		names = append(names, s.Name)
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Behave)
		require.NoError(t, s.Load.Or(Default).Guarded(0).Check(), s.Name)
		if s.EndsRedis {
			unjudged = append(unjudged, s.Name)
			require.NotEmpty(t, s.Shows, s.Name)
		}
	}
	require.Equal(t, []string{
		"steady", "burst", "greedy", "newcomer", "trickle", "weighted", "impatient", "fickle",
		"crash", "laggy", "restart", "onoff",
		"few-3-every", "few-3-second", "few-3-burst", "few-1-every", "few-1-second", "few-1-burst", "tenants",
		"tokens-most", "tokens-85", "tokens-75", "tokens-cold", "tokens-long",
	}, names)
	require.Equal(t, []string{"restart"}, unjudged)
}

func TestWithoutTheGreedyOnlyTheModestCall(t *testing.T) {
	load := Load{Clients: 6, Callers: 1}
	require.Equal(t, []int{20, 20, 20, 20, 1, 1}, tenants.CallersOf(load))
	load.Modest = true
	require.Equal(t, []int{0, 0, 0, 0, 1, 1}, tenants.CallersOf(load))
	require.Equal(t, []int{0, 1}, tenants.CallersOf(Load{Clients: 2, Callers: 1, Modest: true}), "one is not greedy")
}

func TestABurstIsAWholeNumberOfQuotasAndLeavesNobodyOut(t *testing.T) {
	for name, c := range map[string]struct{ permits, clients, callers, quotas int }{
		"few callers":   {permits: 20, clients: 4, callers: 2, quotas: 3},
		"no even split": {permits: 20, clients: 4, callers: 8, quotas: 3},
		"many callers":  {permits: 2, clients: 5, callers: 5, quotas: 13},
		"one by one":    {permits: 1, clients: 1, callers: 1, quotas: 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := Load{
				Quota: Quota{Permits: c.permits, Per: time.Second}, Guard: 10 * time.Millisecond,
				Clients: c.clients, Callers: c.callers,
			}
			total := 0
			for caller := range c.clients * c.callers {
				calls, every := burstOf(l, caller)
				require.Positive(t, calls)
				require.Equal(t, time.Duration(c.quotas+2)*l.Period(), every)
				total += calls
			}
			require.Equal(t, c.quotas*c.permits, total)
		})
	}
}

func TestDelaysHaveAHeavyTailWithinTheirBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var drawn []time.Duration
	for range 20_000 {
		drawn = append(drawn, laggy.Replies.Draw(rng.Float64()))
	}
	slices.Sort(drawn)
	require.GreaterOrEqual(t, drawn[0], laggy.Replies.Least)
	require.LessOrEqual(t, drawn[len(drawn)-1], laggy.Replies.Most)
	part := func(q float64) float64 { return drawn[int(q*float64(len(drawn)))].Seconds() * 1000 }
	require.InDelta(t, 0.75, part(0.5), 0.05)
	require.InDelta(t, 12, part(0.9), 1)
	require.InDelta(t, 117, part(0.99), 10)
}

func TestTheDefaultGuardFollowsFromTheDelays(t *testing.T) {
	const ms = time.Millisecond
	guard := func(l Load, spread time.Duration) time.Duration { return l.Guarded(spread).Guard }
	second := Load{Quota: Quota{Permits: 20, Per: time.Second}}
	require.Equal(t, 10*ms, guard(second, 0))
	require.Equal(t, 10*ms, guard(second, 4900*time.Microsecond))
	require.Equal(t, 31*ms, guard(second, 15300*time.Microsecond), "twice as much")
	require.Equal(t, 500*ms, guard(second, 2*time.Second), "at most half of the window")
	require.Equal(t, 100*ms, guard(Load{Quota: Quota{Permits: 1, Per: 200 * ms}}, time.Second))
	second.Guard = 250 * ms
	require.Equal(t, 250*ms, guard(second, 15*ms), "what a scenario wants is the least")
}

func TestACallThatIsTurnedAwayIsMadeAgainAndTheNextEstimateKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scenario, _ := Named("tokens-cold")
		ctx, cancel := context.WithCancel(t.Context())
		me := Caller{
			Load: scenario.Load, Rand: rand.New(rand.NewPCG(1, 2)), Estimator: scenario.Tokens.Estimator(1, 0),
		}
		var made []measure.Tokens
		var at []time.Time
		me.CallTokens = func(_ context.Context, c measure.Tokens) bool {
			if made, at = append(made, c), append(at, time.Now()); len(made) == 3 {
				cancel()
			}
			return len(made) > 1
		}
		scenario.Behave(ctx, me)
		require.Len(t, made, 3)
		require.Equal(t, made[0], made[1])
		require.Equal(t, me.Load.Quota.Per/60, at[1].Sub(at[0]).Round(time.Millisecond))
		require.Equal(t, 4096, made[1].Reserved, "nothing was seen yet")
		require.Equal(t, made[1].Output, made[2].Reserved)
		require.Less(t, made[1].Takes, me.Load.Quota.Per)
	})
}

func TestEstimatesAreTheQuantileOfWhatWasSeenBefore(t *testing.T) {
	guess := func(name string) int {
		s, _ := Named(name)
		return Caller{Estimator: s.Tokens.Estimator(1, 0)}.guess()
	}
	require.Equal(t, mostOutput, guess("tokens-most"))
	require.Greater(t, guess("tokens-85"), guess("tokens-75"))
	require.InDelta(t, 740, guess("tokens-75"), 150)
}
