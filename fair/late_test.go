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

// Random arrivals at more than the quota fill more distinct moments than the
// log keeps apart. What that costs it costs once, and not in every window. If
// the windows fit no common grid, it costs up to a thousandth of the quota.
func TestASaturatedQueueUsesItsQuota(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	const ms = time.Millisecond
	all := []struct {
		quotas []engine.Quota
		share  int64 // of the longest Per by which turns come late at most
	}{
		{[]engine.Quota{{Permits: 1000, Per: time.Second}}, 64},
		{[]engine.Quota{{Permits: 400, Per: 10 * time.Second, Burst: 30}}, 16}, // no common grid
		{[]engine.Quota{{Permits: 1000, Per: time.Minute, Burst: 20}, {Permits: 20, Per: time.Second, Burst: 5}}, 32},
		{[]engine.Quota{{Permits: 400, Per: 1_300_007 * time.Microsecond}}, 64},
		{[]engine.Quota{{Permits: 400, Per: 10 * time.Second, Burst: 4}}, 32},
		{[]engine.Quota{{Permits: 400, Per: 10_050 * ms, Burst: 4}}, 32}, // with a guard
		{[]engine.Quota{{Permits: 20, Per: time.Second}, {Permits: 1000, Per: time.Minute}}, 32},
		{[]engine.Quota{{Permits: 1000, Per: 10 * time.Second, Burst: 30}}, 16},
		{[]engine.Quota{{Permits: 1000, Per: 61_700 * ms}, {Permits: 170, Per: 7_300 * ms}}, 16},
		{[]engine.Quota{
			{Permits: 2000, Per: 61_700 * ms}, {Permits: 900, Per: 23_100 * ms}, {Permits: 300, Per: 7_300 * ms},
		}, 16},
		{[]engine.Quota{
			{Permits: 5000, Per: 1000 * time.Second},
			{Permits: 900, Per: 170 * time.Second},
			{Permits: 300, Per: 47 * time.Second},
			{Permits: 150, Per: 19 * time.Second},
		}, 16},
	}
	for _, c := range all[:redistest.Long(2, len(all))] {
		for _, load := range []float64{1.1, 3} {
			t.Run(fmt.Sprint(c.quotas, load), func(t *testing.T) {
				t.Parallel()
				f, _ := w.queue(t, c.quotas...)
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
