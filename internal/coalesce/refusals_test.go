package coalesce

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// refusesAt answers the first request of each question only, and refuses it at
// a wait of its own for each number of permits.
func refusesAt(waits map[int]time.Duration) (*deciding, *[][]int) {
	asked := &[][]int{}
	return &deciding{decide: func(requests []engine.Request) []engine.Answer {
		var permits []int
		for _, r := range requests {
			permits = append(permits, r.N)
		}
		*asked = append(*asked, permits)
		return []engine.Answer{{Wait: waits[requests[0].N], Share: 100}}
	}}, asked
}

func TestARefusalCoversThoseWhoAskForAsMuchAndAcceptLess(t *testing.T) {
	for name, flow := range map[string]*Line{"no flow": nil, "a flow": NewLine("f", 1, 0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, asked := refusesAt(map[int]time.Duration{2: time.Minute, 9: time.Second})
				b := &Asker{Engine: e}
				start, all, took := time.Now(), sync.WaitGroup{}, map[string]time.Duration{}
				var mu sync.Mutex
				ask := func(what string, f *Line, n int, patience time.Duration) {
					all.Go(func() {
						reply, err := b.Ask(context.Background(), Request{N: n, MaxWait: patience, Line: f})
						assert.NoError(t, err)
						assert.False(t, reply.Granted)
						mu.Lock()
						defer mu.Unlock()
						took[what] = time.Since(start)
					})
					synctest.Wait()
				}
				ask("alone", flow, 9, time.Millisecond)
				ask("first", flow, 2, 30*time.Second)
				ask("as much, less time", flow, 2, 29*time.Second)
				ask("more, less time", flow, 7, 59*time.Second)
				ask("less", flow, 1, time.Second)
				ask("more time", flow, 2, time.Hour)
				time.Sleep(150 * time.Millisecond)
				ask("later", flow, 2, time.Second)
				all.Wait()
				first := 200 * time.Millisecond
				assert.Equal(t, map[string]time.Duration{
					"alone": first / 2, "first": first, "as much, less time": first, "more, less time": first,
					"less": 3 * first / 2, "more time": 2 * first, "later": 2 * first,
				}, took)
				require.Equal(t, [][]int{{9}, {2, 2, 7, 1, 2}, {1, 2, 2}, {2, 2}}, *asked)
			})
		})
	}
}
