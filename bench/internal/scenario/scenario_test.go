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
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Behave)
		require.NoError(t, s.Load.Or(Default).Guarded().Check(), s.Name)
	}
	require.Equal(t, []string{
		"steady", "burst", "greedy", "trickle", "weighted", "impatient", "fickle", "crash", "laggy", "restart", "onoff",
		"killed", "changed", "learns",
		"few-3-every", "few-3-second", "few-3-burst", "few-1-every", "few-1-second", "few-1-burst",
		"tokens-most", "tokens-75", "tokens-long",
	}, names)
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
	require.InDelta(t, 117, part(0.99), 10)
}

func TestACallThatIsTurnedAwayIsMadeAgainAndTheNextEstimateKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scenario, _ := Named("tokens-75")
		ctx, cancel := context.WithCancel(t.Context())
		me := Caller{
			Load: scenario.Load, Rand: rand.New(rand.NewPCG(1, 2)), Estimator: scenario.Tokens.Estimator(1, 0),
		}
		var made []measure.Tokens
		var at []time.Time
		me.Call = func(_ context.Context, _ int, c *measure.Tokens) bool {
			if made, at = append(made, *c), append(at, time.Now()); len(made) == 3 {
				cancel()
			}
			return len(made) > 1
		}
		scenario.Behave(ctx, me)
		require.Len(t, made, 3)
		require.Equal(t, made[0], made[1])
		require.Equal(t, me.Load.Quota.Per/60, at[1].Sub(at[0]).Round(time.Millisecond))
		require.InDelta(t, 740, made[0].Reserved, 150, "the quantile of what was seen before")
		require.Less(t, made[1].Takes, me.Load.Quota.Per)
	})
}
