package turns

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standsOverALook has the process stand still from a moment to another, when a
// caller whose turn is due at 10 s is to look at 9.75 s. Something was done to
// the queue at 5 s. It returns what became of the caller.
func standsOverALook(t *testing.T, q *queue, lateness time.Duration, done func(), from, to time.Duration) went {
	t.Helper()
	start := time.Now()
	l, stall := q.stalls(lateness)
	out := callers(t.Context(), l, 2, forever)
	require.NoError(t, (<-out).err)
	time.Sleep(5*second - time.Since(start))
	done()
	time.Sleep(from - time.Since(start))
	stall(to - from)
	return <-out
}

// beginsLook lets a look go for nobody.
func beginsLook(t *testing.T, l *Sleepers) {
	t.Helper()
	caller := NewSleeper(forever(0))
	caller.request.Ctx = t.Context()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginLook(caller, time.Now())
}

// The process stands still over the moment at which a caller is to look. So the
// look comes late, or after the slot, or its answer is not read in time.
func TestAProcessThatStoodStillHearsBeforeItGoes(t *testing.T) {
	for name, test := range map[string]struct{ lateness, from, to, takes, stays time.Duration }{
		"past the slot":           {0, 9700, 10100, 0, 0},
		"past it, with a guard":   {500, 9700, 10100, 20, 0},
		"nearly for the guard":    {500, 9700, 10450, 20, 0},
		"until just before":       {0, 9700, 9999, 20, 0},
		"shortly before, a guard": {30, 9700, 10002, 20, 0},  // the slot is at 10.02 s as it was told
		"during the look":         {0, 9780, 10100, 20, 320}, // the answer is read at 10.11 s
		"for ten times X":         {0, 9700, 20000, 20, 0},
		"after the look":          {0, 9900, 11000, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(t *testing.T, done func(*queue), is func(q *queue, w went)) {
				synctest.Test(t, func(t *testing.T) {
					q := newQueue(10 * second)
					q.nowTakes(test.takes * time.Millisecond)
					w := standsOverALook(t, q, test.lateness*time.Millisecond, func() {
						done(q)
						q.slow(test.stays * time.Millisecond)
					}, test.from*time.Millisecond, test.to*time.Millisecond)
					require.NoError(t, w.err)
					is(q, w)
				})
			}
			run(t, func(q *queue) { q.pause(30 * second) }, func(q *queue, w went) {
				assert.GreaterOrEqual(t, w.at, 40*second, "it goes in a pause")
				assert.LessOrEqual(t, q.looks, 2)
			})
			run(t, func(q *queue) { require.NoError(t, q.Reset(t.Context())) }, func(q *queue, _ went) {
				assert.Equal(t, 3, q.takeCount, "its turn is void, and it lines up again")
				assert.LessOrEqual(t, q.looks, 2)
			})
		})
	}
}

// The process stands still when the caller is to look, so the look goes late.
// Its answer comes at once, but is not read: the process stands still again,
// past the slot at 10 s.
func TestTheAnswerToALateLookIsRead(t *testing.T) {
	for name, test := range map[string]struct{ lateness, goes, read time.Duration }{
		"no guard":              {0, 9780, 10045},
		"a look in time":        {50, 9750, 10045},
		"a little late":         {50, 9780, 10020},
		"later":                 {50, 9780, 10045},
		"with little time left": {50, 9950, 10045},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, start := newQueue(10*second), time.Now()
				l, stall := q.stalls(test.lateness * time.Millisecond)
				sleepUntil := func(at time.Duration) { time.Sleep(at - time.Since(start)) }
				out := callers(t.Context(), l, 2, forever)
				require.NoError(t, (<-out).err)
				sleepUntil(5 * second)
				q.pause(30 * second)
				goes, read := test.goes*time.Millisecond, test.read*time.Millisecond
				q.slow(read + time.Millisecond - goes)
				sleepUntil(9700 * time.Millisecond)
				stall(goes - time.Since(start))
				sleepUntil(goes + 10*time.Millisecond)
				stall(read - time.Since(start))
				w := <-out
				require.NoError(t, w.err)
				assert.GreaterOrEqual(t, w.at, 40*second, "it goes in a pause")
				time.Sleep(second) // the look has ended
			})
		})
	}
}

// Redis does not say what a caller wants to hear that woke late.
func TestASilentRedisHoldsNobodyForLongWhoWokeLate(t *testing.T) {
	for name, test := range map[string]struct{ lateness, to, want time.Duration }{
		"no guard":              {0, 10100, 10350},
		"a wide guard":          {500, 10100, 10350},
		"a guard below X/2":     {200, 10050, 10150},
		"just before its slot":  {0, 9999, 10249},
		"the same with a guard": {20, 9999, 10009},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(10 * second)
				q.silent = true
				w := standsOverALook(t, q, test.lateness*time.Millisecond, func() {},
					9700*time.Millisecond, test.to*time.Millisecond)
				require.NoError(t, w.err)
				assert.InDelta(t, float64(test.want*time.Millisecond), float64(w.at), float64(2*time.Millisecond))
				assert.Empty(t, q.givenBack(), "a turn that was granted is a turn")
				assert.Equal(t, 1, q.looks)
				time.Sleep(10 * second) // the look ends by itself
			})
		})
	}
}

func TestARedisThatRefusesHoldsNobodyWhoWokeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10 * second)
		q.refuses = true
		w := standsOverALook(t, q, 0, func() {}, 9700*time.Millisecond, 10100*time.Millisecond)
		require.NoError(t, w.err)
		assert.Equal(t, 10100*time.Millisecond, w.at)
		synctest.Wait()
		assert.Equal(t, 1, q.looks)
	})
}

// TestARedisThatRefusedIsAskedAgainLongAfter has it refuse the look in time.
// Then the process stands still, and the answer is there when it goes on.
func TestARedisThatRefusedIsAskedAgainLongAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10 * second)
		q.refuses = true
		time.AfterFunc(9800*time.Millisecond, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.refuses = false
		})
		w := standsOverALook(t, q, 0, func() { q.pause(30 * second) }, 9900*time.Millisecond, 11*second)
		require.NoError(t, w.err)
		assert.Equal(t, 40*second, w.at)
	})
}

// There is not enough time left to ask a Redis that is slow, or silent.
func TestWhoeverHearsNothingInTimeMissesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10 * second)
		q.silent = true
		w := standsOverALook(t, q, 200*time.Millisecond, func() {}, 9700*time.Millisecond, 10150*time.Millisecond)
		require.NoError(t, w.err)
		assert.Equal(t, 20*second, w.at)
		assert.Len(t, q.givenBack(), 1)
		time.Sleep(10 * second) // the look ends by itself
	})
}

// An ordinary timer is late by some microseconds, and the news of a turn that
// was exactly X ahead is older than X by then.
func TestATimerThatIsLateByLittleIsNoReasonToLook(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		l.Taken = func(_ int, _ time.Duration, confirmed bool) { assert.True(t, confirmed) }
		l.woke = func() { time.Sleep(500 * time.Microsecond) }
		for range 10 {
			require.NoError(t, (<-callers(t.Context(), l, 1, forever)).err)
		}
		assert.Zero(t, q.looks)
	})
}

// Nobody stays beyond its ctx for news, and nobody goes on old news because its
// ctx has ended.
func TestACtxThatEndsBeforeTheNewsComesGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10 * second)
		q.silent = true
		l, stall := q.stalls(0)
		ctx, cancel := context.WithCancel(t.Context())
		out := callers(ctx, l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(9700 * time.Millisecond)
		stall(400 * time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		cancel()
		w := <-out
		require.ErrorIs(t, w.err, context.Canceled)
		assert.Equal(t, 10150*time.Millisecond, w.at)
		assert.Len(t, q.givenBack(), 1)
		assert.Empty(t, l.sleepers)
		time.Sleep(10 * second) // the look ends by itself
	})
}

// After a pause nobody goes without news. Redis is silent for longer than a caller
// waits for them, whether or not it may be late.
func TestWhoeverHearsNothingAfterAPauseMissesItsTurn(t *testing.T) {
	for _, lateness := range []time.Duration{0, 50 * time.Millisecond} {
		inBubble(t, 10*second, lateness, func(t *testing.T, q *queue, l *Sleepers) {
			out := callers(t.Context(), l, 2, forever)
			require.NoError(t, (<-out).err)
			require.NoError(t, l.Look(t.Context()))
			l.Hold(time.Now().Add(time.Millisecond))
			q.nowSilent(true)
			time.Sleep(16 * second)
			q.nowSilent(false)
			assert.Equal(t, 20*second, (<-out).at)
			assert.Len(t, q.givenBack(), 1)
		})
	}
}

// Looks take longer than X/4. A pause is over.
func TestALimiterThatIsFarAwayMissesNoTurnAfterAPause(t *testing.T) {
	for _, takes := range []time.Duration{250 * time.Millisecond, 300 * time.Millisecond, 480 * time.Millisecond} {
		inBubble(t, 2*second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
			q.nowTakes(takes)
			for range 5 {
				require.NoError(t, wait(t.Context(), l, forever(0)))
				l.Hold(time.Now().Add(time.Millisecond))
				time.Sleep(time.Millisecond)
			}
			assert.Empty(t, q.givenBack())
		})
	}
}

// The server's clock is set back. A limiter hears news all the time, though all of
// them take long.
func TestALimiterThatIsFarAwayHearsThatTurnsComeLater(t *testing.T) {
	inBubble(t, 3*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(600 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(second)
		q.mu.Lock()
		q.start = q.start.Add(400 * time.Millisecond)
		q.mu.Unlock()
		for range 40 {
			go func() { _ = l.Look(t.Context()) }()
			time.Sleep(50 * time.Millisecond)
		}
		assert.Equal(t, 3400*time.Millisecond, (<-out).at, "3.4 s after the first")
		time.Sleep(second) // the last looks end
	})
}

// Answers take longer by less than anybody may be late. No turn is far away.
func TestAnswersThatVaryByLittleAreNoReasonToLook(t *testing.T) {
	inBubble(t, 50*time.Millisecond, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(2 * time.Millisecond)
		var g sync.WaitGroup
		for i := range 100 {
			q.slow(time.Duration(i%20) * time.Millisecond)
			g.Go(func() { assert.NoError(t, wait(t.Context(), l, forever(0))) })
			time.Sleep(45 * time.Millisecond)
		}
		g.Wait()
		assert.Zero(t, q.looks)
		assert.Empty(t, q.givenBack())
	})
}

// No news are fresh, so that a caller that has heard of a pause never goes. But it
// does not wait for ever.
func TestALimiterWhoseAnswersTakeLongerThanXGivesUp(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(1200 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		l.Hold(time.Now().Add(time.Millisecond))
		time.Sleep(second)
		require.ErrorIs(t, wait(t.Context(), l, forever(0)), ErrMissed)
		time.Sleep(10 * second) // the last look ends
	})
}

// Other news tell a turn better than its own answer, which was late by less than
// anybody may be. A look takes half as long as it may.
func TestATurnThatIsToldBetterIsHeldByAPause(t *testing.T) {
	inBubble(t, 3*second, 200*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(124 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.slow(190 * time.Millisecond)
		out := callers(t.Context(), l, 1, forever)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, l.Look(t.Context()))
		q.pause(5 * second)
		assert.Greater(t, (<-out).at, 5*second)
	})
}

// Redis refuses the look of one caller, and answers again long before the turn
// of the next one.
func TestALookThatFailedSparesNoOther(t *testing.T) {
	inBubble(t, 700*time.Millisecond, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 4, forever)
		require.NoError(t, (<-out).err)
		q.pause(10 * second)
		q.nowRefuses(true)
		assert.Equal(t, 700*time.Millisecond, (<-out).at, "on news that are not old")
		time.Sleep(500 * time.Millisecond) // 1.2 s
		q.nowRefuses(false)
		assert.Equal(t, 1400*time.Millisecond, (<-out).at, "its look has failed")
		assert.Greater(t, (<-out).at, 10*second)
	})
}

// The look takes longer than turns are apart.
func TestOneLookIsEnoughForTurnsBehindOneAnother(t *testing.T) {
	inBubble(t, 50*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 30, forever)
		time.Sleep(100 * time.Millisecond)
		q.nowTakes(200 * time.Millisecond)
		inOrder(t, out, 30)
		assert.LessOrEqual(t, q.looks, 2)
	})
}

// News put off a turn whose caller insists on them after a pause. When it
// comes, Redis is silent again, but not for long.
func TestACallerInsistsAnewOnceItsTurnIsPutOff(t *testing.T) {
	inBubble(t, 10*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		l.Hold(time.Now().Add(time.Millisecond))
		q.nowSilent(true)
		time.Sleep(9 * second)
		q.pause(20 * second)
		time.Sleep(2 * second)
		q.nowSilent(false)
		require.NoError(t, l.Look(t.Context()))
		q.nowSilent(true)
		time.Sleep(22 * second)
		q.nowSilent(false)
		require.NoError(t, l.Look(t.Context()))
		assert.Equal(t, 33*second, (<-out).at)
		assert.Empty(t, q.givenBack())
		time.Sleep(10 * second) // the last look ends
	})
}

// A look without an answer ends when another is under way.
func TestALookThatEndsLateSaysNothingOfTheNewestOne(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowSilent(true)
		beginsLook(t, l)
		time.Sleep(4 * second)
		q.nowSilent(false)
		q.nowTakes(2 * second)
		beginsLook(t, l)
		for _, underWay := range []bool{true, false} {
			time.Sleep(1500 * time.Millisecond)
			l.mu.Lock()
			assert.Equal(t, underWay, l.lastLook.underWay)
			assert.False(t, l.lastLook.failed)
			l.mu.Unlock()
		}
	})
}
