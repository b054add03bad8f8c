package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestResetsFromManyProcessesLeaveEachQueueStrict resets a queue from two
// processes at once, again and again, while callers of four sleep and more come.
// Those who sleep line up again. Once they have heard of a reset, what the queue
// granted before it does not count beside what it grants.
func TestResetsFromManyProcessesLeaveEachQueueStrict(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const (
		processes, each, resets = 4, 6, 3
		within, guard           = 400 * time.Millisecond, 100 * time.Millisecond
		permits, per            = 10, 200 * time.Millisecond
	)
	rdb, upstream := redistest.Standalone(t), startUpstream(t)
	all := make([]*process, processes)
	for i := range all {
		all[i] = startProcess(t, setup{
			Redis: rdb.Options().Addr, Name: t.Name(), Upstream: upstream.url, Who: i, Within: within, Guard: guard,
			Quota: fairlimit.Quota{Permits: permits, Per: per, Burst: 2},
		})
	}
	tell := func(who []*process, format string, words ...any) {
		for _, p := range who {
			p.order(format, words...)
		}
		for _, p := range who {
			require.Equal(t, "ok", p.answer())
		}
	}
	tell(all, "reserve %d", each)
	type generation struct{ from, to time.Time }
	var queues []generation
	for i := range resets {
		if i > 0 {
			queues[i-1].to = time.Now()
		}
		two := []*process{all[i%processes], all[(i+1)%processes]}
		tell(two, "reset")
		queues = append(queues, generation{from: time.Now(), to: time.Now().Add(time.Hour)})
		tell(all, "reserve %d", each)
		time.Sleep(time.Until(queues[i].from.Add(2 * within)))
	}
	reports := make([]report, processes)
	var way, slowest time.Duration
	misses, lookups := 0, 0
	for i, p := range all {
		reports[i] = p.report()
		assert.Empty(t, reports[i].Errors)
		assert.Equal(t, each*(1+resets), reports[i].Went, "nobody is left")
		slowest = max(slowest, reports[i].Slowest)
		misses, lookups = misses+reports[i].Misses, lookups+reports[i].Asked["look"]
	}
	way, _ = waysOf(reports, time.Hour)
	log := upstream.calls()
	require.Len(t, log, processes*each*(1+resets))
	spread := guard/2 + way
	for i, q := range queues {
		var heard []arrival
		for _, a := range log {
			if a.at.After(q.from.Add(within+spread)) && a.at.Before(q.to) {
				heard = append(heard, a)
			}
		}
		t.Logf("queue %d: %d calls after X, at most %d in %v", i, len(heard), most(heard, per), per)
		if slowest <= within/4 {
			assert.LessOrEqual(t, most(heard, per+guard-spread), permits)
		}
	}
	t.Logf("%d looks, %d turns missed; a call took up to %v, a question %v", lookups, misses, way, slowest)
	for i := range 1 + resets { // callers of one process that asked between two resets
		var asked []arrival
		for _, a := range log {
			if a.caller/each == i {
				asked = append(asked, a)
			}
		}
		// A turn that is on its way when the news of the second reset comes is
		// lined up again on its own. Each process has 15 pairs.
		wrong := overtaken(asked, reports, 0, time.Time{}, time.Now(), spread)
		assert.LessOrEqual(t, wrong, each, "pairs in the wrong order")
	}
}
