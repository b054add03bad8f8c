package fair

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// restOfAState is what a state takes at most beside the cells and the histogram
// of its window; see MOST_BYTES in lua/fair/cells.lua, and MOST_LINES in head.lua.
const restOfAState = 505

var cellsAndHistogram = regexp.MustCompile(`:[0-9 ]*\n(behind .*\n)?`)

// steered is a queue that everything is done to which makes its state longer.
type steered struct {
	*fair
	world
	t      *testing.T
	rng    *rand.Rand
	at     func(time.Duration)
	now    time.Duration
	quota  engine.Quota
	grants []engine.Grant

	largest, rest int // bytes seen
}

func (s *steered) check() {
	state := s.rdb.Get(s.t.Context(), s.key).Val()
	s.largest = max(s.largest, len(state))
	rest := len(cellsAndHistogram.ReplaceAllString(state, ":\n"))
	s.rest = max(s.rest, rest)
	require.LessOrEqual(s.t, len(state), mostState)
	require.LessOrEqual(s.t, rest, restOfAState)
	require.LessOrEqual(s.t, len(state)-rest, mostState-restOfAState)
}

// passes lets up to a fraction of Per pass.
func (s *steered) passes(fraction int) {
	s.now += time.Duration(1 + s.rng.Int64N(int64(s.quota.Per)/int64(fraction)+1)).Truncate(time.Microsecond)
	s.at(s.now)
}

func (s *steered) joins(count, n int) {
	s.grants = append(s.grants, queued(s.t, s.fair, count, n)...)
	s.check()
}

func (s *steered) narrows() {
	s.quota.Permits = s.quota.Permits * (60 + s.rng.IntN(39)) / 100
	require.NoError(s.t, s.SetQuotas(s.t.Context(), []engine.Quota{s.quota}))
	s.check()
}

func (s *steered) pauses() {
	pause(s.t, s.fair, s.quota.Per/time.Duration(2+s.rng.IntN(20)))
	s.check()
}

func (s *steered) failsOver() {
	moves(s.t, s.fair)
	s.now += 200 * time.Millisecond
	s.at(s.now)
	s.joins(1, 1)
}

// loses has the server forget an epoch that only the limiter knows of.
func (s *steered) loses() {
	before := snap(s.t, s.fair)
	s.failsOver()
	before.restore(s.t, s.fair)
	s.grants = nil
	s.passes(1_000_000)
	s.joins(1, 1)
}

func (s *steered) leave() {
	ahead := shuffled(s.grants, s.now)
	giveBack(s.t, s.fair, ahead[:min(len(ahead), 1+s.rng.IntN(20))]...)
	s.check()
}

// As many cells as stay apart have room if they have 23 digits at most.
func TestWideCellsTakeMoreOnlyInTheLongestWindows(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, c := range []struct {
		quota engine.Quota
		most  int
	}{
		{engine.Quota{Permits: 1_000_000_000, Per: 57 * day}, mostState},
		{engine.Quota{Permits: 499_000_000, Per: 570 * day}, mostState},
		{engine.Quota{Permits: 49_000_000, Per: 3650 * day}, mostState},
		{engine.Quota{Permits: 499_000_000, Per: 3650 * day}, 3800},
		{engine.Quota{Permits: 1_000_000_000, Per: 3650 * day}, 3800},
	} {
		t.Run(fmt.Sprint(c.quota), func(t *testing.T) {
			t.Parallel()
			f, at := w.stored(t, c.quota)
			require.NoError(t, f.SetQuotas(t.Context(), []engine.Quota{c.quota}))
			largest, now, n := 0, time.Duration(0), c.quota.Permits/140
			for i := range 128 {
				if i%15 == 5 {
					moves(t, f)
				}
				now += (c.quota.Per / 145).Truncate(time.Microsecond)
				at(now)
				if i == 127 { // ahead of the clock
					n = c.quota.Permits - 127*n + 1
				}
				queued(t, f, 1, n)
				largest = max(largest, len(w.rdb.Get(t.Context(), f.key).Val()))
			}
			c.quota.Permits -= c.quota.Permits / 10
			require.NoError(t, f.SetQuotas(t.Context(), []engine.Quota{c.quota}))
			pause(t, f, time.Minute)
			largest = max(largest, len(w.rdb.Get(t.Context(), f.key).Val()))
			t.Logf("%d bytes", largest)
			require.LessOrEqual(t, largest, c.most)
		})
	}
}

func TestTheStateOfASteeredWindowIsBounded(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, quota := range []engine.Quota{
		{Permits: 1_000_000, Per: 10 * day},
		{Permits: 100_000_000, Per: 30 * day},
		{Permits: 999_000_000, Per: 300 * day},
	} {
		for seed := range uint64(redistest.Long(4, 60)) {
			t.Run(fmt.Sprint(quota, seed), func(t *testing.T) {
				t.Parallel()
				f, at := w.stored(t, quota)
				require.NoError(t, f.SetQuotas(t.Context(), []engine.Quota{quota}))
				s := &steered{fair: f, world: w, t: t, rng: rand.New(rand.NewPCG(seed, 12)), at: at, quota: quota}
				share := 100 + int(seed%2)*900
				if seed%2 == 0 {
					s.joins(2, 1)
					require.NoError(t, f.Reset(t.Context()))
				}
				if seed%3 == 0 {
					s.loses()
				}
				for range 2 {
					for range s.rng.IntN(14) {
						s.passes(400)
						s.failsOver()
					}
					for range s.rng.IntN(250) {
						s.passes(300)
						s.joins(1, 1+s.rng.IntN(s.quota.Permits/share+1))
					}
					s.joins(1+s.rng.IntN(400), max(1, s.quota.Permits/share/(1+s.rng.IntN(5))))
					s.narrows()
					s.pauses()
					for range s.rng.IntN(12) {
						s.leave()
						if s.rng.IntN(4) == 0 {
							s.narrows()
							s.failsOver()
						}
					}
				}
				t.Logf("%d bytes, %d of them beside the cells and the histogram", s.largest, s.rest)
			})
		}
	}
}
