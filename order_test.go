package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Callers of one limiter share slots, three by three, and line up again.
func TestCallersThatShareASlotKeepTheirOrder(t *testing.T) {
	for name, steers := range map[string]func(t *testing.T, q, other *fairlimit.Queue){
		"who missed a turn": func(t *testing.T, q, _ *fairlimit.Queue) {
			time.Sleep(10*time.Second - 5*time.Millisecond)
			require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		},
		"whose queue was reset": func(t *testing.T, _, other *fairlimit.Queue) {
			time.Sleep(5 * time.Second)
			require.NoError(t, other.Reset(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				synctest.Test(t, func(t *testing.T) {
					m, name := redistest.Mini(t), redistest.Name(t)
					quota := fairlimit.Quota{Permits: 3, Per: 10 * time.Second}
					rdb := m.NewClient(t)
					rdb.AddHook(late{by: 5 * time.Millisecond})
					q, other := queueOf(t, rdb, name, quota), queueOf(t, m.Client, name, quota)
					start := time.Now()
					var g goers
					for who := range 9 {
						time.Sleep(time.Until(start.Add(time.Duration(who) * time.Millisecond)))
						g.wait(t, q, who, 1)
					}
					time.Sleep(time.Until(start))
					steers(t, q, other)
					g.all.Wait()
					for i := range g.order {
						for j := range i {
							if g.at[j].Before(g.at[i].Add(-time.Second)) {
								require.Less(t, g.order[j], g.order[i], "they went in the order %v", g.order)
							}
						}
					}
				})
			}
		})
	}
}
