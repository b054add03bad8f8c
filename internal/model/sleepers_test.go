package model

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// sleepers are callers who each hold a turn and go when it comes by the news
// that they have. A caller's news are at most old when it goes, so it may know
// nothing of a pause since.
type sleepers struct {
	old    int64
	pauses []paused
	turns  []sleeper
}

type paused struct{ at, length int64 }

type sleeper struct {
	Turn
	told int64 // when it was granted
	age  int64 // of its news when it goes
}

// comes is when the slot comes by what was known at a moment.
func (s *sleepers) comes(slot, known int64) int64 {
	c := &stopped{}
	for _, p := range s.pauses {
		if p.at <= known {
			c.pause(p.at, p.length)
		}
	}
	return c.comes(slot)
}

// goes is when a caller goes: it looks once more as long before its turn as its
// news may be old, until they are no other than before.
func (s *sleepers) goes(who sleeper) int64 {
	known := who.told
	turn := s.comes(who.Slot, known)
	for turn-who.age > known {
		known = turn - who.age
		turn = s.comes(who.Slot, known)
	}
	return turn
}

// gone are the turns at the moments at which their callers went.
func (s *sleepers) gone() []Turn {
	turns := make([]Turn, len(s.turns))
	for i, who := range s.turns {
		turns[i] = Turn{s.goes(who), who.N}
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(a.Slot, b.Slot) })
	return turns
}

// exceeds plays callers and pauses that last at least so many times what news
// may be old, and tells which window those who went have exceeded.
func exceeds(seed uint64, least int64) error {
	rng := rand.New(rand.NewPCG(seed, 23))
	windows := [][]Window{
		{{1, second}},
		Windows(10, second, 0), Windows(10, second, 2),
		{{5, 4 * second}},
		join(Windows(4, second, 0), Windows(20, 10*second, 0)),
	}[rng.IntN(5)]
	s := &sleepers{old: []int64{second / 10, second, 3 * second}[rng.IntN(3)]}
	held, c, now := &Exact{Windows: windows}, &stopped{}, int64(beginning)
	for range 150 {
		now += rng.Int64N(2) * rng.Int64N(windows[0].Length/int64(windows[0].Permits)+1)
		if rng.IntN(12) == 0 {
			p := paused{now, max(least*s.old, rng.Int64N(2*s.old))}
			c.pause(p.at, p.length)
			s.pauses = append(s.pauses, p)
			continue
		}
		label, _ := c.at(now)
		slot, _ := held.Take(label, 1, math.MaxInt64)
		age := []int64{0, s.old, rng.Int64N(s.old + 1)}[rng.IntN(3)]
		s.turns = append(s.turns, sleeper{Turn{slot, 1}, now, age})
	}
	if err := Strict(windows, s.gone()); err != nil {
		return fmt.Errorf("seed %d of %v, news up to %d µs old: %w", seed, windows, s.old, err)
	}
	return nil
}

// A pause that lasts twice as long as news may be old is strict in time, even
// though some go before they hear of it. A shorter one may not be: those who
// have not heard go ahead of those who have.
func TestSleepersKeepEveryWindowIfPausesAreLongEnough(t *testing.T) {
	t.Parallel()
	short := 0
	for seed := range uint64(redistest.Long(1000, 20_000)) {
		require.NoError(t, exceeds(seed, 2))
		if exceeds(seed, 0) != nil {
			short++
		}
	}
	require.Positive(t, short, "the rule is not needed")
	t.Logf("%d histories of short pauses exceed a window", short)
}
