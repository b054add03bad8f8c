package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestDeadlinesThatAPauseMakesImpossibleLeaveNoDebt pauses a queue towards whose
// turns 200 callers of two limiters sleep. Their deadlines are before its end.
func TestDeadlinesThatAPauseMakesImpossibleLeaveNoDebt(t *testing.T) {
	t.Parallel()
	const each, pause, per = 100, 5 * time.Minute, 20 * time.Second
	name := redistest.Name(t)
	quota := fairlimit.Quota{Permits: each, Per: per}
	one := named(t, redistest.Standalone(t), name, quota).(*fairlimit.Queue)
	other := named(t, redistest.Standalone(t), name, quota).(*fairlimit.Queue)
	_, err := other.Status(t.Context()) // it is connected
	require.NoError(t, err)
	require.NoError(t, one.WaitN(t.Context(), each)) // the others come after a Per, and after two
	start := time.Now()

	var watcher *bystander
	learned := map[*fairlimit.Queue]chan struct{}{one: make(chan struct{}), other: make(chan struct{})}
	moments := map[*fairlimit.Queue]*time.Time{one: {}, other: {}}
	var all sync.WaitGroup
	for range each {
		for _, l := range []*fairlimit.Queue{one, other} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				err := l.Wait(ctx)
				back := time.Now()
				<-learned[l]
				assert.ErrorIs(t, err, fairlimit.ErrPaused)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorAs(t, err, new(*fairlimit.RefusedError))
				watcher.prompt(t, time.Now().Add(-back.Sub(*moments[l])), 0, "back after it has learned")
			})
		}
	}
	require.Eventually(t, func() bool { return status(t, one).Queued == 2*each }, 10*time.Second, time.Millisecond)
	require.Less(t, time.Since(start), per, "it is paused before anybody goes")

	watcher = standBy(t)
	*moments[one] = time.Now()
	close(learned[one])
	require.NoError(t, one.Pause(t.Context(), pause))
	status(t, other) // which brings the news
	*moments[other] = time.Now()
	close(learned[other])
	all.Wait()

	assert.Eventually(t, func() bool { return status(t, one).Queued == 0 }, 10*time.Second, 10*time.Millisecond)
	s := status(t, one)
	t.Logf("afterwards: %+v", s)
	assert.Positive(t, s.Paused)
	assert.LessOrEqual(t, s.Delay-s.Paused, per+(2*per)/100, "of the backlog, at most 1 %% is left")
}

// TestAShortPauseExceedsNoWindow is about the callers of two limiters that
// sleep towards turns in two windows, less than X ahead, so nobody looks. One of
// them pauses the queue for a moment. If its callers went that much later and
// the others did not, both would go in one window.
func TestAShortPauseExceedsNoWindow(t *testing.T) {
	t.Parallel()
	const permits, per, within = 10, 300 * time.Millisecond, 700 * time.Millisecond
	quota := fairlimit.Quota{Permits: permits, Per: per}
	name, rdb := redistest.Name(t), redistest.Standalone(t)
	one := named(t, rdb, name, quota, fairlimit.WithPauseWithin(within)).(*fairlimit.Queue)
	other := named(t, rdb, name, quota, fairlimit.WithPauseWithin(within)).(*fairlimit.Queue)
	require.NoError(t, one.WaitN(t.Context(), permits))
	var mu sync.Mutex
	var log []arrival
	var all sync.WaitGroup
	for who, l := range []*fairlimit.Queue{one, other} {
		for range permits {
			r, err := l.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			all.Go(func() {
				assert.NoError(t, r.Wait(t.Context()))
				back := time.Now()
				mu.Lock()
				defer mu.Unlock()
				log = append(log, arrival{at: back, who: who})
			})
		}
	}
	require.NoError(t, one.Pause(t.Context(), 3*per/4))
	all.Wait()
	require.Len(t, log, 2*permits)
	sortByTime(log)
	// If the pause moved only one's, 75 ms would lie between the two. Where it is
	// not so, callers of the first may be late by half a window.
	assert.LessOrEqual(t, most(log, per/2), permits)
}
