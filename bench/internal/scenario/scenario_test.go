package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

func TestTheScenariosThereAre(t *testing.T) {
	var names, withoutGoal []string
	for _, s := range scenario.All {
		names = append(names, s.Name)
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Behave)
		require.NoError(t, s.Load.Or(load.Default).Guarded().Check(), s.Name)
		if s.Shows != "" {
			withoutGoal = append(withoutGoal, s.Name)
		}
	}
	require.Equal(t, []string{
		"steady", "burst", "greedy", "trickle", "weighted", "impatient", "fickle", "crash", "laggy", "restart", "onoff",
	}, names)
	require.Equal(t, []string{"crash", "restart", "onoff"}, withoutGoal)
}

func TestTheGreedyClientHasFiftyCallers(t *testing.T) {
	greedy, found := scenario.Named("greedy")
	require.True(t, found)
	require.Equal(t, []int{50, 1, 1, 1, 1, 1, 1, 1, 1, 1}, greedy.CallersOf(greedy.Load.Or(load.Default)))
}

func TestOrderIsJudgedOverWhatIsHeldUp(t *testing.T) {
	for _, s := range scenario.All {
		want := 10 * time.Millisecond
		if s.Name == "laggy" {
			want = 210 * time.Millisecond
		}
		require.Equal(t, want, s.Apart(), s.Name)
	}
}
