package run

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
)

// TestMain makes the test binary a client that behaves as its role says.
func TestMain(m *testing.M) {
	orders := bufio.NewScanner(os.Stdin)
	switch os.Getenv(Role) {
	case "":
		os.Exit(m.Run())
	case Client:
		ClientMain()
	case "dies at work":
		orders.Scan()
		fmt.Println(`{}`)
		orders.Scan()
		os.Exit(4)
	case "cannot":
		orders.Scan()
		fmt.Println(`{"Error":"no Redis"}`)
		os.Exit(1)
	}
}

func TestAClientThatCannotBeginIsToldOf(t *testing.T) {
	_, err := Launch(t.Context(), "cannot", []Job{{}})
	require.ErrorContains(t, err, "no Redis")
}

func TestAClientThatDiesAtWorkIsToldOf(t *testing.T) {
	f, err := Launch(t.Context(), "dies at work", []Job{{}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	told, err := f.Stop()
	require.ErrorContains(t, err, "client 0 died: exit status 4")
	require.Empty(t, told[0].Calls)
}

func TestAClientTellsOfEveryCall(t *testing.T) {
	redis, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	quota := scenario.Quota{Permits: 2, Per: time.Hour}
	ledger := measure.NewLedger(measure.Limits{Permits: 2, Per: quota.Per}, measure.Now)
	server := Serve(ledger)
	t.Cleanup(server.Close)
	f, err := Launch(t.Context(), Client, []Job{{
		Scenario: "steady", Engine: "fair", Redis: redis.Addr(), Upstream: server.URL, Name: t.Name(),
		Client: 2, Callers: 3, Load: scenario.Load{Quota: quota, Clients: 3, Callers: 3},
	}})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	begin := measure.Now() + 50*time.Millisecond
	require.NoError(t, f.Start(begin))
	require.Eventually(t, func() bool { return len(ledger.Arrivals()) == 2 }, 10*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // for those who went to call again

	f.renew(scenario.Load{Quota: scenario.Quota{Permits: 2, Per: 2 * time.Hour}, Clients: 3, Callers: 3})
	require.NoError(t, f.clients[0].signal("STOP"))
	time.Sleep(50 * time.Millisecond)
	accounts, err := f.Stop()
	require.NoError(t, err, "it was woken to be sent home")
	a := accounts[0]
	require.Positive(t, a.RedisCalls)
	require.NotEmpty(t, a.Stalls, "it slept")
	seen := map[measure.Outcome]int{}
	for _, call := range a.Calls {
		seen[call.Outcome]++
		require.Equal(t, 2, call.Client)
		require.GreaterOrEqual(t, call.Called, begin)
	}
	require.Equal(t, map[measure.Outcome]int{measure.Granted: 2, measure.Waiting: 3}, seen)
}
