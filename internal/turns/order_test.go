package turns

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
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
		s.turn = turn{grant: engine.Grant{At: int64(at)}, due: start.Add(time.Duration(at) * second)}
		if deadlines != nil && deadlines[i] > 0 {
			s.latest = start.Add(time.Duration(deadlines[i]) * second)
		}
		l.join(s)
		callers[i] = s
	}
	return l, callers
}

// An older caller, whose own answer told of the reset, takes a turn of the
// queue that follows. Then that is lost as well.
func TestATurnIsVoidByWhenItWasGranted(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, _ *queue, l *Sleepers) {
		start := time.Now()
		hear := func(n engine.News) (asked time.Time) {
			time.Sleep(time.Millisecond)
			n.Asked, n.Arrived, n.Server = time.Now(), time.Now(), time.Now().UnixMicro()
			l.Hear(&n)
			return n.Asked
		}
		hear(engine.News{Queue: "before"})
		hear(engine.News{Queue: "reset", Reset: true})
		older, _ := reservation(t, l, start, engine.Grant{ID: "reset", At: 2}, nil)
		asked := hear(engine.News{Queue: "next"})
		younger, _ := reservation(t, l, asked, engine.Grant{ID: "next", At: 1}, nil)
		older.request.Call, younger.request.Call = 1, 2
		older.due = younger.due.Add(second)
		assert.True(t, l.keepOrder(younger, time.Now()))
		hear(engine.News{Queue: "third"})
		assert.Equal(t, "next", older.grant.ID)
		assert.Equal(t, asleep, older.state)
		assert.Equal(t, asleep, younger.state)
	})
}

func slotsOf(callers []*Sleeper) []int {
	at := make([]int, len(callers))
	for i, c := range callers {
		at[i] = int(c.grant.At)
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
		"and so does one that follows": {turns: []int{9, 2, 1}, deadlines: []int{0, 5, 1}, want: []int{9, 2, 1}},
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

// An older caller sleeps for what a slow answer told. Newer news say that its
// turn has come.
func TestAnOlderCallerWakesWhoseTurnIsToldBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, callers := asleepAt([]int{1, 2}, nil)
		l.Within = 10 * second
		older, younger := callers[0], callers[1]
		younger.soonest, older.soonest = younger.due, older.due
		older.due = older.due.Add(3 * second)
		for i, c := range callers {
			c.grant = engine.Grant{ID: "q", At: int64(i+1) * second.Microseconds()}
			c.asked, c.comes = time.Now().Add(c.soonest.Sub(c.due)), c.grant.At
		}
		l.next(older)
		time.Sleep(2 * second)
		l.news = engine.News{Queue: "q", Asked: time.Now(), Arrived: time.Now(), Clock: 2 * second.Microseconds()}
		l.news.Server = l.news.Clock
		l.newest = l.news.Asked
		changed := l.changed
		until, _ := l.next(younger)
		assert.False(t, until.IsZero(), "the younger goes first")
		<-changed
		until, _ = l.next(older)
		assert.True(t, until.IsZero())
		until, _ = l.next(younger)
		assert.True(t, until.IsZero())
	})
}

// A caller whose turn is due at once finds another asleep.
func TestACallerGoesAtOnceUnlessItsTurnIsForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		due     time.Duration
		request *coalesce.Request
		goes    bool
	}{
		"one whose turn is to come": {second, &coalesce.Request{N: 1}, false},
		"one whose turn has come":   {0, &coalesce.Request{N: 1}, true},
		"one for more permits":      {second, &coalesce.Request{N: 2}, true},
		"one for other amounts":     {second, &coalesce.Request{N: 1, Amounts: "tokens=5"}, true},
		"one of another flow":       {second, &coalesce.Request{N: 1, Line: &coalesce.Line{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newQueue(second).line(second, 0)
				s := NewSleeper(&coalesce.Request{Call: 1})
				s.due = time.Now().Add(c.due)
				l.join(s)
				s.request.N, s.request.Amounts, s.request.Line = c.request.N, c.request.Amounts, c.request.Line
				r := &coalesce.Request{N: 1, Call: 2, Reply: coalesce.Reply{Answer: &engine.Answer{}}}
				r.Reply.Asked, r.Reply.Arrived = time.Now(), time.Now()
				assert.Equal(t, c.goes, l.MayGo(r))
			})
		})
	}
}

func TestACallerThatWakesGivesItsTurnToTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, callers := asleepAt([]int{1, 0}, nil)
		older, younger := callers[0], callers[1]
		until, _ := l.next(younger)
		assert.False(t, until.IsZero(), "it is asleep")
		until, _ = l.next(older)
		assert.True(t, until.IsZero(), "it has gone")
		until, _ = l.next(younger)
		assert.Equal(t, second, time.Until(until))
	})
}

// Two turns have come at once. The caller of the second has woken first.
func TestACallerThatWakesFirstTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, callers := asleepAt([]int{0, 0}, nil)
		l.MaxLateness = second
		until, _ := l.next(callers[1])
		assert.True(t, until.IsZero())
	})
}
