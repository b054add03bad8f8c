package faults_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAProcessThatStoodStillSendsNobodyLate stops a process while its callers
// sleep, past the slots of a third of them. If they went when it goes on, the
// upstream would see far more than the quota at once.
func TestAProcessThatStoodStillSendsNobodyLate(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const (
		callers      = 30 // of it, and a third as many of another
		guard, stood = 50 * time.Millisecond, 700 * time.Millisecond
		permits, per = 20, time.Second
	)
	rdb, upstream := redistest.Standalone(t), startUpstream(t)
	s := setup{
		Redis: rdb.Options().Addr, Name: t.Name(), Upstream: upstream.url, Within: 500 * time.Millisecond, Guard: guard,
		Quota: fairlimit.Quota{Permits: permits, Per: per, Burst: 1},
	}
	one := startProcess(t, s)
	s.Who = 1
	other := startProcess(t, s)
	for range callers / 3 {
		one.does("wait 3")
		other.does("wait 1")
	}
	one.signal(syscall.SIGSTOP)
	time.Sleep(stood) // the slots pass
	one.signal(syscall.SIGCONT)

	reports := []report{one.report(), other.report()}
	log := upstream.calls()
	require.Len(t, log, callers+callers/3)
	way, onTheirWay := waysOf(reports, stood)
	t.Logf("%d turns missed, the latest taken %v late; a call took up to %v, %d stood still on their way",
		reports[0].Misses, reports[0].Latest, way, onTheirWay)
	assert.Positive(t, reports[0].Misses)
	for _, r := range reports {
		assert.Empty(t, r.Errors, "all go in the end")
		assert.LessOrEqual(t, r.Latest, guard/2)
	}
	assert.LessOrEqual(t, most(log, per+guard/2-way), permits+onTheirWay, "in each window")
}

// waysOf is what a call took at most, apart from those during which their
// process stood still, and how many these were.
func waysOf(reports []report, stood time.Duration) (longest time.Duration, during int) {
	for _, r := range reports {
		for _, way := range r.Ways {
			if way >= stood {
				during++
			} else {
				longest = max(longest, way)
			}
		}
	}
	return longest, during
}
