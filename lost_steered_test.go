package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Turns of a queue that was lost come later, as those of its successor do.

// Two limiters hold turns alternately, and hear of what steers their queue before
// the server loses all, or after it.
func TestWhatSteersAQueueMovesTheTurnsOfOneThatWasLost(t *testing.T) {
	pause := func(q *fairlimit.Queue, t *testing.T) error { return q.Pause(t.Context(), 5*time.Second) }
	narrow := func(q *fairlimit.Queue, t *testing.T) error {
		return q.SetQuotas(t.Context(), fairlimit.Every(3*time.Second))
	}
	for name, c := range map[string]struct {
		steers func(*fairlimit.Queue, *testing.T) error
		before bool
		apart  time.Duration
	}{
		"a pause, then the loss":        {pause, true, time.Second},
		"the loss, then a pause":        {pause, false, time.Second},
		"a narrower quota, then a loss": {narrow, true, 3 * time.Second},
		"a loss, then a narrower quota": {narrow, false, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, name := redistest.Mini(t), redistest.Name(t)
				quota := fairlimit.Every(time.Second)
				one := queueOf(t, m.Client, name, quota, fairlimit.WithStoredQuota())
				other := queueOf(t, m.NewClient(t), name, quota, fairlimit.WithStoredQuota())
				require.NoError(t, one.SetQuotas(t.Context(), quota))
				start := time.Now()
				var g goers
				for who := 0; who < 20; who += 2 {
					g.wait(t, one, who, 1)
					g.wait(t, other, who+1, 1)
				}
				time.Sleep(1500*time.Millisecond - time.Since(start))
				if c.before {
					require.NoError(t, c.steers(one, t))
				}
				m.FlushAll()
				status(t, one)
				status(t, other)
				g.wait(t, one, 20, 1)
				g.wait(t, other, 21, 1)
				if !c.before {
					require.NoError(t, c.steers(one, t))
				}
				g.all.Wait()
				assert.Less(t, time.Since(start), 70*time.Second)
				for i := range g.at {
					require.Equal(t, i, g.order[i], "at %v", g.at[i].Sub(start))
					if i > 0 && g.at[i-1].Sub(start) > 2500*time.Millisecond {
						assert.GreaterOrEqual(t, g.at[i].Sub(g.at[i-1]), c.apart-time.Millisecond, "%d, at %v", i, g.at[i].Sub(start))
					}
				}
			})
		})
	}
}

// The slot of one caller passes while the pause is on its way, so that the turns
// of those behind it change hands.
func TestNobodyIsOvertakenByANewcomerAfterALoss(t *testing.T) {
	for _, when := range []time.Duration{3500, 3995} {
		synctest.Test(t, func(t *testing.T) {
			m := redistest.Mini(t)
			rdb := m.NewClient(t)
			q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second))
			rdb.AddHook(late{by: 10 * time.Millisecond})
			start := time.Now()
			var g goers
			g.wait(t, q, 0, 10)
			time.Sleep(3 * time.Second)
			m.FlushAll()
			g.wait(t, q, 10, 1)
			time.Sleep(when*time.Millisecond - time.Since(start))
			require.NoError(t, q.Pause(t.Context(), 3*time.Second))
			g.all.Wait()
			for i := range g.order {
				require.Equal(t, i, g.order[i], "in %v", g.order)
			}
			assert.LessOrEqual(t, g.most(980*time.Millisecond), 1)
		})
	}
}
