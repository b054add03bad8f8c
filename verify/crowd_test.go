package verify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// With more slots than a log has cells, turns come later, by some percents of Per.
// A saturated queue loses at most 1 % of its quota.
func TestCrowd(t *testing.T) {
	s := newServer(t)
	for _, l := range []*limit{
		{quotas: []engine.Quota{{Permits: 2000, Per: time.Second}}},
		{quotas: []engine.Quota{{Permits: 1500, Per: time.Minute}, {Permits: 40, Per: time.Second}}},
	} {
		s.begin()
		h := &history{limit: l, limiters: []engine.Queue{l.engine(t, s.client)}, model: &model.Queue{Units: l.windows()}}
		requests := make([]engine.Request, 100)
		for i := range requests {
			requests[i] = engine.Request{N: 1, MaxWait: engine.Forever}
		}
		per, permits := l.quotas[0].Per.Microseconds(), l.quotas[0].Permits
		var slots []int64
		for len(slots) < 5*permits {
			s.pass(per * 70 / int64(permits)) // for 100 requests, so they wait longer and longer
			for range 2 {
				answers, _, err := h.limiters[0].Take(ctx, requests[:50])
				require.NoError(t, err)
				for _, a := range answers {
					slots = append(slots, s.now+a.Wait.Microseconds())
					h.model.Take(s.now, 1e15, 1)
				}
			}
			checkKeys(t, s.client)
		}
		require.NoError(t, model.Strict(l.windows()[0], slots))
		late := slots[len(slots)-1] - h.model.Tail()
		require.LessOrEqual(t, late, (h.model.Tail()-beginning)/100+per/20, "%d µs late", late)
	}
}

// However it is crowded, it is strict and in order.
func TestCrowdIsStrict(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		s.begin()
		l := genLimit(time.Millisecond, 1).Draw(t, "limit")
		queue := l.engine(t, s.client)
		slots := make([][]int64, len(l.windows()))
		last := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := l.draw(t)
				requests := make([]engine.Request, rapid.IntRange(1, engine.MostRequests).Draw(t, "requests"))
				for i := range requests {
					requests[i] = engine.Request{N: n[0], Amounts: l.amounts(n), MaxWait: engine.Forever}
				}
				answers, _, err := queue.Take(ctx, requests)
				require.NoError(t, err)
				for _, a := range answers {
					require.LessOrEqual(t, last, a.Turn.Slot)
					last = a.Turn.Slot
					for u := range slots {
						for range n[u] {
							slots[u] = append(slots[u], last)
						}
					}
				}
				for u, windows := range l.windows() {
					require.NoError(t, model.Strict(windows, slots[u]))
				}
			},
			"pass": func(t *rapid.T) { s.pass(rapid.Int64Range(0, l.span()/4).Draw(t, "µs")) },
			"set the server's clock back": func(t *rapid.T) {
				s.ahead -= rapid.Int64Range(0, 2*l.span()).Draw(t, "µs")
				s.setTime()
			},
			"": func(t *rapid.T) { checkKeys(t, s.client) },
		})
	})
}
