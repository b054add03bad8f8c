package faults_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
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
	one.stop()
	stopped := time.Now()
	time.Sleep(stood)
	one.goOn()
	wentOn := time.Now()

	reports := []report{one.report(), other.report()}
	log := upstream.calls()
	require.Len(t, log, callers+callers/3)
	way, onTheirWay := waysOf(reports, stood)
	t.Logf("stopped for %v: %d turns missed, the latest taken %v late; "+
		"a call took up to %v, %d stood still on their way",
		wentOn.Sub(stopped), reports[0].Misses, reports[0].Latest, way, onTheirWay)
	assert.Positive(t, reports[0].Misses)
	for _, r := range reports {
		assert.Empty(t, r.Errors, "all go in the end")
		assert.LessOrEqual(t, r.Latest, guard/2)
	}
	assert.LessOrEqual(t, most(log, per+guard/2-way), permits+onTheirWay, "in each window")
	if onTheirWay == 0 {
		wrong := overtaken(log, reports, 1, stopped, wentOn.Add(time.Hour), guard/2+way)
		assert.Zero(t, wrong, "pairs in the wrong order")
	}
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

// TestATurnThatPassedWhileItsAnswerWasOnTheWayIsNotTaken stops a process while
// the answer to its question is on its way. The answer says: now. It means a
// moment long ago.
func TestATurnThatPassedWhileItsAnswerWasOnTheWayIsNotTaken(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	// The process stands still for less than its client's ReadTimeout.
	const guard, per, delay = 50 * time.Millisecond, 1800 * time.Millisecond, 100 * time.Millisecond
	rdb, upstream, proxy := redistest.Standalone(t), startUpstream(t), redistest.StartProxy(t)
	s := setup{
		Redis: proxy.Addr(rdb.Options().Addr), Name: t.Name(), Upstream: upstream.url,
		Within: time.Second, Guard: guard, Quota: fairlimit.Every(per),
	}
	one := startProcess(t, s)
	s.Redis, s.Who = rdb.Options().Addr, 1
	other := startProcess(t, s)
	one.does("wait 1") // it knows what an answer takes
	one.report()
	time.Sleep(per + guard)
	asked := make(chan struct{}, 10)
	proxy.Watch(func(words []string) {
		if strings.EqualFold(words[0], "evalsha") {
			asked <- struct{}{}
		}
	})
	proxy.Delay(delay)
	one.order("wait 1")
	<-asked
	one.stop()
	stopped, looks := time.Now(), named(t, rdb, t.Name(), s.Quota, fairlimit.WithGuard(guard))
	require.Eventually(t, func() bool {
		return status(t, looks).Available == 0 || time.Since(stopped) > per+guard
	}, 10*time.Second, time.Millisecond, "it was granted, which may be so long ago that it shows no more")
	other.does("wait 1") // one interval after that turn
	time.Sleep(per - 2*delay)
	proxy.Heal()
	one.goOn()
	require.Equal(t, "ok", one.answer())
	reports := []report{one.report(), other.report()}
	assert.Empty(t, append(reports[0].Errors, reports[1].Errors...))
	log := upstream.calls()
	require.Len(t, log, 3)
	way, _ := waysOf(reports, time.Hour)
	t.Logf("%d turns missed, calls are %v and %v apart",
		reports[0].Misses, log[1].at.Sub(log[0].at), log[2].at.Sub(log[1].at))
	assert.Positive(t, reports[0].Misses)
	assert.Equal(t, 1, most(log, per+guard/2-way))
}

// TestAMachineThatIsNeverInTimeGivesUp asks for more than any machine can do.
func TestAMachineThatIsNeverInTimeGivesUp(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	quota := fairlimit.Quota{Permits: 100, Per: time.Second, Burst: 1}
	l := named(t, rdb, name, quota, fairlimit.WithMaxLateness(time.Microsecond))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { assert.ErrorIs(t, l.Wait(ctx), fairlimit.ErrMissed) })
	}
	all.Wait()
	assert.Eventually(t, func() bool { return status(t, l).Queued == 0 }, 10*time.Second, time.Millisecond,
		"what they missed was given back, or has passed")
}

// TestAProcessThatStopsAgainAndAgainEnds lets a process run for a few
// milliseconds at a time, with longer stops than WithMaxLateness allows. Each of
// its callers goes or gives up.
func TestAProcessThatStopsAgainAndAgainEnds(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const callers = 10
	rdb, upstream := redistest.Standalone(t), startUpstream(t)
	p := startProcess(t, setup{
		Redis: rdb.Options().Addr, Name: t.Name(), Upstream: upstream.url,
		Within: time.Second, Guard: 4 * time.Millisecond,
		Quota: fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1},
	})
	p.does("wait %d", callers)
	start := time.Now()
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			p.stop()
			time.Sleep(30 * time.Millisecond)
			p.goOn()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	defer func() {
		over.Store(true)
		<-done
	}()
	r := p.report()
	t.Logf("%d went, %d did not; %d turns missed; it took %v", r.Went, len(r.Errors), r.Misses, time.Since(start))
	assert.Equal(t, callers, r.Went+len(r.Errors))
	for _, text := range r.Errors {
		assert.Contains(t, text, fairlimit.ErrMissed.Error()[len("fairlimit: "):])
	}
	assert.Positive(t, r.Misses)
	assert.Less(t, time.Since(start), 30*time.Second)
}
