package fairlimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Two limiters know of a pause. Another one follows, of which one limiter hears
// nothing: then its callers would go between those of the other.
func TestAfterAPauseNobodyGoesWithoutNews(t *testing.T) {
	for name, c := range map[string]struct {
		opts     []fairlimit.Option
		deadline time.Duration
		back     time.Duration // when Redis answers again
		went     bool
	}{
		"until it is late":             {opts: []fairlimit.Option{fairlimit.WithMaxLateness(time.Second)}},
		"until its deadline":           {deadline: 22 * time.Second},
		"for as long as an answer may": {},
		"until Redis answers again":    {back: 14500 * time.Millisecond, went: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, name := redistest.Mini(t), redistest.Name(t)
				quota := fairlimit.Quota{Permits: 4, Per: 4 * time.Second, Burst: 1}
				var silent atomic.Bool
				rdb := m.NewClient(t)
				rdb.AddHook(refuses{set: &silent})
				q, other := queueOf(t, rdb, name, quota, c.opts...), queueOf(t, m.Client, name, quota)
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				if c.deadline > 0 {
					ctx, cancel = context.WithDeadline(t.Context(), start.Add(c.deadline))
				}
				defer cancel()
				require.NoError(t, other.Pause(t.Context(), 2*time.Second))
				status(t, q)
				var g goers
				var went atomic.Int64
				g.wait(t, other, 0, 10) // from 2 s on
				for who := 10; who < 20; who++ {
					g.all.Go(func() {
						if q.Wait(ctx) == nil {
							went.Add(1)
							g.goes(who)
						}
					})
					synctest.Wait()
				}
				time.Sleep(time.Until(start.Add(7500 * time.Millisecond)))
				silent.Store(true)
				require.NoError(t, other.Pause(t.Context(), 3*time.Second))
				if c.back > 0 {
					time.Sleep(time.Until(start.Add(c.back)))
					silent.Store(false)
				}
				g.all.Wait()
				assert.Equal(t, c.went, went.Load() == 10, "%d went", went.Load())
				assert.LessOrEqual(t, g.most(quota.Per), quota.Permits)
			})
		})
	}
}
