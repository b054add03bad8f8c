package scenario

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
