package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Callers of one limiter share slots, and line up again. Another limiter takes a
// permit, so that some who had one slot get two.
func TestCallersThatShareASlotKeepTheirOrder(t *testing.T) {
	for name, steers := range map[string]func(t *testing.T, q, other *fairlimit.Queue, way *onTheWay){
		"who missed a turn": func(t *testing.T, q, _ *fairlimit.Queue, way *onTheWay) {
			time.Sleep(10*time.Second - 5*time.Millisecond)
			way.there.Store(int64(20 * time.Millisecond))
			require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		},
		"whose queue was reset": func(t *testing.T, _, other *fairlimit.Queue, _ *onTheWay) {
			time.Sleep(5 * time.Second)
			require.NoError(t, other.Reset(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					m, name := redistest.Mini(t), redistest.Name(t)
					quota := fairlimit.Quota{Permits: 3, Per: 10 * time.Second}
					rdb, way := m.NewClient(t), &onTheWay{}
					rdb.AddHook(late{by: 5 * time.Millisecond})
					rdb.AddHook(way)
					q, other := queueOf(t, rdb, name, quota), queueOf(t, m.Client, name, quota)
					var g, others goers
					for who := range 12 {
						g.wait(t, q, who, 1)
						time.Sleep(time.Millisecond)
					}
					steers(t, q, other, way)
					others.wait(t, other, 0, 1)
					g.all.Wait()
					for i := range g.order {
						for j := range i {
							if g.at[j].Before(g.at[i].Add(-time.Second)) {
								require.Less(t, g.order[j], g.order[i], "they went in the order %v", g.order)
							}
						}
					}
					others.all.Wait()
				})
			}
		})
	}
}
