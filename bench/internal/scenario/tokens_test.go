package scenario

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

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
