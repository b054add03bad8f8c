package scenario

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryScenarioCanBeRun(t *testing.T) {
	for _, s := range All {
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Behave)
		require.NoError(t, s.Load.Or(Default).Guarded().Check(), s.Name)
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
	require.InDelta(t, 117, part(0.99), 10)
}
