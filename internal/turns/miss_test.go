package turns

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// stalls is a line whose process can stand still: whoever wakes meanwhile goes
// on when it does.
func (q *queue) stalls(lateness time.Duration) (l *Sleepers, stall func(time.Duration)) {
	l = q.line(second, lateness)
	var until atomic.Int64
	start := time.Now()
	l.woke = func() { time.Sleep(time.Duration(until.Load()) - time.Since(start)) }
	return l, func(d time.Duration) {
		until.Store(int64(time.Since(start) + d))
		time.Sleep(d)
	}
}

func TestAMissedTurnIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l, stall := q.stalls(50 * time.Millisecond)
		var missed []time.Duration
		l.Missed = func(_ int, lateness time.Duration) { missed = append(missed, lateness) }
		out := callers(t.Context(), l, 10, forever)
		require.NoError(t, (<-out).err)
		stall(3500 * time.Millisecond) // three turns pass
		for who := 1; who < 10; who++ {
			w := <-out
			require.NoError(t, w.err)
			require.Equal(t, who, w.who, "callers keep their order")
			assert.Equal(t, time.Duration(who+3)*second, w.at, "each takes the turn of the third behind it")
		}
		assert.Len(t, missed, 3)
		assert.Len(t, q.givenBack(), 3)
	})
}

// The turn of the third is still good when the process goes on, and the third
// may be the first to wake.
func TestATurnThatIsStillGoodGoesToWhoeverCameFirst(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(second)
			l, stall := q.stalls(50 * time.Millisecond)
			out := callers(t.Context(), l, 5, forever)
			require.NoError(t, (<-out).err)
			stall(3020 * time.Millisecond) // the turns of 1 and 2 s pass, and that of 3 s nearly
			for who := 1; who < 5; who++ {
				w := <-out
				require.NoError(t, w.err)
				require.Equal(t, who, w.who)
			}
		})
	}
}

func TestAMissedTurnMayComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l, stall := q.stalls(50 * time.Millisecond)
		start := time.Now()
		out := callers(t.Context(), l, 4, func(who int) *coalesce.Request {
			r := &coalesce.Request{N: 1, MaxWait: engine.Forever}
			if who == 1 {
				r.Deadline = start.Add(1900 * time.Millisecond)
			}
			return r
		})
		require.NoError(t, (<-out).err)
		stall(1500 * time.Millisecond)
		w := <-out
		var refusal *Refusal
		require.ErrorAs(t, w.err, &refusal, "the next turn is after its deadline")
		assert.Equal(t, 500*time.Millisecond, refusal.Wait)
		for who := 2; who < 4; who++ {
			w := <-out
			require.NoError(t, w.err)
			assert.Equal(t, went{who, time.Duration(who) * second, nil}, w, "so it leaves it to the next")
		}
	})
}

// A machine that is late every time neither goes late nor hangs for ever.
func TestAMachineThatIsAlwaysLateGivesUp(t *testing.T) {
	inBubble(t, second, 5*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		l.woke = func() { // it stands still around every slot
			around := time.Since(start).Round(second)
			if until := around - time.Since(start); until < 100*time.Millisecond && until > -20*time.Millisecond {
				time.Sleep(until + 20*time.Millisecond)
			}
		}
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		w := <-out
		require.ErrorIs(t, w.err, ErrMissed)
		assert.LessOrEqual(t, w.at, 2*mostMissed*second)
		assert.Len(t, q.givenBack(), mostMissed)
	})
}

// A turn comes when a pause ends. Two answers tell that moment, and one of them is
// rounded.
func TestATurnAtTheEndOfAPauseIsNotMissed(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		l.Hold(time.Now().Add(second + 2*time.Microsecond))
		assert.Equal(t, second+2*time.Microsecond, inOrder(t, out, 2)[1])
		assert.Empty(t, q.givenBack())
	})
}

// The server's clock was set back, which only the answer tells that grants the
// turn. It took long, so it tells little of other turns.
func TestATurnDoesNotGoByNewsFromBeforeItsOwnLateAnswer(t *testing.T) {
	for _, overtakes := range []bool{false, true} { // a look overtakes the question
		inBubble(t, 1200*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
			require.NoError(t, wait(t.Context(), l, forever(0)))
			time.Sleep(600 * time.Millisecond)
			q.nowTakes(time.Second)
			out := callers(t.Context(), l, 1, forever)
			time.Sleep(10 * time.Millisecond)
			q.nowTakes(0) // on the way back
			if overtakes {
				require.NoError(t, l.Look(t.Context()))
			}
			q.mu.Lock()
			q.start = q.start.Add(300 * time.Millisecond)
			q.mu.Unlock()
			assert.Equal(t, 1500*time.Millisecond, (<-out).at+600*time.Millisecond, overtakes)
		})
	}
}

// Another question is answered late, between the answer that told the turns and
// these, or the look is. It tells of them less well than is known.
func TestAnAnswerThatIsLateHarmsNoTurn(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 2 * second} {
		for _, late := range []time.Duration{100 * time.Millisecond, 240 * time.Millisecond, 500 * time.Millisecond} {
			inBubble(t, interval, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
				q.nowTakes(2 * time.Millisecond)
				out := callers(t.Context(), l, 10, forever)
				time.Sleep(interval / 10)
				q.slow(late)
				if interval < second {
					asksNow(t, l, 0)
				}
				for i, at := range inOrder(t, out, 10) {
					assert.Equal(t, time.Duration(i)*interval, at.Truncate(50*time.Millisecond), "%v %v", interval, late)
				}
			})
		}
	}
}

func TestAnAnswerThatTookLongerThanOthersCountsAsLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 50*time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.nowTakes(4 * second) // the process stands still before it reads the answer
		go func() {
			time.Sleep(3 * second)
			q.nowTakes(2 * time.Millisecond)
		}()
		start := time.Now()
		require.NoError(t, wait(t.Context(), l, forever(0)))
		assert.Greater(t, time.Since(start), 4*second)
		assert.Len(t, q.givenBack(), 1)
	})
}

// TestCallersKeepTheirOrderWhoMissTurnsTwice lets a process stand still once
// more while the last of those who missed turns before is in line again.
func TestCallersKeepTheirOrderWhoMissTurnsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		q.takes = 1200 * time.Millisecond
		l, stall := q.stalls(50 * time.Millisecond)
		start := time.Now()
		out := callers(t.Context(), l, 5, forever) // due after 1.2, 2.4, 3.4, 4.4 and 5.4 s
		time.Sleep(3*second - time.Since(start))
		stall(900 * time.Millisecond) // the turn of 3.4 s passes, and the last caller asks anew
		time.Sleep(4200*time.Millisecond - time.Since(start))
		stall(800 * time.Millisecond) // that of 4.4 s passes, and the last but one asks anew
		for who := range 5 {
			w := <-out
			require.NoError(t, w.err)
			assert.Equal(t, who, w.who, "went after %v", w.at)
		}
		time.Sleep(10 * second) // what was missed is given back
	})
}

// Whoever is granted a turn at once comes behind a caller that has slept past
// its own and has not woken yet, though it be on the clock of another server
// that is behind.
func TestWhoHasNotWokenYetGoesBeforeThoseThatCallLater(t *testing.T) {
	for _, happens := range []func(*queue){
		func(*queue) {},
		func(q *queue) { q.loses(-20 * second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(second)
			l, stall := q.stalls(50 * time.Millisecond)
			sleeps := callers(t.Context(), l, 2, forever)
			require.NoError(t, (<-sleeps).err)
			happens(q)
			go stall(5 * second)
			time.Sleep(5*second - time.Millisecond)
			calls := callers(t.Context(), l, 1, forever)
			require.NoError(t, (<-sleeps).err)
			require.Empty(t, calls)
			require.NoError(t, (<-calls).err)
		})
	}
}

// The process stands still while a look is on its way, and past some turns.
// What the look says then is old; what the next says is that these turns have
// passed.
func TestALookThatTookLongDoesNotHideThatTurnsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		q.takes = 2 * time.Millisecond
		l, stall := q.stalls(50 * time.Millisecond)
		out := callers(t.Context(), l, 8, forever)
		require.NoError(t, (<-out).err)
		q.mu.Lock()
		old := q.news(time.Now())
		q.mu.Unlock()
		go func() { // just before the others go on
			time.Sleep(2490 * time.Millisecond)
			old.Arrived = time.Now()
			l.Hear(old)
			q.mu.Lock()
			fresh := q.news(time.Now())
			q.mu.Unlock()
			time.Sleep(time.Millisecond)
			fresh.Arrived = time.Now()
			l.Hear(fresh)
		}()
		stall(2500 * time.Millisecond)
		at := map[time.Duration]int{}
		for range 7 {
			w := <-out
			require.NoError(t, w.err)
			at[w.at.Round(100*time.Millisecond)]++
		}
		for when, went := range at {
			assert.Equal(t, 1, went, "at %v", when)
		}
	})
}

// vague has one caller who knows only after 3 s that its turn comes after one,
// or up to three later.
func vague(t *testing.T) (*queue, *Sleepers, <-chan went) {
	q := newQueue(second)
	q.nowTakes(2 * time.Millisecond)
	l := q.line(second, 50*time.Millisecond)
	require.NoError(t, wait(t.Context(), l, forever(0)))
	q.slow(3 * second)
	out := callers(t.Context(), l, 1, forever)
	time.Sleep(3500 * time.Millisecond)
	return q, l, out
}

// An answer tells vaguely when a turn comes. The queue ends, and the clock of the
// next one is far ahead: that does not tell it better.
func TestNewsOfAnotherClockHideNoMissedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, l, out := vague(t)
		q.mu.Lock()
		q.generation++
		q.start = q.start.Add(-time.Hour)
		news := q.news(time.Now())
		q.mu.Unlock()
		news.Arrived = time.Now()
		l.Hear(news)
		require.NoError(t, (<-out).err)
		assert.Len(t, q.givenBack(), 1, "its turn may have passed long before")
	})
}

// An answer tells vaguely when a turn comes, and it has come by then. A pause that
// begins later does not tell it better.
func TestAPauseHidesNoMissedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, l, out := vague(t)
		q.pause(200 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		require.NoError(t, (<-out).err)
		assert.Len(t, q.givenBack(), 1, "its turn came long before")
	})
}

// Answers that grant turns wait for replicas, and looks do not.
func TestTurnsThatWaitForReplicasAreNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 25*time.Millisecond)
		for range 5 {
			q.slow(60 * time.Millisecond)
			require.NoError(t, wait(t.Context(), l, forever(0)))
			require.NoError(t, l.Look(t.Context()))
			time.Sleep(2 * second)
		}
		assert.Empty(t, q.givenBack())
	})
}

// Redis is farther away from now on: turns are missed for a while, and then not.
func TestAnswersThatTakeLongerForGoodAreNoLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 25*time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.nowTakes(60 * time.Millisecond)
		for range 50 {
			require.NoError(t, wait(t.Context(), l, forever(0)))
		}
		missed := len(q.givenBack())
		assert.Positive(t, missed)
		assert.Less(t, missed, 8)
	})
}

// A flow is paused. Its callers that sleep line up again, and nobody else does.
func TestAPauseOfAFlowPutsOffItsCallersOnly(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		flows := []*coalesce.Line{nil, coalesce.NewLine("a", 1, 8), coalesce.NewLine("b", 1, 8)}
		out := callers(t.Context(), l, len(flows), func(who int) *coalesce.Request {
			return &coalesce.Request{N: 1, MaxWait: engine.Forever, Line: flows[who]}
		})
		require.NoError(t, (<-out).err)
		l.PutOff(flows[1], second)
		assert.Len(t, q.givenBack(), 1)
		assert.Equal(t, went{2, 2 * second, nil}, <-out)
		assert.Equal(t, went{1, 3 * second, nil}, <-out)
		assert.Len(t, q.givenBack(), 1)
	})
}
