package turns

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// asleepAt are callers in the order of their calls, each with the second of its
// turn. A caller with a deadline accepts no later second.
func asleepAt(seconds, deadlines []int) (*Sleepers, []*Sleeper) {
	l := &Sleepers{}
	start := time.Now()
	callers := make([]*Sleeper, len(seconds))
	for i, at := range seconds {
		s := NewSleeper(&coalesce.Request{N: 1, Call: uint64(i + 1)})
		s.turn = turn{at: int64(at), due: start.Add(time.Duration(at) * second)}
		if deadlines != nil && deadlines[i] > 0 {
			s.latest = start.Add(time.Duration(deadlines[i]) * second)
		}
		l.join(s)
		callers[i] = s
	}
	return l, callers
}

func slotsOf(callers []*Sleeper) []int {
	at := make([]int, len(callers))
	for i, c := range callers {
		at[i] = int(c.at)
	}
	return at
}

func TestWhoeverCalledFirstTakesTheFirstTurn(t *testing.T) {
	for name, c := range map[string]struct{ turns, deadlines, want []int }{
		"in order":                     {turns: []int{1, 2, 3}, want: []int{1, 2, 3}},
		"a younger caller is first":    {turns: []int{2, 3, 1}, want: []int{1, 2, 3}},
		"an older caller is last":      {turns: []int{4, 2, 1, 3}, want: []int{1, 2, 3, 4}},
		"it accepts the later turn":    {turns: []int{2, 1}, deadlines: []int{0, 2}, want: []int{1, 2}},
		"it keeps its turn":            {turns: []int{9, 3, 1, 2}, deadlines: []int{0, 0, 0, 2}, want: []int{1, 3, 9, 2}},
		"it has no turn in time":       {turns: []int{9, 3, 1}, deadlines: []int{0, 0, 1}, want: []int{3, 9, 1}},
		"one older keeps its turn":     {turns: []int{9, 2, 1}, deadlines: []int{0, 2, 0}, want: []int{1, 2, 9}},
		"then those before it do not":  {turns: []int{9, 8, 2, 1}, deadlines: []int{0, 0, 2, 0}, want: []int{1, 8, 2, 9}},
		"turns that all come too late": {turns: []int{9, 8, 7}, deadlines: []int{1, 1, 1}, want: []int{9, 8, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			l, callers := asleepAt(c.turns, c.deadlines)
			for _, s := range callers {
				l.keepOrder(s, time.Now())
			}
			assert.Equal(t, c.want, slotsOf(callers))
		})
	}
}

func TestOrderHoldsWhateverTurnsCallersHave(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		turns := make([]int, 1+rng.IntN(12))
		for i := range turns {
			turns[i] = rng.IntN(10)
		}
		l, callers := asleepAt(turns, nil)
		for len(l.sleepers) > 0 {
			s := l.sleepers[rng.IntN(len(l.sleepers))]
			if l.keepOrder(s, time.Now()) {
				continue
			}
			for _, c := range l.sleepers {
				assert.False(t, s.passes(c) || c.passes(s), "seed %d", seed)
			}
			l.quit(s, gone)
		}
		assert.IsNonDecreasing(t, slotsOf(callers), "seed %d", seed)
	}
}

// A caller that keeps its turn lets others exchange theirs.
func TestAllHearOfAnExchange(t *testing.T) {
	l, callers := asleepAt([]int{3, 2, 1}, []int{0, 0, 1})
	changed := l.changed
	assert.False(t, l.keepOrder(callers[2], time.Now()))
	assert.Equal(t, []int{2, 3, 1}, slotsOf(callers))
	select {
	case <-changed:
	default:
		assert.Fail(t, "they sleep for their old turns")
	}
}

// Callers that cannot exchange turns pass each other.
func TestCallersForOtherPermitsMayPass(t *testing.T) {
	l, callers := asleepAt([]int{2, 1}, nil)
	callers[0].request.N = 2
	for _, s := range callers {
		assert.False(t, l.keepOrder(s, time.Now()))
	}
	assert.Equal(t, []int{2, 1}, slotsOf(callers))
}
