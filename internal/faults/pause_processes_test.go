package faults_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAPauseHoldsThoseWhoSleepInFourProcesses lets 4 processes of 50 callers
// each sleep towards their turns, up to 2.5 s ahead. One of them pauses the
// queue at a random moment. The upstream judges.
func TestAPauseHoldsThoseWhoSleepInFourProcesses(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const (
		processes, callers = 4, 50
		within, guard      = 600 * time.Millisecond, 100 * time.Millisecond
		pause              = 1500 * time.Millisecond
		permits, per       = 40, 500 * time.Millisecond
	)
	server, upstream := redistest.StartServer(t), startUpstream(t)
	all := make([]*process, processes)
	for i := range all {
		all[i] = startProcess(t, setup{
			Redis: server.Addr(), Name: t.Name(), Upstream: upstream.url, Who: i, Within: within, Guard: guard,
			Quota: fairlimit.Quota{Permits: permits, Per: per, Burst: 4},
		})
	}
	start := time.Now()
	for _, p := range all {
		p.order("wait %d", callers)
	}
	for _, p := range all {
		require.Equal(t, "ok", p.answer())
	}
	time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond) // the random moment
	called := time.Now()
	all[rand.IntN(processes)].does("pause %v", pause)
	recorded := time.Now()

	var looks int
	var way, slowest time.Duration
	for i, p := range all {
		r := p.report()
		assert.Empty(t, r.Errors)
		assert.Equal(t, callers, r.Went)
		longest := time.Since(start) // which is 4/(3X) questions a second, and one more
		assert.LessOrEqual(t, r.Looks, 1+int(4*longest/(3*within)), "process %d", i)
		looks += r.Looks
		way, slowest = max(way, slices.Max(r.Ways)), max(slowest, r.Slowest)
	}
	assert.Positive(t, looks)
	log := upstream.calls()
	require.Len(t, log, processes*callers)

	spread := guard/2 + way // from a slot until its call is there, at most
	late := between(log, recorded.Add(within+spread), called.Add(pause))
	after := between(log, called.Add(pause), called.Add(time.Hour))
	t.Logf("paused %v after the start: %d calls during it and after X, %d after it; %d looks; "+
		"a call took up to %v, a question %v", called.Sub(start), late, after, looks, way, slowest)
	if slowest <= within/4 {
		assert.Zero(t, late, "calls more than X after the pause was recorded")
	}
	assert.GreaterOrEqual(t, after, callers/2, "it came in time")
	assert.LessOrEqual(t, most(log, per+guard-spread), permits, "in each window")
}
