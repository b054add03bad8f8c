package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheScenariosThereAre(t *testing.T) {
	var names, unjudged []string
	for _, s := range All {
		names = append(names, s.Name)
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Behave)
		require.NoError(t, s.Load.Or(Default).Guarded(0).Check(), s.Name)
		if s.Unjudged {
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

func TestTheGreedyClientHasFiftyCallers(t *testing.T) {
	greedy, found := Named("greedy")
	require.True(t, found)
	require.Equal(t, []int{50, 1, 1, 1, 1, 1, 1, 1, 1, 1}, greedy.CallersOf(greedy.Load.Or(Default)))
}

func TestWithoutTheGreedyOnlyTheModestCall(t *testing.T) {
	load := Load{Clients: 6, Callers: 1}
	require.Equal(t, []int{20, 20, 20, 20, 1, 1}, tenants.CallersOf(load))
	load.Modest = true
	require.Equal(t, []int{0, 0, 0, 0, 1, 1}, tenants.CallersOf(load))
	require.Equal(t, []int{0, 1}, tenants.CallersOf(Load{Clients: 2, Callers: 1, Modest: true}), "one is not greedy")
}
