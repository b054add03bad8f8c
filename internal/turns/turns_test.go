package turns

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

const second = time.Second

func TestAShortWaitAsksNothingMore(t *testing.T) {
	inBubble(t, 100*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		inOrder(t, callers(t.Context(), l, 11, forever), 11)
		assert.Zero(t, q.looks)
	})
}

func TestALongWaitLooksOnceShortlyBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10 * second)
		q.takes = 10 * time.Millisecond
		l := q.line(second, 0)
		out := callers(t.Context(), l, 3, forever)
		inOrder(t, out, 3)
		assert.Equal(t, 2, q.looks, "the first went at once")
	})
}

func TestOneLookServesAllWithinItsReach(t *testing.T) {
	inBubble(t, 10*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		inOrder(t, callers(t.Context(), l, 1000, forever), 1000)
		assert.LessOrEqual(t, q.looks, 12, "4/(3X) a second, for nine seconds")
		assert.GreaterOrEqual(t, q.looks, 9)
	})
}

func TestABusyLineNeverLooks(t *testing.T) {
	inBubble(t, 100*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 50, forever)
		for range 60 { // others ask, and their answers bring the news
			asksNow(t, l, 0)
			time.Sleep(100 * time.Millisecond)
		}
		inOrder(t, out, 50)
		assert.Zero(t, q.looks)
	})
}

func stretch(pace int64) []engine.Stretch {
	return []engine.Stretch{{Until: time.Hour.Microseconds() * 2, Pace: pace}}
}

// Others begin another queue, whose clock then stands still or is slow for a while.
// Whoever misses a turn asks that queue. Those of one limiter keep their order.
func TestLostTurnsGoWhenTheyWereToldOrAreMissed(t *testing.T) {
	for name, test := range map[string]struct {
		paused time.Duration
		slow   []engine.Stretch
		want   []int // the seconds at which the callers go
	}{
		"as told":         {want: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"all are missed":  {paused: 30 * second, want: []int{0, 1, 2, 40, 41, 42, 43, 44, 45, 46}},
		"some are missed": {paused: 2 * second, want: []int{0, 1, 2, 5, 6, 7, 8, 9, 12, 13}},
		"a slow clock":    {slow: stretch(1_000_001), want: []int{0, 1, 2, 10, 11, 12, 13, 14, 15, 16}},
		"a wider quota":   {slow: stretch(1_000_000), want: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		for _, ahead := range []time.Duration{-10 * second, 0, 10 * second} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := newQueue(second)
					q.loses(time.Hour) // a clock is far from 0
					l := q.line(second, 0)
					out := callers(t.Context(), l, 10, forever)
					time.Sleep(500 * time.Millisecond)
					q.loses(ahead)
					time.Sleep(2 * second)
					q.pause(test.paused)
					q.nowSlow(test.slow)
					for i, at := range inOrder(t, out, 10) {
						assert.Equal(t, time.Duration(test.want[i])*second, at.Round(time.Millisecond), i)
					}
				})
			})
		}
	}
}

// TestAPauseThatGrowsByLittleHoldsOn lets an answer take longer than that.
func TestAPauseThatGrowsByLittleHoldsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(5 * second)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 0)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(4500 * time.Millisecond)
		q.pause(10 * second) // its turn comes half a second after the pause
		time.Sleep(9700 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		time.Sleep(100*time.Millisecond - 2*time.Millisecond)
		q.pause(230 * time.Millisecond)
		q.nowTakes(100 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		w := <-out
		require.NoError(t, w.err)
		assert.GreaterOrEqual(t, w.at, 15*second+30*time.Millisecond)
	})
}

func TestADeadlineThatAPauseMakesImpossibleEndsAtOnce(t *testing.T) {
	inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		deadline := time.Now().Add(25 * second)
		out := callers(t.Context(), l, 3, func(int) *coalesce.Request {
			return &coalesce.Request{N: 1, MaxWait: engine.Forever, Deadline: deadline}
		})
		require.NoError(t, (<-out).err)
		time.Sleep(second)
		q.pause(time.Minute)
		// Whoever asks brings the news for all.
		asksNow(t, l, 0)
		for range 2 {
			w := <-out
			var refusal *Refusal
			require.ErrorAs(t, w.err, &refusal)
			assert.True(t, refusal.Paused)
			assert.Equal(t, second, w.at)
			assert.Greater(t, refusal.Wait, time.Minute)
		}
		assert.Len(t, q.givenBack(), 2, "their permits are back")
	})
}

func TestWhoeverHoldsIsHeldWithoutRedis(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 3, forever)
		require.NoError(t, (<-out).err)
		l.Hold(time.Now().Add(time.Minute)) // and Redis never hears of it
		for who := 1; who < 3; who++ {
			w := <-out
			require.NoError(t, w.err)
			assert.Equal(t, who, w.who)
			assert.GreaterOrEqual(t, w.at, time.Minute)
		}
		assert.Len(t, q.givenBack(), 2, "turns that passed meanwhile are not taken")
	})
}

// TestWhoeverIsFreedHearsOfAPauseAgain has callers sleep beyond their look for
// a pause that ends early, and then another process pauses.
func TestWhoeverIsFreedHearsOfAPauseAgain(t *testing.T) {
	for _, paused := range []bool{false, true} {
		inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
			out := callers(t.Context(), l, 2, forever)
			time.Sleep(second)
			l.Hold(time.Now().Add(20 * second))
			time.Sleep(second)
			l.Free(time.Now())
			time.Sleep(second)
			due := 10 * second
			if paused {
				q.pause(30 * second)
				due += 30 * second
			}
			assert.Equal(t, due, inOrder(t, out, 2)[1])
		})
	}
}

// A pause is called, stands in line for a while, and is sent after the reset.
func TestFreeEndsOnlyWhatWasHeldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newQueue(second).line(second, 0)
		until := time.Now().Add(time.Minute)
		called := time.Now()
		l.Hold(until)
		time.Sleep(second)
		reset := time.Now()
		time.Sleep(second)
		sent := time.Now()
		l.Hold(until)
		l.Free(called)
		l.Free(reset)
		assert.Equal(t, 58*second, held(l))
		l.Free(sent)
		assert.Zero(t, held(l))
	})
}

// A reset is asked after the first of several holds.
func TestHoldsThatAreShorterStandOnceAResetEndsALongerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ holds, left []time.Duration }{
			{[]time.Duration{20 * second, 5 * second}, []time.Duration{19 * second, 5 * second, 0}},
			{[]time.Duration{60 * second, 20 * second, 3 * second}, []time.Duration{58 * second, 19 * second, 3 * second, 0}},
			{[]time.Duration{60 * second, 3 * second, 20 * second}, []time.Duration{58 * second, 20 * second, 20 * second, 0}},
			{[]time.Duration{20 * second, 60 * second, 3 * second}, []time.Duration{59 * second, 59 * second, 3 * second, 0}},
		} {
			l := newQueue(second).line(second, 0)
			var said []time.Time
			for i, d := range c.holds {
				if i > 0 {
					time.Sleep(second)
				}
				l.Hold(time.Now().Add(d))
				said = append(said, time.Now())
			}
			assert.Equal(t, c.left[0], held(l))
			for i, at := range said {
				l.Free(at)
				assert.Equal(t, c.left[i+1], held(l), "%v, freed of the first %d", c.holds, i+1)
			}
		}
	})
}

func TestThoseWhoseQueueWasResetLineUpAgainInOrder(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 40, forever)
		time.Sleep(4500 * time.Millisecond)
		for range 5 {
			<-out
		}
		require.NoError(t, q.Reset(t.Context()))
		for who := 5; who < 40; who++ {
			w := <-out
			require.NoError(t, w.err)
			require.Equal(t, who, w.who)
		}
		assert.Equal(t, 40+1, q.takeCount, "all who lined up again in one question")
	})
}

func TestASilentRedisLetsThoseGoWhoWereGranted(t *testing.T) {
	inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		var confirmed []bool
		l.Taken = func(_ int, _ time.Duration, ok bool) { confirmed = append(confirmed, ok) }
		q.silent = true // to looks
		out := callers(t.Context(), l, 2, forever)
		at := inOrder(t, out, 2)
		assert.Equal(t, 10*second, at[1])
		assert.Equal(t, []bool{true, false}, confirmed)
		time.Sleep(10 * second) // the look ends by itself
	})
}

func TestAServersClockThatLeapsAheadMovesNobody(t *testing.T) {
	inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 3, forever)
		time.Sleep(second)
		q.leaps(time.Hour)
		at := inOrder(t, out, 3)
		assert.Equal(t, []time.Duration{0, 10 * second, 20 * second}, at)
	})
}

func TestALongSleepEndsByTheBetterEstimate(t *testing.T) {
	inBubble(t, time.Hour, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(30 * time.Minute)
		q.leaps(-36 * time.Millisecond) // the server's clock is slower than ours, by 10 ppm
		w := <-out
		require.NoError(t, w.err)
		assert.Equal(t, time.Hour+36*time.Millisecond, w.at)
	})
}

// TestAllWhoLineUpAgainKnowItAtOnce resets a queue of which all are asleep, so
// that nobody is left there. Their new turns come before the old ones did.
func TestAllWhoLineUpAgainKnowItAtOnce(t *testing.T) {
	inBubble(t, 10*second, 50*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		var missed int
		l.Missed = func(int, time.Duration) { missed++ }
		for range 3 { // turns of others
			asksNow(t, l, engine.Forever)
		}
		out := callers(t.Context(), l, 3, forever) // 30 to 50 s ahead
		time.Sleep(3 * second)
		require.NoError(t, q.Reset(t.Context()))
		asksNow(t, l, 0) // it brings the news
		for i := range 3 {
			w := <-out
			require.NoError(t, w.err)
			assert.Equal(t, i, w.who)
			assert.Equal(t, 13*second+time.Duration(i)*10*second, w.at)
		}
		assert.Zero(t, missed)
	})
}

// TestATurnOfAQueueThatWasResetMeanwhileIsNotSleptFor has the news of a reset
// overtake a caller that was granted its turn before.
func TestATurnOfAQueueThatWasResetMeanwhileIsNotSleptFor(t *testing.T) {
	inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		asksNow(t, l, engine.Forever)
		r := asksNow(t, l, engine.Forever)
		require.Equal(t, 10*second, r.Reply.Wait)
		time.Sleep(second)
		require.NoError(t, q.Reset(t.Context()))
		asksNow(t, l, 0) // it brings the news
		again, err := l.Sleep(NewSleeper(r))
		require.NoError(t, err)
		require.True(t, again, "it lines up again")
		require.NoError(t, l.Asker.Ask(r))
		assert.Equal(t, "1", r.Reply.Grant.ID)
		assert.Equal(t, 10*second, r.Reply.Wait)
	})
}

// TestAnAnswerThatTellsNothingNewWakesNobody lets others ask while some sleep.
func TestAnAnswerThatTellsNothingNewWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(100 * time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 0)
		var woken atomic.Int64
		l.woke = func() { woken.Add(1) }
		out := callers(t.Context(), l, 9, forever)
		for range 100 {
			asksNow(t, l, 0)
			time.Sleep(5 * time.Millisecond)
		}
		inOrder(t, out, 9)
		assert.EqualValues(t, 8, woken.Load(), "the first did not sleep, and the others each once")
	})
}

// TestWhoHadToWaitForItsAnswerDoesNotGoLater has one answer stay on its way
// back for so long that the next turn comes meanwhile. Other answers tell when
// the turn is.
func TestWhoHadToWaitForItsAnswerDoesNotGoLater(t *testing.T) {
	for name, before := range map[string]bool{"known before": true, "known after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(100 * time.Millisecond)
				q.nowTakes(2 * time.Millisecond)
				l := q.line(second, 0)
				for range 10 { // turns of others
					asksNow(t, l, engine.Forever)
				}
				if !before {
					l.news = engine.News{}
				}
				q.slow(150 * time.Millisecond)
				out := callers(t.Context(), l, 1, forever)
				time.Sleep(200 * time.Millisecond)
				rest := callers(t.Context(), l, 3, forever)
				w := <-out
				require.NoError(t, w.err)
				at := inOrder(t, rest, 3)
				assert.Less(t, w.at, 200*time.Millisecond+at[0], "it called first")
				assert.InDelta(t, float64(at[0]+100*time.Millisecond), float64(w.at), float64(2*time.Millisecond))
			})
		})
	}
}

// TestAnAnswerThatTookLongMakesNobodyLate has a look take so long that it must
// be believed that the clock stood still. The next answer tells that it did
// not.
func TestAnAnswerThatTookLongMakesNobodyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(5 * second)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(second, 50*time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(4 * second)
		q.slow(300 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		asksNow(t, l, 0)
		w := <-out
		require.NoError(t, w.err)
		assert.InDelta(t, float64(5*second), float64(w.at), float64(3*time.Millisecond))
		assert.Empty(t, q.givenBack(), "it is no reason to miss a turn")
	})
}

// TestALookThatTookLongGivesNoTurnUp has the look wait on its way to Redis, not
// on its way back. So its answer tells as late a slot as the one before, which
// was quick. That turn cannot have come long ago.
func TestALookThatTookLongGivesNoTurnUp(t *testing.T) {
	for name, took := range map[string]time.Duration{"told nothing new": 200, "has to be believed": 300} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(5 * second)
				q.nowTakes(2 * time.Millisecond)
				l := q.line(second, 50*time.Millisecond)
				out := callers(t.Context(), l, 2, forever)
				require.NoError(t, (<-out).err)
				time.Sleep(4 * second)
				q.slowThere(took * time.Millisecond)
				require.NoError(t, l.Look(t.Context()))
				w := <-out
				require.NoError(t, w.err)
				assert.InDelta(t, float64(5*second), float64(w.at), float64(3*time.Millisecond))
				assert.Empty(t, q.givenBack(), "it was not late")
			})
		})
	}
}

// TestATurnThatAnotherAnswerTellsBetterIsNotGivenUp lets one answer be quick,
// and one before it come back at once that was long on its way there.
func TestATurnThatAnotherAnswerTellsBetterIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(400 * time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		l := q.line(2*second, 50*time.Millisecond)
		asksNow(t, l, engine.Forever)
		time.Sleep(1200 * time.Millisecond)
		q.slowThere(100 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		require.Equal(t, 102*time.Millisecond, l.news.Arrived.Sub(l.news.Asked))
		asksNow(t, l, engine.Forever)
		q.slow(20 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		require.NoError(t, (<-out).err)
		assert.Empty(t, q.givenBack(), "it was not late")
	})
}

// TestAnAnswerThatWasOvertakenIsNoNews has the answer of an older question arrive
// after one that tells of a pause.
func TestAnAnswerThatWasOvertakenIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newQueue(second).line(second, 0)
		older := engine.News{Asked: time.Now(), Queue: "0", Clock: 1}
		time.Sleep(10 * time.Millisecond)
		newer := engine.News{Asked: time.Now(), Arrived: time.Now(), Queue: "0", Clock: 2, Stands: time.Minute}
		l.Hear(&newer)
		time.Sleep(10 * time.Millisecond)
		older.Arrived = time.Now()
		l.Hear(&older)
		assert.Equal(t, newer, l.news)
		assert.Equal(t, newer.Asked, l.newest)
	})
}

// A look that went later is answered by the queue before. The clock of that one is
// a minute behind.
func TestNewsTellNothingOfTurnsOfAnotherQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newQueue(second).line(second, 0)
		asked := time.Now()
		l.Hear(&engine.News{Asked: asked, Arrived: asked, Queue: "before", Server: 1, Clock: 1})
		time.Sleep(time.Millisecond)
		l.Hear(&engine.News{Asked: time.Now(), Arrived: time.Now(), Queue: "before", Server: 2, Clock: 2})
		s := NewSleeper(&coalesce.Request{Ctx: t.Context(), N: 1})
		s.turn = turn{grant: engine.Grant{ID: "next", At: time.Minute.Microseconds()}, due: asked.Add(second)}
		l.sleepers = append(l.sleepers, s)
		l.reckon(s)
		assert.Equal(t, asked.Add(second), s.due, "it comes as it was told")

		next := engine.News{Asked: asked, Arrived: time.Now(), Queue: "next", Server: 3, Clock: s.grant.At}
		l.Hear(&next)
		assert.Equal(t, next, l.news, "the server told these last")
		l.Hear(&engine.News{Asked: asked, Arrived: time.Now(), Queue: "before", Server: 2, Clock: 2})
		assert.Equal(t, next, l.news)
	})
}

// Somebody has reset the queue before this process held its callers.
func TestAResetOfBeforeDoesNotEndAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, isBefore := range []bool{true, false} {
			l := newQueue(second).line(second, 0)
			hear := func(queue string) {
				time.Sleep(time.Millisecond)
				l.Hear(&engine.News{Asked: time.Now(), Arrived: time.Now(), Queue: queue, Reset: queue == "next", Clock: 1})
			}
			hear("before")
			time.Sleep(time.Millisecond)
			l.Hold(time.Now().Add(time.Minute))
			if !isBefore {
				hear("before")
			}
			hear("next")
			assert.Equal(t, isBefore, held(l) > 0)
		}
	})
}

func held(l *Sleepers) time.Duration {
	left, _ := l.Held()
	return left
}

// The server's clock gains on this one in a pause, as clocks may. Else whoever
// has its turn just after the pause would miss it.
func TestAHoldEndsWithThePauseThoughClocksRunApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newQueue(second).line(second, 0)
		hear := func(stands, took time.Duration) {
			now := time.Now()
			l.Hear(&engine.News{Asked: now.Add(-took), Arrived: now, Queue: "0", Clock: 1, Stands: stands})
		}
		hear(30*second, 0)
		time.Sleep(10 * second)
		hear(20*second-9*time.Millisecond, 50*time.Millisecond)
		assert.Equal(t, 20*second-9*time.Millisecond, held(l), "as much as clocks may run apart")
		time.Sleep(10 * second)
		hear(10*second, 50*time.Millisecond)
		assert.Equal(t, 10*second-9*time.Millisecond, held(l), "the answer was on its way")
		hear(9*second, 0)
		assert.Equal(t, 10*second-9*time.Millisecond, held(l), "that is more")
	})
}
