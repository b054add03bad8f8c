package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

const (
	second    = 1_000_000
	hour      = 3600 * second
	day       = 24 * hour
	beginning = 1_700_000_000_123_456 // 16 digits of microseconds, of which none may get lost
)

func join(quotas ...[]Window) (all []Window) {
	for _, windows := range quotas {
		all = append(all, windows...)
	}
	return all
}

// late plays random arrivals at a load of the slowest window and returns by how
// many 64ths of the longest length the queue is later than the definition at
// most.
func late(windows []Window, load float64, seed uint64, lengths int) float64 {
	rng := rand.New(rand.NewPCG(seed, 9))
	slowest, longest := math.Inf(1), Longest(windows)
	for _, w := range windows {
		slowest = min(slowest, float64(w.Permits)/float64(w.Length))
	}
	q, e := NewQueue(windows), &Exact{Windows: windows}
	worst, now := int64(0), float64(beginning)
	for now < beginning+float64(lengths)*float64(longest) {
		now += rng.ExpFloat64() / slowest / load
		x, _ := e.Take(int64(now), 1, math.MaxInt64)
		slot, _ := q.Take(int64(now), 1, math.MaxInt64)
		if slot < x {
			return -1
		}
		worst = max(worst, slot-x)
		e.Forget(int64(now))
	}
	return float64(worst) * 64 / float64(longest)
}

func TestASaturatedQueueIsLateOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		windows []Window
		at6     float64 // 64ths after six windows
	}{
		{Windows(1000, 10*second, 0), 1},
		{Windows(1000, 10*second, 100), 1},
		{Windows(1000, 10*second, 30), 1},
		{Windows(1000, 10*second, 5), 1},  // 200 laps: shorter than a cell
		{Windows(400, 10*second, 4), 1},   // 100 laps
		{Windows(400, 10_050_000, 4), 1},  // with a guard
		{Windows(1000, 10_000_019, 5), 1}, // the burst's length is rounded
		{Windows(1000, 10_019, 10), 1},
		{Windows(2000, 127_000, 5), 0.5},       // 400 laps, though 401 of the rounded length come nearer to Per
		{[]Window{{600, 41_400}, {4, 275}}, 1}, // of a Per of 41,399.92 µs, which is rounded up
		{Windows(10_000, 10*second, 1000), 1},  // both windows crowded
		{join(Windows(20, second, 0), Windows(1000, 60*second, 0)), 1},
		{join(Windows(20, second, 5), Windows(1000, 60*second, 100)), 1},
		{join(Windows(20, second, 0), Windows(3000, 600*second, 10)), 1},
		{Windows(1000, 10*second, 7), 6.2}, // 1000/7 laps never come out even: up to 1.6 % less a window
		// No cell of a 64th to a 128th of the longer window fits the laps of both.
		{join(Windows(20, second, 5), Windows(1000, 60*second, 20)), 6.2},
		{join(Windows(20, second, 1), Windows(1000, 60*second, 10)), 8.8},
		{join(Windows(100, 10*second, 10), Windows(500, 60*second, 20)), 6.2},
		{[]Window{{300, 10 * second}, {1500, 53_824_167}}, 1.6}, // once
	} {
		windows, most := redistest.Long(4, 100), c.at6
		if most > 1 {
			most *= float64(windows) / 6
		}
		for _, load := range []float64{1.05, 0.98, 3}[:redistest.Long(1, 3)] {
			t.Run(fmt.Sprint(c.windows, load), func(t *testing.T) {
				t.Parallel()
				got := late(c.windows, load, 1, windows)
				require.GreaterOrEqual(t, got, 0.0, "never early")
				require.LessOrEqual(t, got, most)
			})
		}
	}
}

func TestAnyBurstThatDividesPermitsIsLateOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Long(8, 400)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		permits := []int{140, 200, 240, 300, 400, 500, 600, 720, 1000, 1200, 2000}[rng.IntN(11)]
		per := []int64{second, 10 * second, 10*second + 7, 60 * second, hour, 999_983, 127_000}[rng.IntN(7)]
		burst := 1 + rng.IntN(permits)
		for permits%burst != 0 {
			burst = 1 + rng.IntN(permits)
		}
		load := []float64{0.95, 1, 1.02, 1.05, 1.3, 3}[rng.IntN(6)]
		windows := redistest.Long(8, 40)
		got := late(Windows(permits, per, burst), load, seed, windows)
		require.GreaterOrEqual(t, got, 0.0, "never early")
		require.LessOrEqual(t, got, 1.0, "seed %d: %d per %d µs, burst %d, load %v", seed, permits, per, burst, load)
	}
}
