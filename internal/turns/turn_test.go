package turns

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// The question was on its way for long. A look tells that the slot comes when its
// answer told, and no sooner.
func TestAVagueAnswerThatIsConfirmedLetsNoTurnBeMissed(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		q.nowTakes(2 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.slowThere(200 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		assert.Equal(t, 1002*time.Millisecond, time.Since(start))
		assert.Empty(t, q.givenBack())
	})
}

// The clock of the server gains a little on that of the process. One caller
// looks, and the other is due soon after it.
func TestTurnsComeSoonerByWhatClocksRunApart(t *testing.T) {
	inBubble(t, 20*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.last = time.Hour
		out := callers(t.Context(), l, 2, forever)
		time.Sleep(30 * time.Minute)
		q.leaps(200 * time.Millisecond)
		q.nowTakes(40 * time.Millisecond)
		assert.Equal(t, []time.Duration{
			time.Hour - 160*time.Millisecond, time.Hour - 140*time.Millisecond,
		}, inOrder(t, out, 2))
		assert.Equal(t, 2, q.looks, "one long before, and one shortly before, for both")
	})
}

// The same the other way round, by less than all answers take.
func TestATurnComesLaterByWhatClocksRunApart(t *testing.T) {
	inBubble(t, time.Hour, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(240 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(30 * time.Minute)
		q.leaps(-100 * time.Millisecond)
		assert.Equal(t, time.Hour+100*time.Millisecond, (<-out).at)
	})
}

// They have run apart by more than a look begins before the turn.
func TestClocksThatRanApartLetNoTurnBeMissed(t *testing.T) {
	inBubble(t, 2*time.Hour, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 4, forever)
		for range 3 {
			require.NoError(t, (<-out).err)
			time.Sleep(time.Hour)
			q.leaps(500 * time.Millisecond)
		}
		require.NoError(t, (<-out).err)
		assert.Empty(t, q.givenBack())
		assert.LessOrEqual(t, q.looks, 6, "two for each that slept")
	})
}

// What was granted within MaxWait stands, unless something puts it off.
func TestATurnThatIsToldBetterIsNotRefused(t *testing.T) {
	for what, tells := range map[string]func(*queue){
		"clocks ran apart":    func(q *queue) { q.leaps(-5 * time.Millisecond) },
		"all on the way back": func(q *queue) { q.nowTakes(0); q.slow(2 * time.Millisecond) },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 100*second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
				q.nowTakes(2 * time.Millisecond)
				out := callers(t.Context(), l, 2, func(int) *coalesce.Request {
					return &coalesce.Request{N: 1, MaxWait: 100 * second, Came: time.Now()}
				})
				require.NoError(t, (<-out).err)
				time.Sleep(50 * second)
				tells(q)
				require.NoError(t, (<-out).err)
			})
		})
	}
}

// The look of a caller that has waited for long stays on its way back.
func TestALookThatIsLateLetsNobodyGoLater(t *testing.T) {
	inBubble(t, time.Hour, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(2 * time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(time.Minute)
		q.slow(200 * time.Millisecond)
		assert.InDelta(t, time.Hour.Milliseconds(), (<-out).at.Milliseconds(), 3)
		assert.Empty(t, q.givenBack())
	})
}

// The server's clock is set back by less than answers take.
func TestATurnComesLaterIfAClockWasSetBackByLittle(t *testing.T) {
	inBubble(t, 5*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(200 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(2 * second)
		q.leaps(-150 * time.Millisecond)
		assert.GreaterOrEqual(t, (<-out).at, 5*second+50*time.Millisecond, "the one before was granted 100 ms ago")
	})
}

// The same by little for a caller that waits for long, and the moment of its
// slot on that clock is another one.
func TestATurnComesLaterIfAClockWasSetBackAfterALongWait(t *testing.T) {
	inBubble(t, time.Hour, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(30 * time.Minute)
		q.leaps(-time.Minute)
		q.mu.Lock()
		q.start = q.start.Add(-time.Minute + 500*time.Millisecond) // it carries on from half a second ago
		q.mu.Unlock()
		assert.Equal(t, time.Hour+500*time.Millisecond, (<-out).at)
	})
}

// A pause that is known becomes longer by less than answers take, and a look
// comes when it is over.
func TestAPauseThatBecameLongerByLittlePutsATurnOff(t *testing.T) {
	inBubble(t, 5*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(200 * time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		q.pause(second)
		require.NoError(t, l.Look(t.Context()))
		q.pause(second - 50*time.Millisecond) // it was recorded 200 ms ago
		assert.GreaterOrEqual(t, (<-out).at, 6250*time.Millisecond)
	})
}

// A look takes as long as the answer that told a turn vaguely.
func TestAVaguelyToldTurnIsLookedForOnce(t *testing.T) {
	inBubble(t, time.Minute, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		require.NoError(t, wait(t.Context(), l, forever(0)))
		time.Sleep(2 * second) // so that the news are old
		q.nowTakes(100 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(50 * time.Second)
		q.mu.Lock()
		assert.Equal(t, 1, q.looks)
		q.mu.Unlock()
		<-out
	})
}

// Ten microseconds of a slow clock last as long as a thousand.
func TestASlotOfASlowClockPassedLongerAgo(t *testing.T) {
	slow := []engine.Stretch{{Until: 2000, Pace: 100_000_000}}
	n := &engine.News{Server: 5000, Clock: 1000, Slow: slow}
	assert.Equal(t, time.Millisecond, n.Passed(990))
	assert.EqualValues(t, 4000, n.Comes(990))
	assert.EqualValues(t, 6000, n.Comes(1010))
	assert.Zero(t, n.Passed(1010))
}

// The queue's clock was slow until a second after the slot. When the process
// goes on, the clock is slow no more, and does not tell for how long it was.
func TestASlowClockThatIsOverHidesNoMissedTurn(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, _ *queue, l *Sleepers) {
		start := time.Now()
		slow := []engine.Stretch{{Until: 100_000, Pace: 100_000_000}} // up to 10 s from now
		news := func() *engine.News {
			after := time.Since(start).Microseconds()
			n := &engine.News{Asked: time.Now(), Arrived: time.Now(), Queue: "a", Server: start.UnixMicro() + after}
			if n.Clock, n.Slow, n.Late = after/100, slow, after%100; n.Clock >= 100_000 {
				n.Clock, n.Slow, n.Late = after-10_000_000+100_000, nil, 0
			}
			return n
		}
		told := news()
		l.Hear(told)
		slot := engine.Grant{ID: "a", At: 90_000, N: 1}
		r := forever(0)
		r.Ctx, r.Reply = t.Context(), coalesce.Reply{
			Answer: &engine.Answer{Granted: true, Wait: told.Until(slot.At), Comes: told.Comes(slot.At), Grant: slot},
			Asked:  told.Asked, Arrived: told.Arrived,
		}
		l.Look = func(context.Context) error {
			time.Sleep(time.Until(start.Add(10*second + 5*time.Millisecond)))
			l.Hear(news())
			return nil
		}
		l.woke = func() {
			if time.Since(start) >= 9*second { // it stands still
				time.Sleep(time.Until(start.Add(10*second + 6*time.Millisecond)))
			}
		}
		var missed time.Duration
		l.Missed = func(_ int, lateness time.Duration) { missed = lateness }
		again, err := l.Sleep(NewSleeper(r))
		require.NoError(t, err)
		assert.True(t, again)
		assert.Equal(t, second+6*time.Millisecond, missed)
	})
}

// Answers take longer from now on, by more than anybody may be late.
func TestALimiterIsUsedToAnswersThatTakeLonger(t *testing.T) {
	inBubble(t, time.Minute, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(2 * time.Millisecond)
		for range 8 {
			require.NoError(t, wait(t.Context(), l, forever(0)))
		}
		time.Sleep(time.Minute)
		q.nowTakes(32 * time.Millisecond)
		out := callers(t.Context(), l, 20, forever)
		for range 20 {
			require.NoError(t, (<-out).err)
		}
		assert.LessOrEqual(t, len(q.givenBack()), 8, "one for each answer that may be compared with a quick one")
		assert.LessOrEqual(t, q.looks, 50)
	})
}

func TestAnAnswerThatManyHaveInCommonIsOneAnswer(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(2 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.nowTakes(300 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		out := callers(ctx, l, 20, forever) // one question of the first, and one of the others
		time.Sleep(700 * time.Millisecond)
		l.mu.Lock()
		assert.Len(t, l.sleepers, 20)
		assert.Equal(t, 2*time.Millisecond, l.recent.quickest)
		l.mu.Unlock()
		cancel()
		for range 20 {
			<-out
		}
		time.Sleep(10 * second)
	})
}

// The server's clock stands still for a while, as that of a machine does that
// is moved. What tells of it takes longer than the answer before it.
func TestATurnComesLaterIfTheServerStoodStill(t *testing.T) {
	inBubble(t, 1100*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		q.leaps(-300 * time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		assert.InDelta(t, 1400, (<-out).at.Milliseconds(), 2)
	})
}

// A narrower quota puts a turn off by less than answers take. So it does with every
// turn behind it.
func TestATurnIsSlowedByLessThanAnswersTake(t *testing.T) {
	inBubble(t, 2*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(100 * time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		q.nowSlow([]engine.Stretch{{Until: (10 * second).Microseconds(), Pace: 1_050_000}})
		assert.Greater(t, (<-out).at, 2100*time.Millisecond)
	})
}

// An answer tells vaguely when a turn comes, which is within X of its question.
func TestAVaguelyToldTurnIsLookedForBeforeItCanCome(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		require.NoError(t, wait(t.Context(), l, forever(0)))
		time.Sleep(50 * time.Millisecond)
		q.slow(500 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		assert.InDelta(t, 1000, time.Since(start).Milliseconds(), 1)
		assert.Empty(t, q.givenBack())
		assert.LessOrEqual(t, q.looks, 2)
	})
}

// Other news came shortly before the answer, to a question that was asked
// later. They may be of before the turn was granted.
func TestAVaguelyToldTurnIsLookedForAfterItsAnswer(t *testing.T) {
	inBubble(t, 4*second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.slow(3500 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(3450 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		require.NoError(t, (<-out).err)
		assert.Equal(t, 4*second, time.Since(start))
		assert.Empty(t, q.givenBack())
	})
}

// The question was on its way for as long as the answer. The look tells that
// the turn comes before it was told to, but after its answer.
func TestALookForAVaguelyToldTurnWakesItsCaller(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		require.NoError(t, wait(t.Context(), l, forever(0)))
		time.Sleep(50 * time.Millisecond)
		q.nowTakes(800 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(500 * time.Millisecond)
		q.nowTakes(2 * time.Millisecond)
		require.NoError(t, (<-out).err)
		assert.InDelta(t, 1000, time.Since(start).Milliseconds(), 1)
		assert.Empty(t, q.givenBack())
	})
}

// All answers take long, longer than others did once.
func TestLooksForVaguelyToldTurnsAreFew(t *testing.T) {
	inBubble(t, 100*time.Millisecond, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		require.NoError(t, wait(t.Context(), l, forever(0)))
		start := time.Now()
		q.nowTakes(300 * time.Millisecond)
		for range 20 {
			out := callers(t.Context(), l, 5, forever)
			for range 5 {
				<-out // most miss their turns
			}
		}
		assert.LessOrEqual(t, q.looks, int(time.Since(start)*4/3/second)+1)
	})
}

// A look has just begun when an answer tells a turn vaguely. So there is no
// other, but the answer of somebody else tells it better.
func TestAVaguelyToldTurnIsToldByTheNewsOfOthers(t *testing.T) {
	inBubble(t, 20*time.Millisecond, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(2 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.last = 580 * time.Millisecond
		q.slow(300 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(200 * time.Millisecond)
		beginsLook(t, l)
		time.Sleep(300 * time.Millisecond)
		asksNow(t, l, engine.Forever)
		assert.InDelta(t, 600, (<-out).at.Milliseconds(), 3)
		assert.Empty(t, q.givenBack())
	})
}
