package faults_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestProcessesOfFlowsShareAQueue has one flow of many callers, and another
// whose few callers are in two processes. Each flow gets half, also once one of
// the two processes was killed. A flow whose processes are dead is forgotten.
func TestProcessesOfFlowsShareAQueue(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const pace, greedy = 10 * time.Millisecond, 0
	rdb, upstream := redistest.Standalone(t), startUpstream(t)
	start := func(who int, flow string, callers int) *process {
		p := startProcess(t, setup{
			Redis: rdb.Options().Addr, Name: t.Name(), Upstream: upstream.url, Who: who, Flow: flow,
			Quota: fairlimit.Every(pace),
		})
		p.does("call %d", callers)
		return p
	}
	start(greedy, "greedy", 50)
	one, other := start(1, "twins", 5), start(2, "twins", 5)
	shared := func(when string) {
		t.Helper()
		const calls = 100
		begun := len(upstream.calls())
		called := func(calls int) func() bool {
			return func() bool { return len(upstream.calls()) >= begun+calls }
		}
		require.Eventually(t, called(calls), time.Minute, pace)
		count := 0
		for _, a := range upstream.calls()[begun : begun+calls] {
			if a.who == greedy {
				count++
			}
		}
		assert.InDelta(t, calls/2, count, calls/5, "%s: %d of %d calls are greedy", when, count, calls)
	}
	require.Eventually(t, func() bool { return limitersOfFlows(t, rdb, t.Name()) == 3 }, time.Minute, pace)
	shared("of three processes")
	one.kill()
	require.Eventually(t, func() bool { return limitersOfFlows(t, rdb, t.Name()) == 2 }, time.Minute, pace)
	shared("of two")
	other.kill()
	require.Eventually(t, func() bool { return limitersOfFlows(t, rdb, t.Name()) == 1 }, time.Minute, pace)
}

// limitersOfFlows is how many a queue counts.
func limitersOfFlows(t *testing.T, rdb redis.UniversalClient, name string) (count int) {
	state, err := fair.Inspect(t.Context(), rdb, name)
	require.NoError(t, err)
	for _, flow := range state.Flows {
		count += flow.Limiters
	}
	return count
}
