package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Other windows on the name, batches, returns in any order and of passed turns,
// flows beside callers without: nobody comes early, and the key lives on.
func TestNobodyComesEarlyInAnyMix(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for seed := range uint64(redistest.Long(12, 60)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { storm(t, w, seed) })
	}
}

func storm(t *testing.T, w world, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	any := func() (q []engine.Quota) {
		base := []time.Duration{time.Second, 300 * time.Millisecond, 7919 * time.Microsecond, 10 * time.Second}[rng.IntN(4)]
		p := []int{1, 2, 3, 4, 10, 20}[rng.IntN(6)]
		q = append(q, engine.Quota{Permits: p, Per: base})
		for range rng.IntN(3) {
			p *= 2 + rng.IntN(10)
			wider := float64(p)/float64(q[len(q)-1].Permits) + 3*rng.Float64()
			base = time.Duration(float64(base) * wider).Truncate(time.Microsecond)
			if rng.IntN(2) == 0 {
				base = base / q[0].Per * q[0].Per
			}
			q = append(q, engine.Quota{Permits: p, Per: base})
		}
		return q
	}
	quotas := any()
	f, at := w.queue(t, quotas...)
	callers := []*fair{f}
	if rng.IntN(2) == 0 {
		other := slices.Clone(quotas)
		switch rng.IntN(3) {
		case 0:
			other = any()
		case 1:
			other[0].Permits = 1 + rng.IntN(2*other[0].Permits)
		case 2:
			other = append(other, engine.Quota{
				Permits: quotas[0].Permits * (1 + rng.IntN(50)), Per: quotas[0].Per * time.Duration(1+rng.IntN(99)),
			})
		}
		callers = append(callers, f.joins(t, other...))
	}
	longest := int64(0)
	for _, c := range callers {
		longest = max(longest, c.windows[0].Length)
	}
	var held []engine.Grant
	var turns []model.Turn
	now := time.Duration(0)
	w0 := f.windows[len(f.windows)-1]
	turnTime := time.Duration(w0.Length) * time.Microsecond / time.Duration(w0.Permits)
	lw := f.windows[0]
	turnTime = max(turnTime, time.Duration(lw.Length)*time.Microsecond/time.Duration(lw.Permits))
	pace, size, leaving, flowing, switching := turnTime, 1, 0, false, 50
	remove := func(i int) {
		held, turns = slices.Delete(held, i, i+1), slices.Delete(turns, i, i+1)
	}
	caller := callers[0]
	for step := range 700 {
		if step%60 == 0 {
			pace = []time.Duration{0, turnTime / 4, turnTime * 9 / 10, turnTime * 11 / 10, turnTime * 3}[rng.IntN(5)]
			size = []int{1, 1, 2, f.most}[rng.IntN(4)]
			leaving = []int{0, 0, 3, 30}[rng.IntN(4)]
			flowing = rng.IntN(6) == 0
			switching = []int{2, 50, 200, 1000}[rng.IntN(4)]
		}
		now += time.Duration(rng.ExpFloat64() * float64(pace)).Truncate(time.Microsecond)
		at(now)
		micros := beginning.Add(now).UnixMicro()
		if w.rdb.Exists(t.Context(), f.key).Val() == 0 && len(turns) > 0 && callers[0].memory.watermark.text != "" {
			if turns[len(turns)-1].Slot+longest > micros && len(callers) == 1 {
				require.Fail(t, "the key is gone")
			}
			held, turns = nil, nil
		}
		if rng.IntN(switching) == 0 {
			caller = callers[rng.IntN(len(callers))]
		}
		c := caller
		what := fmt.Sprintf("seed %d step %d, %v", seed, step, c.windows)
		for _, c := range callers {
			if rng.IntN(2) == 0 {
				c.memory = memory{}
			}
		}
		if rng.IntN(100) < leaving && len(held) > 0 {
			var back []engine.Grant
			n := 1 + rng.IntN(50)
			style := rng.IntN(4)
			for range n {
				if len(held) == 0 {
					break
				}
				i := rng.IntN(len(held))
				switch style {
				case 1:
					i = len(held) - 1 - rng.IntN(min(len(held), 5))
				case 2:
					i = max(0, len(held)-1-rng.IntN(100))
				}
				g := held[i]
				if g.At <= micros {
					if rng.IntN(3) > 0 {
						continue
					}
					g.Unused = true
				}
				back = append(back, g)
				remove(i)
			}
			giveBack(t, c, back...)
			continue
		}
		most := max(1, min(size, c.most))
		n := 1 + rng.IntN(most)
		requests := make([]engine.Request, []int{1, 1, 1, 5, 40}[rng.IntN(5)])
		var flow *engine.Flow
		if flowing && rng.IntN(2) == 0 {
			flow = &engine.Flow{ID: fmt.Sprint(rng.IntN(3)), Weight: 1 + rng.IntN(3), LookAhead: 50}
		}
		vary := rng.IntN(3) == 0
		for i := range requests {
			if vary {
				n = 1 + rng.IntN(most)
			}
			requests[i] = engine.Request{N: n, MaxWait: engine.Forever, Flow: flow}
			if rng.IntN(4) == 0 {
				requests[i].MaxWait = time.Duration(rng.Int64N(c.windows[0].Length)) * time.Microsecond
			}
		}
		s := status(t, c)
		before := w.rdb.Get(t.Context(), f.key).Val()
		answers, err := c.Take(t.Context(), requests)
		require.NoError(t, err, what)
		granted := false
		for i, a := range answers {
			if a.Left {
				continue
			}
			require.NoError(t, a.Err, what)
			earliest := max(micros, model.Earliest(modelsOf(c.windows), turns, requests[i].N))
			require.GreaterOrEqual(t, micros+a.Wait.Microseconds(), earliest,
				"%s: %+v got %+v: never early", what, requests[i], a)
			if i == 0 && requests[i].N == 1 && len(callers) == 1 && flow == nil {
				require.Equal(t, s.Delay, a.Wait, "%s: status", what)
				if s.Delay > 0 {
					require.Zero(t, s.Available)
				}
			}
			if i == 0 && requests[i].N <= s.Available && flow == nil {
				require.Zero(t, a.Wait, "%s: status said %+v, %d asked", what, s, requests[i].N)
			}
			if a.Granted {
				granted = true
				held, turns = append(held, a.Grant), append(turns, model.Turn{Slot: a.Grant.At, N: a.Grant.N})
			}
		}
		if !granted && len(callers) == 1 {
			require.Equal(t, before, w.rdb.Get(t.Context(), f.key).Val(), "%s: a refusal writes nothing", what)
		}
		if len(turns) > 0 && granted {
			left := w.ttl(t, f).Microseconds()
			require.GreaterOrEqual(t, left, turns[len(turns)-1].Slot-micros+c.windows[0].Length-1000, "%s: ttl", what)
		}
		require.LessOrEqual(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(9000))
	}
	if len(callers) == 1 {
		require.NoError(t, model.Strict(modelsOf(f.windows), turns))
	}
}
