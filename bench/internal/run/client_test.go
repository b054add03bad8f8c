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
	server, err := Serve(ledger)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })

	in, orders := io.Pipe()
	news, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { news.Close(); out.Close() })
	r := &running{
		ledger: ledger, stdin: orders, orders: json.NewEncoder(orders), news: json.NewDecoder(news),
		ended: make(chan error, 1),
	}
	go func() { r.ended <- Run(in, out) }()
	r.order(t, Order{Job: &Job{
		Scenario: "steady", Engine: "fair", Redis: redis.Addr(), Upstream: server.URL, Name: t.Name(),
		Client: 2, Callers: 3,
		Load: scenario.Load{Quota: scenario.Quota{Permits: permits, Per: per}, Clients: 3, Callers: 3},
	}})
	require.True(t, r.hear(t).Ready)
	return r
}

func (r *running) order(t *testing.T, o Order) {
	t.Helper()
	require.NoError(t, r.orders.Encode(o))
}

func (r *running) hear(t *testing.T) (n News) {
	t.Helper()
	require.NoError(t, r.news.Decode(&n))
	return n
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the client goes on")
		return nil
	}
}

func TestAClientTellsOfEveryCall(t *testing.T) {
	r := run(t, 2, time.Hour)
	begin := measure.Now() + 50*time.Millisecond
	r.order(t, Order{Start: &begin})

	seen := map[measure.Outcome]int{}
	var turns []measure.Turn
	for range 2 {
		news := r.hear(t)
		call := news.Call
		seen[call.Outcome]++
		turns = append(turns, news.Told.Turns...)
		require.Equal(t, 2, call.Client)
		require.GreaterOrEqual(t, call.Called, begin)
	}
	for _, turn := range turns[:2] {
		require.LessOrEqual(t, begin, turn.Sent)
		require.Less(t, turn.Sent, turn.Replied)
	}
	r.order(t, Order{Stop: true})
	for {
		news := r.hear(t)
		if news.Done {
			require.Positive(t, news.RedisCalls)
			break
		}
		seen[news.Call.Outcome]++
	}
	require.NoError(t, r.end(t))
	require.Equal(t, map[measure.Outcome]int{measure.Granted: 2, measure.Waiting: 3}, seen)
	require.Equal(t, 2, r.ledger.Count())
}

func TestAClientWithoutAParentEnds(t *testing.T) {
	r := run(t, 1, time.Hour)
	begin := measure.Now()
	r.order(t, Order{Start: &begin})
	require.Equal(t, measure.Granted, r.hear(t).Call.Outcome)

	require.NoError(t, r.stdin.Close())
	require.Error(t, r.end(t), "everybody waits for an hour, and it ends all the same")
}

func TestAClientThatIsStoppedBeforeItBeganEnds(t *testing.T) {
	r := run(t, 1, time.Hour)
	r.order(t, Order{Stop: true})
	require.True(t, r.hear(t).Done)
	require.NoError(t, r.end(t))
}
