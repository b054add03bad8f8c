package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAStormOfCancelsLeavesExactlyWhatNobodyUsed has callers leave at random
// moments: before the question goes, while it is under way, as its answer
// comes, in their sleep, and as they wake up. Each caller that was let go has
// used one permit. The others have used none.
func TestAStormOfCancelsLeavesExactlyWhatNobodyUsed(t *testing.T) {
	const daily, limiters = 20_000, 4
	for name, storm := range map[string]struct {
		pace          fairlimit.Quota
		callers, each int // of each limiter, of each caller
	}{
		"most are let go at once":        {fairlimit.Quota{Permits: 10_000, Per: time.Millisecond}, 250, 5},
		"many leave as they wake up":     {fairlimit.Quota{Permits: 1, Per: time.Millisecond}, 5, 60},
		"a few of many in the same slot": {fairlimit.Quota{Permits: 20, Per: 20 * time.Millisecond}, 250, 5},
		"most leave far from their turn": {fairlimit.Quota{Permits: 1, Per: 50 * time.Millisecond}, 250, 5},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.NoLeaks(t)
			limiterName := redistest.Name(t)
			day := fairlimit.Quota{Permits: daily, Per: 24 * time.Hour} // counts: nothing leaves it during the test
			var used, left atomic.Int64
			var wg sync.WaitGroup
			processes := make([]fairlimit.Limiter, limiters)
			for i := range processes {
				processes[i] = named(t, redistest.Standalone(t), limiterName, storm.pace, fairlimit.WithExtraQuota(day))
				require.NoError(t, processes[i].Wait(t.Context()))
				used.Add(1)
			}
			for i, l := range processes {
				for j := range storm.callers {
					random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					wg.Go(func() {
						for range storm.each {
							ctx, cancel := context.WithCancel(t.Context())
							timer := time.AfterFunc(time.Duration(random.IntN(40_000))*time.Microsecond, cancel)
							switch err := l.Wait(ctx); {
							case err == nil:
								used.Add(1)
							case assert.ErrorIs(t, err, context.Canceled):
								left.Add(1)
							}
							timer.Stop()
							cancel()
						}
					})
				}
			}
			wg.Wait()

			counting := named(t, redistest.Standalone(t), limiterName, day)
			require.Eventually(t, func() bool { return status(t, processes[0]).Queued == 0 },
				10*time.Second, 10*time.Millisecond)
			t.Logf("%d were let go, %d left, %+v", used.Load(), left.Load(), status(t, counting))
			assert.Positive(t, left.Load())
			assert.Eventually(t, func() bool { return status(t, counting).Available == daily-int(used.Load()) },
				5*time.Second, 10*time.Millisecond,
				"%d were let go: %+v", used.Load(), status(t, counting))
		})
	}
}
