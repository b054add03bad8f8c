package verify

import (
	"slices"
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
		requests := slices.Repeat([]engine.Request{{N: 1, MaxWait: engine.Forever}}, 50)
		per, permits := l.quotas[0].Per.Microseconds(), l.quotas[0].Permits
		var slots []int64
		for len(slots) < 5*permits {
			s.pass(per * 70 / int64(permits)) // for 100 requests, so they wait longer and longer
			for range 2 {
				answers, _, err := h.limiters[0].Take(ctx, requests)
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
		l := genLimit(time.Millisecond, 0).Draw(t, "limit")
		queue, last, slots := l.engine(t, s.client), int64(0), []int64(nil)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				request := engine.Request{N: l.draw(t)[0], MaxWait: engine.Forever}
				count := rapid.IntRange(1, engine.MostRequests).Draw(t, "requests")
				answers, _, err := queue.Take(ctx, slices.Repeat([]engine.Request{request}, count))
				require.NoError(t, err)
				for _, a := range answers {
					require.LessOrEqual(t, last, a.Turn.Slot)
					last = a.Turn.Slot
					slots = append(slots, slices.Repeat([]int64{last}, request.N)...)
				}
			},
			"pass": func(t *rapid.T) { s.pass(rapid.Int64Range(0, l.span()/4).Draw(t, "µs")) },
			"set the server's clock back": func(t *rapid.T) {
				s.ahead -= rapid.Int64Range(0, 2*l.span()).Draw(t, "µs")
				s.setTime()
			},
			"": func(t *rapid.T) { checkKeys(t, s.client) },
		})
		require.NoError(t, model.Strict(l.windows()[0], slots))
	})
}
