package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Callers sleep, and nobody asks: they only look.
func TestAServerClockSetBackHoldsNobodyWhoOnlyLooks(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(testing.TB, *fair){
		"set back":                  func(testing.TB, *fair) {},
		"another server takes over": moves,
	} {
		t.Run(what, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				for _, back := range []time.Duration{10 * time.Second, time.Hour} {
					f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
					news := hears(f)
					held := queued(t, f, 6, 1)
					change(t, f)
					for now := 600 * time.Millisecond; now < 6*time.Second; now += 250 * time.Millisecond {
						at(now - back)
						if tail := inspected(t, f).Tail; now == 600*time.Millisecond {
							require.Equal(t, 5*time.Second, tail, "nobody has looked since the state was written")
						}
						require.NoError(t, f.Look(t.Context()))
						n := last(t, news)
						for i, g := range held {
							comes := time.Duration(i)*time.Second + 600*time.Millisecond
							require.Equal(t, max(0, comes-now), n.Until(g.At), "turn %d, %v after the first", i, now)
						}
					}
				}
			})
		})
	}
}

// Who leaves at the tail of a slow queue lets it run again sooner. Limiters that
// were told when the tail comes do not take that for a loss.
func TestAReturnInASlowQueueIsNoLoss(t *testing.T) {
	w := realWorld(t)
	for _, canceller := range []string{"itself", "other"} {
		t.Run(canceller, func(t *testing.T) {
			f, _ := w.stored(t)
			set(t, f, "1/1s")
			other := f.looksFor(t)
			held := queued(t, f, 15, 1)
			set(t, f, "1/10s")
			dues(t, f, held)
			if canceller == "itself" {
				giveBack(t, f, held[3:]...)
			} else {
				giveBack(t, other, held[3:]...)
			}
			a := take(t, other, engine.Request{N: 1, MaxWait: engine.Forever})[0]
			require.LessOrEqual(t, a.Wait, 30*time.Second)
			dues(t, f, nil) // anybody else who was told looks
			require.InDelta(t, a.Wait, dues(t, other, []engine.Grant{a.Grant})[0], float64(time.Millisecond),
				"the turn comes when it was told to")
		})
	}
}

// The clock is set back, and somebody resets. What limiters were told before, at
// a later time of the server, is forgotten all the same.
func TestAResetAfterTheClockWasSetBackForgetsAll(t *testing.T) {
	w := realWorld(t)
	for _, what := range []string{"turns", "pause"} {
		t.Run(what, func(t *testing.T) {
			f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
			operator, third := f.joins(t, f.quotas...), f.joins(t, f.quotas...)
			if what == "turns" {
				queued(t, f, 10, 1)
			} else {
				pause(t, f, 5*time.Minute)
			}
			at(-time.Hour)
			require.NoError(t, operator.Reset(t.Context()))
			require.Zero(t, queuedWait(t, third), "the queue is idle")
			require.NoError(t, f.Look(t.Context()))
			require.LessOrEqual(t, queuedWait(t, third), 2*time.Minute, "nothing but one turn was granted since the reset")
		})
	}
}

// The key is lost, and the quota becomes narrower and wide again. The permits of
// the wide one were lost, and as many count.
func TestLostTurnsCountThoughQuotasChangeAndChangeBack(t *testing.T) {
	w := realWorld(t)
	f, _ := w.stored(t)
	set(t, f, "3/3s")
	queued(t, f, 3, 1)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	set(t, f, "1/2s")
	set(t, f, "3/3s")
	a := take(t, f, engine.Request{N: 1, MaxWait: engine.Forever})[0]
	require.GreaterOrEqual(t, a.Wait, 2999*time.Millisecond, "three have just gone")
}

// The clock is set back and the key is lost. The turns that a limiter knows of
// have gone. So nobody waits for them on the clock of the new queue.
func TestALossAfterTheClockWasSetBackHoldsUpNobody(t *testing.T) {
	w := realWorld(t)
	for _, strangerFirst := range []bool{false, true} {
		t.Run(map[bool]string{false: "told first", true: "stranger first"}[strangerFirst], func(t *testing.T) {
			f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
			stranger := f.joins(t, f.quotas...)
			queued(t, f, 1, 1)
			at(-time.Hour)
			require.NoError(t, f.client.Del(t.Context(), f.key).Err())
			if strangerFirst {
				queued(t, stranger, 1, 1)
			}
			require.Less(t, queuedWait(t, f), 3*time.Minute)
		})
	}
}

// The server's clock leaps ahead for a moment, and is set right again. The queue's
// clock carries on. A limiter that was told of it before does not take that for
// the loss of a pause.
func TestAClockThatLeapsAheadAndBackHoldsNobodyUp(t *testing.T) {
	w := realWorld(t)
	f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
	other := f.joins(t, f.quotas...)
	queued(t, f, 1, 1)
	at(time.Second + time.Hour)
	held := queued(t, other, 2, 1)
	at(2 * time.Second)
	require.NoError(t, f.Look(t.Context())) // passes if other looks before f, as the queue is plain again then
	require.Less(t, dues(t, other, held)[1], time.Minute+3*time.Second, "nothing was lost")
}

// A limiter hears of a reset. If the server then loses all, that of the reset as
// well, the turns stay forgotten.
func TestWhatWasResetStaysForgottenWhenTheResetIsLost(t *testing.T) {
	w := realWorld(t)
	f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
	operator := f.joins(t, f.quotas...)
	queued(t, f, 3, 1)
	require.NoError(t, operator.Reset(t.Context()))
	require.NoError(t, f.Look(t.Context()))
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	require.Zero(t, queuedWait(t, f))
}

// A queue is lost and goes on. One limiter knows its turns from before only, and
// these have gone. Then the quota becomes narrower. That is no further loss.
func TestALossThatCountsAlreadyDoesNotCountAgainOnASlowClock(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	set(t, f, "1/1s")
	queued(t, f, 3, 1)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	status(t, f)
	other := f.looksFor(t)
	held := queued(t, other, 5, 1)
	at(2500 * time.Millisecond)
	set(t, other, "1/4s")
	told := dues(t, other, held)
	require.Equal(t, 18*time.Second, told[4])
	require.Equal(t, told, dues(t, f, held))
	giveBack(t, other, held...)
	require.Less(t, queuedWait(t, other), 4*time.Second, "held turns can be given back")
}

// The clock was slow for two reasons, one after the other, and both are over. The
// queue is lost, and its successor has a narrower quota.
func TestALossAfterTheClockWasSlowLeavesAStateThatCanBeRead(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	for _, text := range []string{"1/1s", "1/2s", "1/4s"} {
		set(t, f, text)
		queued(t, f, 3, 1)
	}
	at(21 * time.Second)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	set(t, f, "1/8s")
	status(t, f)
}

// Whatever a limiter asks a queue that follows a reset, it hears of that: the
// answer that told it first may have been overtaken.
func TestEachAnswerTellsThatTheQueueWasReset(t *testing.T) {
	w := realWorld(t)
	f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
	queued(t, f, 3, 1)
	require.NoError(t, f.joins(t, f.quotas...).Reset(t.Context()))
	news := hears(f)
	for range 3 {
		queued(t, f, 1, 1)
		require.True(t, last(t, news).Reset)
		require.NoError(t, f.Look(t.Context()))
		require.True(t, last(t, news).Reset)
	}
}

// The server's clock is set back between two resets, and all is lost. A limiter
// that knows of the former hears of the latter nevertheless.
func TestAResetThatEndsSoonerThanTheOneBeforeIsOne(t *testing.T) {
	w := realWorld(t)
	f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
	other := f.joins(t, f.quotas...)
	queued(t, f, 1, 1)
	require.NoError(t, other.Reset(t.Context()))
	require.NoError(t, f.Look(t.Context()))
	at(time.Second)
	queued(t, f, 3, 1)
	at(-time.Hour)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	require.NoError(t, other.Reset(t.Context()))
	require.NoError(t, f.Look(t.Context()))
	require.Zero(t, queuedWait(t, other))
}

// The quota became wider, and a failover takes that back. The turns of the wide
// one were lost, and go as the narrow one allows.
func TestLostTurnsGoAsTheQuotaAllowsThatAFailoverBringsBack(t *testing.T) {
	w := realWorld(t)
	f, _ := w.stored(t)
	set(t, f, "1/7s")
	queued(t, f, 2, 1)
	before := snap(t, f)
	set(t, f, "1/1s")
	held := queued(t, f, 3, 1)
	before.restore(t, f)
	require.NoError(t, f.client.Set(t.Context(), f.quotaKey(), "1/7s", 0).Err())
	all := dues(t, f, held)
	require.GreaterOrEqual(t, all[1]-all[0], 7*time.Second)
	require.GreaterOrEqual(t, all[2]-all[1], 7*time.Second)
	require.Less(t, all[2], 80*time.Second)
}

// A quota became narrower, and a failover takes that back, to a state whose clock
// has passed all turns. They come as they were told to nevertheless.
func TestLostTurnsStaySlowThoughTheOlderClockHasPassedThem(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	set(t, f, "1/1s")
	queued(t, f, 2, 1)
	before := snap(t, f)
	held := queued(t, f, 6, 1)
	set(t, f, "1/3s")
	told := dues(t, f, held)
	at(10 * time.Second)
	before.left = time.Hour
	before.restore(t, f)
	for i, due := range dues(t, f, held) {
		if due > 0 {
			require.InDelta(t, told[i]-10*time.Second, due, float64(10*time.Microsecond))
		}
	}
}

// Others leave a slow queue, so that a turn comes sooner than its limiter was
// told, and the queue ends. That limiter does not take it for a lost one.
func TestASlowQueueThatEndedSoonerIsNotLost(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	set(t, f, "1/1s")
	other := f.looksFor(t)
	held := append(queued(t, other, 15, 1), queued(t, f, 1, 1)...)
	set(t, f, "1/10s")
	dues(t, f, held)
	giveBack(t, other, held...)
	dues(t, f, nil)
	at(30 * time.Second)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err(), "it has expired")
	require.Zero(t, wait(t, f))
}

// A queue is lost after a pause, and a stranger begins another one, whose clock
// is ahead. Lost turns that are held go by that clock: a narrower quota slows
// them too.
func TestANarrowerQuotaSlowsLostTurnsOnTheClockOfOthers(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	stranger := f.looksFor(t)
	set(t, f, "1/1s")
	pause(t, f, 10*time.Second)
	at(10 * time.Second)
	held := queued(t, f, 5, 1)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	queued(t, stranger, 1, 1)
	news := hears(f)
	require.NoError(t, f.Look(t.Context()))
	n := last(t, news)
	for i := range held {
		require.InDelta(t, time.Duration(i)*time.Second, n.Until(held[i].At+n.Moves), float64(time.Millisecond))
		held[i].At += n.Moves
	}
	set(t, stranger, "1/3s")
	for i, due := range dues(t, f, held) {
		require.InDelta(t, 3*time.Duration(i)*time.Second, due, float64(time.Millisecond))
	}
}
