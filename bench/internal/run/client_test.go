package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
)

// launched is one client of a quota.
func launched(t *testing.T, permits int) (*Fleet, *measure.Ledger) {
	t.Helper()
	redis, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	quota := scenario.Quota{Permits: permits, Per: time.Hour}
	ledger := measure.NewLedger(measure.Limits{Permits: permits, Per: quota.Per}, measure.Now)
	server := Serve(ledger)
	t.Cleanup(server.Close)
	f, err := Launch(t.Context(), ClientRole, []Job{{
		Scenario: "steady", Engine: "fair", Redis: redis.Addr(), Upstream: server.URL, Name: t.Name(),
		Client: 2, Callers: 3, Load: scenario.Load{Quota: quota, Clients: 3, Callers: 3},
	}})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f, ledger
}

func TestAClientTellsOfEveryCall(t *testing.T) {
	f, ledger := launched(t, 2)
	begin := measure.Now() + 50*time.Millisecond
	require.NoError(t, f.Start(begin))
	require.Eventually(t, func() bool { return ledger.Count() == 2 }, 10*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // for those who went to call again

	accounts, err := f.Stop()
	require.NoError(t, err)
	a := accounts[0]
	require.Positive(t, a.RedisCalls)
	require.Len(t, a.Told.Turns, 5)
	seen := map[measure.Outcome]int{}
	for _, call := range a.Calls {
		seen[call.Outcome]++
		require.Equal(t, 2, call.Client)
		require.GreaterOrEqual(t, call.Called, begin)
	}
	require.Equal(t, map[measure.Outcome]int{measure.Granted: 2, measure.Waiting: 3}, seen)
}

func TestAClientThatIsStoppedBeforeItBeganEnds(t *testing.T) {
	f, _ := launched(t, 1)
	require.NoError(t, f.clients[0].orders.Close())
	var a Account
	require.NoError(t, f.clients[0].hear(&a))
	require.Empty(t, a.Calls)
}
