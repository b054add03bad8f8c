package turns

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/batch"
)

// stalls is a line whose process can stand still: whoever wakes meanwhile goes
// on when it does.
func (q *queue) stalls(lateness time.Duration) (l *Line, stall func(time.Duration)) {
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

func TestATurnThatIsMissedByLittleIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l, stall := q.stalls(50 * time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		stall(1040 * time.Millisecond)
		w := <-out
		require.NoError(t, w.err)
		assert.Equal(t, 1040*time.Millisecond, w.at)
	})
}

func TestAMissedTurnMayComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l, stall := q.stalls(50 * time.Millisecond)
		start := time.Now()
		out := callers(t.Context(), l, 4, func(who int) batch.Request {
			r := batch.Request{N: 1, MaxWait: engine.Forever}
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

func TestCallersForOtherPermitsKeepTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l, stall := q.stalls(50 * time.Millisecond)
		out := callers(t.Context(), l, 3, func(who int) batch.Request {
			return batch.Request{N: 1 + who%2, MaxWait: engine.Forever} // turns at 0, 2 and 3
		})
		require.NoError(t, (<-out).err)
		stall(2500 * time.Millisecond)
		w := <-out
		assert.Equal(t, went{2, 3 * second, nil}, w)
		w = <-out
		assert.Equal(t, went{1, 5 * second, nil}, w, "it lined up again")
	})
}

// The first of one flow missed its turn and has not woken yet. A caller of
// another flow cannot take that turn's place, so it goes on time.
func TestAMissedTurnHoldsUpNoOtherFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l := q.line(second, 50*time.Millisecond)
		var stuck atomic.Bool
		l.woke = func() {
			if stuck.CompareAndSwap(false, true) {
				time.Sleep(10 * second) // the first to wake
			}
			time.Sleep(time.Millisecond)
		}
		flows := []*batch.Flow{batch.NewFlow("x", 1, 8), batch.NewFlow("a", 1, 8), batch.NewFlow("b", 1, 8)}
		out := callers(t.Context(), l, len(flows), func(who int) batch.Request {
			return batch.Request{N: 1, MaxWait: engine.Forever, Flow: flows[who]}
		})
		require.NoError(t, (<-out).err)
		assert.Equal(t, went{2, 2001 * time.Millisecond, nil}, <-out)
		w := <-out
		require.NoError(t, w.err)
		assert.Greater(t, w.at, 11*second, "it lined up again")
	})
}

// A machine that is late every time neither goes late nor hangs for ever.
func TestAMachineThatIsAlwaysLateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l := q.line(second, 5*time.Millisecond)
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

func TestAMachineWhoseTimersAreLateWakesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l := q.line(second, 5*time.Millisecond)
		l.woke = func() { time.Sleep(16 * time.Millisecond) }
		out := callers(t.Context(), l, 10, forever)
		late := 0
		for range 10 {
			w := <-out
			require.NoError(t, w.err)
			late = max(late, int(w.at%second/time.Millisecond))
		}
		assert.LessOrEqual(t, late, 5)
	})
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

// The process stands still while a look is on its way, and past some turns. What
// the look says then is old; what the next says is that these turns have passed.
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

// TestATurnThatChangesHandsIsNotToldToBeLater has a caller line up again, and
// take the turn of a younger one that has not woken yet to hear that it comes
// sooner.
func TestATurnThatChangesHandsIsNotToldToBeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l := q.line(second, 0)
		start := time.Now()
		granted := func(at time.Duration) engine.Grant { return engine.Grant{ID: "0", At: at.Microseconds(), N: 1} }
		younger := NewSleeper(t.Context(), forever(1), time.Time{})
		younger.first = granted(30 * second)
		younger.turn = turn{grant: younger.first, due: start.Add(30 * second), asked: start}
		l.join(younger)
		time.Sleep(second)
		q.start = q.start.Add(-24 * second)
		require.NoError(t, l.Look(t.Context()))
		l.change()
		l.sooner = l.epoch

		older := NewSleeper(t.Context(), forever(0), time.Time{})
		older.first = granted(20 * second)
		now := time.Now()
		reply := batch.Reply{Answer: &engine.Answer{Granted: true, Grant: granted(40 * second)}, Asked: now, Arrived: now}
		reply.Wait = 15 * second
		place, err := l.Sleep(older, reply)
		require.NoError(t, err)
		require.Nil(t, place)
		assert.Equal(t, 6*second, time.Since(start), "the turn of 30 s comes five seconds after the news")
	})
}

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

// The process stands still over the moment at which a caller is to look. So the
// look comes late, or after the slot, or its answer is not read in time.
func TestAProcessThatStoodStillHearsBeforeItGoes(t *testing.T) {
	for name, test := range map[string]struct{ lateness, from, to, takes, stays time.Duration }{
		"past the slot":         {0, 9700, 10100, 0, 0},
		"past it, with a guard": {500, 9700, 10100, 20, 0},
		"nearly for the guard":  {500, 9700, 10450, 20, 0},
		"until just before":     {0, 9700, 9999, 20, 0},
		"during the look":       {0, 9780, 10100, 20, 320}, // the answer is read at 10.11 s
		"for ten times X":       {0, 9700, 20000, 20, 0},
		"after the look":        {0, 9900, 11000, 20, 0},
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

// The look for a later turn begins just before the turn of a caller for whom
// Redis was asked before.
func TestALookForALaterTurnHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(20 * time.Millisecond)
		q.silent = true
		l := q.line(second, 0)
		at := inOrder(t, callers(t.Context(), l, 4, func(who int) batch.Request {
			return batch.Request{N: []int{1, 500, 36, 11}[who], MaxWait: engine.Forever} // looks at 9.75 and 10.69 s
		}), 4)
		assert.Equal(t, []time.Duration{0, 10 * second, 10720 * time.Millisecond, 10940 * time.Millisecond}, at)
		time.Sleep(10 * second) // the looks end by themselves
		synctest.Wait()
		assert.Equal(t, 2, q.looks)
	})
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

// TestARedisThatRefusedIsAskedAgainLongAfter has it refuse the look in time. Then
// the process stands still, and the answer is there when it goes on.
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

// A silent Redis is not asked again for a turn that it was asked for, if the
// caller wakes a little late.
func TestASilentRedisIsAskedOnceForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(250 * time.Millisecond)
		q.silent = true
		l, stall := q.stalls(0)
		out := callers(t.Context(), l, 3, func(who int) batch.Request {
			return batch.Request{N: []int{1, 40, 3}[who], MaxWait: engine.Forever} // turns at 0, 10 and 10.75 s
		})
		inOrder(t, out, 2) // the look went at 9.75 s
		time.Sleep(700 * time.Millisecond)
		stall(70 * time.Millisecond)
		w := <-out
		require.NoError(t, w.err)
		assert.Less(t, w.at, 10800*time.Millisecond)
		time.Sleep(10 * second) // the look ends by itself
		synctest.Wait()
		assert.Equal(t, 1, q.looks)
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
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(second)
		l := q.line(second, 0)
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
