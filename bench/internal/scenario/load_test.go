package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckNamesTheFlagToChange(t *testing.T) {
	good := Load{
		Quota: Quota{Permits: 20, Per: time.Second}, Guard: 10 * time.Millisecond,
		Clients: 4, Callers: 4, Duration: 10 * time.Second,
	}
	require.NoError(t, good.Check())

	for flag, spoil := range map[string]func(*Load){
		"-burst":    func(l *Load) { l.Quota.Burst = 21 },
		"-guard":    func(l *Load) { l.Guard = -1 },
		"-clients":  func(l *Load) { l.Clients = 0 },
		"-callers":  func(l *Load) { l.Callers = -1 },
		"-duration": func(l *Load) { l.Duration = 2 * time.Second },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.Check(), flag)
	}
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
