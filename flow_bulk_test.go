package fairlimit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAThousandFlowsOutliveAPauseInWhichHalfOfTheirCallersLeave changes weights
// in the pause as well. Whoever stays goes after it. So many flows hold a permit
// each, and those that are given back from the middle of the queue pass unused.
func TestAThousandFlowsOutliveAPauseInWhichHalfOfTheirCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flows, most = 1000, 100
		server := redistest.Mini(t)
		q := queueOf(t, server.Client, redistest.Name(t), fairlimit.PerSecond(most), fairlimit.WithLookAhead(64))
		staying, leaving := context.Background(), make([]context.CancelFunc, 0, flows)
		var mu sync.Mutex
		var gone []time.Time
		var group sync.WaitGroup
		left := 0
		call := func(ctx context.Context, f *fairlimit.Queue) {
			group.Go(func() {
				err := f.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					gone = append(gone, time.Now())
				case ctx.Err() != nil:
					left++
				default:
					t.Error(err)
				}
			})
		}
		for i := range flows {
			f, err := q.Flow(fmt.Sprint(i), 1+i%3)
			require.NoError(t, err)
			ctx, leave := context.WithCancel(t.Context())
			leaving = append(leaving, leave)
			call(ctx, f)
			call(staying, f)
		}
		time.Sleep(time.Second)
		require.NoError(t, q.Pause(t.Context(), 5*time.Second))
		paused := time.Now()
		time.Sleep(time.Second)
		for i, leave := range leaving {
			leave()
			f, err := q.Flow(fmt.Sprint(i), 3-i%3) // another weight
			require.NoError(t, err)
			if i%10 == 0 {
				call(staying, f)
			}
		}
		synctest.Wait()
		before := len(gone)
		group.Wait()
		assert.Equal(t, 2*flows+flows/10, len(gone)+left)
		assert.GreaterOrEqual(t, len(gone), flows+flows/10, "all that stayed")
		slices.SortFunc(gone, time.Time.Compare)
		for i, at := range gone[:len(gone)-most] {
			require.GreaterOrEqual(t, gone[i+most].Sub(at), time.Second-2*time.Microsecond)
		}
		for _, at := range gone[before:] {
			require.GreaterOrEqual(t, at.Sub(paused), 5*time.Second-2*time.Microsecond, "nobody goes in the pause")
		}
		took := gone[len(gone)-1].Sub(paused) - 5*time.Second
		assert.LessOrEqual(t, took, time.Duration((flows+len(gone)-before)/most+1)*time.Second)
		s, err := q.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Queued)
	})
}
