package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random arrivals at more than the quota fill more distinct moments than the
// log keeps apart. What that costs it costs once, and not in every window. If
// the windows fit no common grid, it costs up to a thousandth of the quota.
func TestASaturatedQueueUsesItsQuota(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	all := []struct {
		quotas string
		share  int64 // of the longest Per by which turns come late at most
	}{
		{"1000/1s", 64},
		{"400/10s burst 30", 16}, // no common grid
		{"1000/1m burst 20 20/1s burst 5", 32},
		{"400/1.300007s", 64},
		{"400/10s burst 4", 32},
		{"400/10.05s burst 4", 32}, // with a guard
		{"20/1s 1000/1m", 32},
		{"1000/10s burst 30", 16},
		{"1000/61.7s 170/7.3s", 16},
		{"2000/61.7s 900/23.1s 300/7.3s", 16},
		{"5000/1000s 900/170s 300/47s 150/19s", 16},
	}
	for _, c := range all[:redistest.Long(2, len(all))] {
		for _, load := range []float64{1.1, 3} {
			t.Run(fmt.Sprint(c.quotas, load), func(t *testing.T) {
				t.Parallel()
				f, _ := w.queue(t, quotas(t, c.quotas)...)
				s := saturated{f: f, rng: rand.New(rand.NewPCG(1, 9)), load: load}
				s.exact.Windows = modelsOf(f.windows)
				laps := redistest.Long(10, 50)
				for range laps {
					s.lap(t)
				}
				require.NoError(t, model.Strict(modelsOf(f.windows), s.turns))
				per := f.windows[0].Length
				late, most := s.late[laps-1], slices.Max(s.late)
				share := 64 / float64(per)
				t.Logf("late by %.2f 64ths of Per at most, %.2f in the end", share*float64(most), share*float64(late))
				require.LessOrEqual(t, most, per/c.share)
				require.LessOrEqual(t, float64(late), 0.001*float64(per)*float64(laps)+float64(per)/64, "99.9 % are used")
			})
		}
	}
}

// saturated is a queue that more want than it lets through, beside the exact
// one that the same callers use.
type saturated struct {
	f     *fair
	rng   *rand.Rand
	load  float64
	now   float64
	exact model.Exact
	turns []model.Turn
	late  []int64 // by which turns came at most, lap by lap
}

// lap is as many requests as the longest window has permits.
func (s *saturated) lap(t *testing.T) {
	mean := 0.0
	for _, w := range s.f.windows {
		mean = max(mean, float64(w.Length)/float64(w.Permits)/s.load)
	}
	var arrivals []arrival
	for n := 0; n < s.f.windows[0].Permits; n++ {
		r := engine.Request{N: 1, MaxWait: engine.Forever}
		if s.f.most > 3 && s.rng.IntN(4) == 0 {
			r.N += s.rng.IntN(3)
			n += r.N - 1
		}
		s.now += s.rng.ExpFloat64() * mean * float64(r.N)
		arrivals = append(arrivals, arrival{microseconds(int64(s.now)), r})
	}
	late := int64(0)
	for i, g := range arrive(t, s.f, arrivals) {
		slot, _ := s.exact.Take(beginning.Add(arrivals[i].at).UnixMicro(), g.N, 1<<52)
		require.GreaterOrEqual(t, g.At, slot, "never early")
		late = max(late, g.At-slot)
		s.turns = append(s.turns, model.Turn{Slot: g.At, N: g.N})
	}
	s.late = append(s.late, late)
}
