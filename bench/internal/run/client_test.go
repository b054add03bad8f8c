package run

import (
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
)

// running is a client in this process, as its parent sees it.
type running struct {
	ledger *measure.Ledger
	stdin  io.Closer
	orders *json.Encoder
	news   *json.Decoder
	ended  chan error
}

func run(t *testing.T, permits int, per time.Duration) *running {
	t.Helper()
	redis, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	ledger := measure.NewLedger(permits, per, measure.Now)
	server := Serve(ledger)
	t.Cleanup(server.Close)

	in, orders := io.Pipe()
	news, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { news.Close(); out.Close() })
	r := &running{
		ledger: ledger, stdin: orders, orders: json.NewEncoder(orders), news: json.NewDecoder(news),
		ended: make(chan error, 1),
	}
	go func() { r.ended <- Client(in, out) }()
	require.NoError(t, r.orders.Encode(Job{
		Scenario: "steady", Engine: "fair", Redis: redis.Addr(), Upstream: server.URL, Name: t.Name(),
		Client: 2, Callers: 3,
		Load: scenario.Load{Quota: scenario.Quota{Permits: permits, Per: per}, Clients: 3, Callers: 3},
	}))
	require.Empty(t, r.hear(t))
	return r
}

func (r *running) hear(t *testing.T) (a Account) {
	t.Helper()
	require.NoError(t, r.news.Decode(&a))
	return a
}

// home ends the orders, and returns what the client has to tell.
func (r *running) home(t *testing.T) Account {
	t.Helper()
	require.NoError(t, r.stdin.Close())
	a := r.hear(t)
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the client goes on")
	}
	return a
}

func TestAClientTellsOfEveryCall(t *testing.T) {
	r := run(t, 2, time.Hour)
	begin := measure.Now() + 50*time.Millisecond
	require.NoError(t, r.orders.Encode(begin))
	require.Eventually(t, func() bool { return r.ledger.Count() == 2 }, 10*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // for those who went to call again

	a := r.home(t)
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
	require.Empty(t, run(t, 1, time.Hour).home(t).Calls)
}
