package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestProcessesOfFlowsShareAQueue starts further runs of this binary, each of
// which is a process of one flow. Two flows differ by no more than one share
// over any interval, and the whole quota is used, while one flow rests and comes
// back, another changes its weight, and is killed.
//
// That holds as long as each process asks for its next turn within one permit
// of the last. Where the machine held one up for longer, it lost as many.
func TestProcessesOfFlowsShareAQueue(t *testing.T) {
	t.Parallel()
	if runService(t) {
		return
	}
	rdb := redistest.Standalone(t)
	name, turns := redistest.Name(t), &book{}
	start := func(flow string, weight, callers int) *service {
		s := &service{
			Server: rdb.Options().Addr, Name: name, Flow: flow, Weight: weight, Callers: callers, book: turns,
		}
		s.start(t)
		return s
	}
	greedy, heavy := start("greedy", 1, 50), start("heavy", 2, 10)
	twins := []*service{start("twins", 1, 10), start("twins", 1, 10)}
	all := append([]*service{greedy, heavy}, twins...)
	for _, s := range all {
		s.order(t, "call")
		require.Eventually(t, func() bool { return turns.newest(s) > 0 }, 20*time.Second, time.Millisecond)
	}
	entries := func() int { return flowsOf(t, rdb, name) }
	// shared requires that flows differ by no more than one share, each weighed,
	// and that the quota was used, but for what the machine was late by.
	shared := func(when string, from, to int64, share int, one *service, weight int, other *service, itsWeight int) {
		t.Helper()
		widest := turns.widest(from, to, one.Flow, weight, other.Flow, itsWeight)
		unused, due := turns.unused(from, to)
		late := turns.late(from, to)
		t.Logf("%s: %s and %s differ by up to %d, a share is %d; %d of %d permits unused, %d late",
			when, one.Flow, other.Flow, widest, share, unused, due, late)
		assert.LessOrEqual(t, widest, share+late, when)
		assert.LessOrEqual(t, unused, due/100+late, when)
	}
	// settle waits until everybody has asked with the shares that hold now.
	settle := func(services ...*service) { turns.pass(t, 3, services...) }
	const long = 6 // turns of everybody

	settle(all...)
	from, to := turns.pass(t, long, all...)
	shared("all", from, to, 2, greedy, 1, twins[0], 1)
	shared("all", from, to, 2*2, greedy, 1, heavy, 2)

	var first engine.Answer
	newer := named(t, rdb, name, fairlimit.Every(serviceQuota), fairlimit.WithFlow("newer", 1),
		tellsTurns(func(a engine.Answer) { first = a }, func(engine.Grant) {}))
	require.NoError(t, newer.Wait(t.Context()))
	ahead := 0
	for _, one := range turns.all() {
		if one.made < made(first) && one.slot > made(first) {
			ahead++
		}
	}
	t.Logf("a new flow came after %d permits, in %v", ahead, first.Wait)
	assert.LessOrEqual(t, ahead, 8, "the look-ahead, whatever the others have in line")
	assert.LessOrEqual(t, first.Wait, 9*serviceQuota)

	for _, s := range twins {
		s.order(t, "rest")
	}
	require.Eventually(t, func() bool { return entries() == 2 }, time.Minute, 10*time.Millisecond, "it is forgotten")
	settle(greedy, heavy)
	from, to = turns.pass(t, 2*long, greedy, heavy)
	shared("while one rests", from, to, 2*2, greedy, 1, heavy, 2)

	for _, s := range twins {
		s.order(t, "call")
	}
	from, to = turns.pass(t, long, all...)
	shared("from when it is back on", from, to, 2*2, greedy, 1, twins[0], 1)

	heavy.order(t, "weigh 1")
	settle(all...)
	from, to = turns.pass(t, long, all...)
	shared("equal weights", from, to, 2, greedy, 1, heavy, 1)
	shared("equal weights", from, to, 2, twins[0], 1, heavy, 1)

	heavy.kill(t)
	require.Eventually(t, func() bool { return entries() == 3 }, time.Minute, 10*time.Millisecond,
		"and then it is forgotten")
	settle(greedy, twins[0], twins[1])
	from, to = turns.pass(t, long, greedy, twins[0], twins[1])
	shared("after a kill", from, to, 4, greedy, 1, twins[0], 1)
	turns.keepsTheQuota(t)
}
