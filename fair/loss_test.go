package fair

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAQueueThatIsGoneCountsAsFullForWhoKnowsOfIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Second}, engine.Quota{Permits: 9, Per: 10 * time.Second})
		queued(t, f, 4, 1) // the last after a second
		at(100 * time.Millisecond)
		w.rdb.Del(t.Context(), f.key)
		require.False(t, take(t, f, engine.Request{N: 1, MaxWait: 10*time.Second + 899*time.Millisecond})[0].Granted)
		require.Equal(t, 10*time.Second+900*time.Millisecond, queuedWait(t, f), "ten seconds after the newest slot")
		require.Equal(t, 10*time.Second+900*time.Millisecond, queuedWait(t, f), "and from then on as ever")
	})
}

func TestAQueueThatEndedIsNotRestored(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	quota := engine.Quota{Permits: 1, Per: time.Minute}
	t.Run("its time was over", func(t *testing.T) {
		f, at := w.queue(t, quota)
		queued(t, f, 2, 1)
		at(2 * time.Minute)
		f.client.Del(t.Context(), f.key)
		status(t, f)
		require.Zero(t, f.client.Exists(t.Context(), f.key).Val())
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("its time was over on this process's clock, though not on the server's", func(t *testing.T) {
		f := build(t, w.rdb, engine.Quota{Permits: 1, Per: 50 * time.Millisecond})
		at := setClock(t, f)
		at(0)
		queued(t, f, 2, 1)
		time.Sleep(101 * time.Millisecond)
		at(-time.Hour)
		f.client.Del(t.Context(), f.key)
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("another gave everything back", func(t *testing.T) {
		f, at := w.queue(t, quota)
		other := f.joins(t, quota)
		grants := queued(t, f, 5, 1)
		ttl := w.ttl(t, f)
		for i := range grants {
			grants[i].Unused = true
		}
		giveBack(t, other, grants...)
		require.InDelta(t, ttl, w.ttl(t, f), float64(10*time.Millisecond), "giving back does not end the key sooner")
		require.True(t, take(t, other, engine.Request{N: 1})[0].Granted)
		at(time.Minute)
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
	})
	t.Run("another reset it", func(t *testing.T) {
		f, _ := w.queue(t, quota)
		other := f.joins(t, quota)
		old := queued(t, f, 5, 1)
		require.NoError(t, other.Reset(t.Context()))
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
		queued(t, f, 4, 1)
		giveBack(t, f, old...)
		require.Equal(t, 5*time.Minute, wait(t, f), "what was reset cannot be given back")

		queued(t, other, 5, 1)
		require.NoError(t, f.Reset(t.Context()))
		require.NoError(t, f.Reset(t.Context()))
		require.True(t, take(t, other, engine.Request{N: 1})[0].Granted)
	})
	t.Run("a stranger reset it when it was gone", func(t *testing.T) {
		f, _ := w.queue(t, quota)
		other, stranger := f.joins(t, quota), f.joins(t, quota)
		queued(t, f, 5, 1)
		queued(t, other, 5, 1)
		f.client.Del(t.Context(), f.key)
		require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
		require.NoError(t, stranger.Reset(t.Context()))
		require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
		require.Equal(t, time.Minute, wait(t, other))
	})
}

// What is missing may be others' permits, who keep another pace.
func TestWhatAnOlderStateLacksIsNotSpreadByThePaceOfWhoeverCallsNext(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second}, engine.Quota{Permits: 50, Per: time.Minute})
		b := a.joins(t, engine.Quota{Permits: 40, Per: time.Second})
		queued(t, a, 1, 1)
		before := snap(t, a)
		at(10 * time.Second)
		queued(t, b, 40, 1)
		granted := 40
		for s := 12; s < 70; s++ {
			at(time.Duration(s) * time.Second)
			if s == 20 {
				before.restore(t, a)
			}
			if take(t, a, engine.Request{N: 1})[0].Granted {
				granted++
			}
		}
		require.LessOrEqual(t, granted, 50, "in a minute")
	})
}

func TestAResetEndsAStateOfAnyAge(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	f, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, w.rdb.Do(t.Context(), "set", f.key, "x", "px", 9_000_000_000_000_000).Err())
	require.NoError(t, f.Reset(t.Context()))
	require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
}

// Others have begun a queue anew whose windows hold less.
func TestWhatWasLostCountsAsFullInTheWindowsOfWhoKnows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "100/1s")...)
		other := f.joins(t, quotas(t, "1/1m")...)
		queued(t, f, 1, 100)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		queued(t, other, 1, 1)
		at(500 * time.Millisecond)
		require.False(t, take(t, f, engine.Request{N: 1, MaxWait: 400 * time.Millisecond})[0].Granted)
	})
}

// The state is an older one of the same server.
func TestAReturnOfWhatTheStateDoesNotKnowFreesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "1/1s")...)
		slow, third := f.joins(t, quotas(t, "1/10s")...), f.joins(t, quotas(t, "1/1s")...)
		queued(t, f, 1, 1)
		before := w.rdb.Get(t.Context(), f.key).Val()
		lost := queued(t, f, 3, 1)
		require.NoError(t, w.rdb.Set(t.Context(), f.key, before, redis.KeepTTL).Err())
		queued(t, slow, 1, 1) // after 10 s
		giveBack(t, third, lost[1])
		require.Equal(t, 1, status(t, slow).Queued)
	})
}

// questions are those that restore what was lost, of a limiter that goes by
// 2/1m.
func questions(t testing.TB) map[string]func(f *fair) {
	return map[string]func(f *fair){
		"a turn":       func(f *fair) { take(t, f, engine.Request{N: 1, MaxWait: -time.Microsecond}) }, // refused
		"Status":       func(f *fair) { status(t, f) },
		"Look":         func(f *fair) { require.NoError(t, f.Look(t.Context())) },
		"Quotas":       func(f *fair) { _, _, err := f.Quotas(t.Context()); require.NoError(t, err) },
		"SetQuotas":    func(f *fair) { set(t, f, "2/1m") },
		"ForgetQuotas": func(f *fair) { require.NoError(t, f.SetQuotas(t.Context(), nil)) },
	}
}

// restorers are a limiter that goes by stored quotas and one that does not, each
// on a queue of its own.
func (w world) restorers(t testing.TB) map[string]*fair {
	stored, _ := w.stored(t, quotas(t, "2/1m")...)
	own, _ := w.queue(t, quotas(t, "2/1m")...)
	return map[string]*fair{"stored": stored, "own": own}
}

// asked calls f with each question, for a limiter of each kind.
func (w world) asked(t *testing.T, f func(t *testing.T, l *fair, ask func(*fair))) {
	for what, ask := range questions(t) {
		for kind, l := range w.restorers(t) {
			if kind == "stored" || what != "Quotas" { // else it asks nothing
				t.Run(what+", "+kind, func(t *testing.T) { f(t, l, ask) })
			}
		}
	}
}

func TestQuestionsRestoreAQueueThatIsGone(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		w.asked(t, func(t *testing.T, f *fair, ask func(*fair)) {
			news := hears(f)
			queued(t, f, 3, 1) // the last after a minute
			require.NoError(t, w.rdb.Del(t.Context(), f.key, f.quotaKey()).Err())
			ask(f)
			require.True(t, hearsOfALoss(*news))
			for _, stranger := range []*fair{f.joins(t, quotas(t, "2/1m")...), f.looksFor(t, quotas(t, "2/1m")...)} {
				require.False(t, take(t, stranger, engine.Request{N: 1, MaxWait: 2*time.Minute - 1})[0].Granted)
			}
			require.Equal(t, 2*time.Minute, queuedWait(t, f))
		})
	})
}

func TestQuestionsRestoreWhatAnOlderStateLacks(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		w.asked(t, func(t *testing.T, f *fair, ask func(*fair)) {
			queued(t, f, 1, 1)
			before := snap(t, f)
			queued(t, f, 1, 1)
			before.restore(t, f)
			ask(f)
			require.False(t, take(t, f.joins(t, quotas(t, "2/1m")...), engine.Request{N: 1})[0].Granted)
			require.Equal(t, time.Minute, queuedWait(t, f))
		})
	})
}

func TestQuestionsRestoreNothingThatWasReset(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		w.asked(t, func(t *testing.T, f *fair, ask func(*fair)) {
			stranger := f.joins(t, quotas(t, "2/1m")...)
			queued(t, f, 3, 1)
			require.NoError(t, stranger.Reset(t.Context()))
			ask(f)
			require.True(t, take(t, stranger, engine.Request{N: 2})[0].Granted, "by another")

			queued(t, f, 1, 1)
			require.NoError(t, f.Reset(t.Context()))
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			ask(f)
			require.Zero(t, w.rdb.Exists(t.Context(), f.key).Val(), "by itself, and then it was lost")
		})
	})
}

// A queue that is gone is restored as one of the quotas that held, so that its
// turns come as far apart as the new ones allow.
func TestSetQuotasRestoresWhatItThenNarrows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, lose := range map[string]func(f *fair){
			"kept": func(*fair) {},
			"lost": func(f *fair) { require.NoError(t, w.rdb.Del(t.Context(), f.key, f.quotaKey()).Err()) },
		} {
			f, _ := w.stored(t, quotas(t, "1/1s")...)
			news := hears(f)
			held := queued(t, f, 11, 1)
			lose(f)
			set(t, f, "1/4s")
			require.Equal(t, 40*time.Second, last(t, news).Until(held[10].At), "%s: ten seconds, four times as long", what)
			require.Equal(t, 44*time.Second, queuedWait(t, f.looksFor(t)), what)
		}
	})
}

// The quotas that hold from now on do not say how long others have to wait.
func TestSetQuotasRestoresForLimitersThatKeepTheirOwn(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for kind, f := range w.restorers(t) {
			queued(t, f, 2, 1)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			set(t, f, "5/1s")
			stranger := f.joins(t, quotas(t, "2/1m")...)
			require.False(t, take(t, stranger, engine.Request{N: 1, MaxWait: time.Minute - 1})[0].Granted, kind)
			require.Greater(t, w.ttl(t, f), 59*time.Second, "the key lives as long, %s", kind)
			require.Equal(t, time.Second, wait(t, f.looksFor(t)), kind)
		}
	})
}

// Who stores narrower quotas knows nothing of the turns that were lost. Who holds
// them does.
func TestLostTurnsComeAsFarApartAsQuotasThatWereStoredSince(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, ask := range map[string]func(f *fair){
			"Look":   func(f *fair) { require.NoError(t, f.Look(t.Context())) },
			"Status": func(f *fair) { status(t, f); require.NoError(t, f.Look(t.Context())) },
		} {
			f, at := w.stored(t, quotas(t, "1/1s")...)
			news := hears(f)
			held := queued(t, f, 10, 1)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			at(time.Second)
			set(t, f.looksFor(t), "1/5s")
			ask(f)
			require.Equal(t, 40*time.Second, last(t, news).Until(held[9].At), what)
			require.Equal(t, 45*time.Second, queuedWait(t, f), what)
		}
	})
}

// A queue whose clock is slow is behind the server's. What the limiter that knows
// restores goes on as slowly, and is not paused.
func TestASlowQueueThatWasLostGoesOnSlowly(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t, quotas(t, "1/1s")...)
		news := hears(f)
		held := queued(t, f, 21, 1)
		set(t, f, "1/5s")
		at(52500 * time.Millisecond)
		held = append(held, queued(t, f, 1, 1)...)
		before := comesAt(t, news, 52500*time.Millisecond, held[20])
		require.Equal(t, 100*time.Second, before)
		require.NoError(t, f.client.Del(t.Context(), f.key).Err())
		at(60 * time.Second)
		require.Zero(t, status(t, f).Paused)
		require.NoError(t, f.Look(t.Context()))
		require.InDelta(t, before, comesAt(t, news, 60*time.Second, held[20]), float64(time.Millisecond))
		require.InDelta(t, 65*time.Second, comesAt(t, hearsLook(t, f), 60*time.Second, held[13]), float64(time.Millisecond))
	})
}

// hearsLook is the news of one more look.
func hearsLook(t *testing.T, f *fair) *[]engine.News {
	news := hears(f)
	require.NoError(t, f.Look(t.Context()))
	return news
}

// The pause that was told last counts, even if the replies arrive the other way
// round.
func TestALongerPauseIsNotForgottenForAShorterOne(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		pause(t, f, 10*time.Second)
		early, told := f.memory.watermark, f.memory.news
		pause(t, f, time.Minute)
		f.memory.learn(early, told, f.quotaSet) // arrives late
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(time.Second)
		require.Equal(t, 59*time.Second, status(t, f).Paused)
	})
}

func TestAResetForgetsNothingThatWasGrantedAfterIt(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	f := build(t, rdb, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, f.Reset(t.Context()), "teaches the server the script")
	resets := true
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if resets && cmd.Name() == "evalsha" && err == nil { // answered, and the answer has not arrived
			resets = false
			queued(t, f, 2, 1)
		}
		return err
	}))
	require.NoError(t, f.Reset(t.Context()))
	require.NoError(t, rdb.Del(t.Context(), f.key).Err())
	require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
}

// The queue that a limiter knows has ended. Others begin one of their own, and
// the limiter hears of its clock. That makes its old turns no lost ones.
func TestAQueueThatHasEndedIsNotLostWhenANewOneIsSlow(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	other := f.looksFor(t)
	set(t, f, "1/100ms")
	queued(t, f, 1, 1)
	at(time.Minute)
	f.memory.news.Arrived = f.memory.news.Arrived.Add(-time.Minute)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	queued(t, other, 3, 1)
	news := hears(f)
	set(t, f, "1/2s")
	require.False(t, hearsOfALoss(*news))
	require.Equal(t, 6*time.Second, wait(t, f))
}

func hearsOfALoss(news []engine.News) bool {
	return slices.ContainsFunc(news, func(n engine.News) bool { return n.Lost })
}

// eitherFirst has two limiters look after a loss, each of them first once, and
// requires turns of both to be as far apart as the quota wants it.
func eitherFirst(t *testing.T, apart time.Duration, history func(*testing.T, world) (a, b *fair, held []engine.Grant)) {
	for first, swapped := range map[string]bool{"the one asks first": false, "the other asks first": true} {
		t.Run(first, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				a, b, held := history(t, w)
				if swapped {
					a, b = b, a
				}
				dues(t, a, nil)
				dues(t, b, nil)
				all := dues(t, a, held)
				require.Equal(t, all, dues(t, b, held), "both know the same")
				for i := range all[1:] {
					require.GreaterOrEqual(t, all[i+1]-all[i], apart, "turn %d", i+1)
				}
			})
		})
	}
}

// A pause is lost of which one limiter has not heard. Their turns stay as far
// apart as they were.
func TestALostPausePutsOffTheTurnsOfAll(t *testing.T) {
	t.Parallel()
	eitherFirst(t, time.Second, func(t *testing.T, w world) (a, b *fair, held []engine.Grant) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		b = a.joins(t, a.quotas...)
		for range 6 {
			held = append(append(held, queued(t, a, 1, 1)...), queued(t, b, 1, 1)...)
		}
		at(1200 * time.Millisecond)
		pause(t, a, 3*time.Second)
		at(1500 * time.Millisecond)
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		at(1600 * time.Millisecond)
		return a, b, slices.DeleteFunc(held, func(g engine.Grant) bool { return g.At < held[2].At })
	})
}

// The queue that is restored is the one that was lost: what is granted from then
// on comes behind all that any limiter knows of it.
func TestAQueueThatWasLostGoesOn(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		b := a.joins(t, a.quotas...)
		lost := queued(t, a, 5, 1)                 // up to 2 s
		lost = append(lost, queued(t, b, 3, 1)...) // up to 3 s
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		at(100 * time.Millisecond)
		next := queued(t, a, 1, 1)[0]
		require.Equal(t, lost[0].ID, next.ID)
		require.GreaterOrEqual(t, next.At, lost[4].At+time.Second.Microseconds())
		later := queued(t, b, 1, 1)[0]
		require.GreaterOrEqual(t, later.At, lost[7].At+time.Second.Microseconds())
		giveBack(t, a, lost...)
		giveBack(t, b, lost...)
		require.Equal(t, later.At, queued(t, b, 1, 1)[0].At, "what was lost frees nothing")
	})
}

// What was lost was granted under a quota that lets fewer go together than the
// one that holds now.
func TestWhatWasLostCountsInWindowsOfMorePermits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "1/100ms")...)
		lost := queued(t, f, 20, 1) // up to 1.9 s
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(50 * time.Millisecond)
		require.NoError(t, f.Look(t.Context()))
		next := queued(t, f.joins(t, quotas(t, "10/1s")...), 1, 1)[0]
		require.Equal(t, lost[19].At+time.Second.Microseconds(), next.At)
	})
}

// A reset is lost of which one limiter has not heard. Whoever asks first, turns
// that were reset count no more once the other has asked.
func TestALostResetStaysOne(t *testing.T) {
	for first, swapped := range map[string]bool{"who has reset": false, "who has not heard of it": true} {
		t.Run(first, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
				b := a.joins(t, a.quotas...)
				old := queued(t, b, 9, 1)
				queued(t, a, 1, 1)
				at(100 * time.Millisecond)
				require.NoError(t, a.Reset(t.Context()))
				at(150 * time.Millisecond)
				valid := queued(t, a, 9, 1)
				require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
				at(200 * time.Millisecond)
				order := []*fair{a, b}
				if swapped {
					order = []*fair{b, a, b}
				}
				ofA, ofB := hears(a), hears(b)
				for _, f := range order {
					require.NoError(t, f.Look(t.Context()))
				}
				heard := last(t, ofB)
				require.True(t, heard.Reset && heard.Queue != old[0].ID, "turns before the reset are void")
				heard = last(t, ofA)
				require.True(t, !heard.Reset || heard.Queue == valid[0].ID, "those after it are not")
				require.GreaterOrEqual(t, queuedWait(t, b), 8900*time.Millisecond, "and count")
			})
		})
	}
}

// Two losses in a row. The limiter that asks first after the second one was told
// of the queue before the first.
func TestWhatASecondLossTookCountsAgain(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		b, at := w.queue(t, quotas(t, "10/1m")...)
		c := b.joins(t, quotas(t, "10/1m")...)
		queued(t, b, 5, 1)
		queued(t, c, 1, 1)
		at(time.Second)
		require.NoError(t, w.rdb.Del(t.Context(), b.key).Err())
		queued(t, c, 10, 1) // after a minute
		at(2 * time.Second)
		require.NoError(t, w.rdb.Del(t.Context(), b.key).Err())
		for range 3 { // so that as many were granted as c was told
			giveBack(t, b, queued(t, b, 10, 1)...)
		}
		again := take(t, c, engine.Request{N: 10, MaxWait: 100 * time.Second})[0]
		require.False(t, again.Granted, "it holds ten of that minute")
	})
}

// The limiter that asks first knows all, but counts in windows that hold less.
func TestWhatWasLostCountsForWhoeverIsAllowedMore(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		more, at := w.queue(t, quotas(t, "100/1m")...)
		less := more.joins(t, quotas(t, "10/1m")...)
		queued(t, less, 1, 1)
		queued(t, more, 1, 99)
		at(time.Second)
		require.False(t, take(t, less, engine.Request{N: 1})[0].Granted)
		require.False(t, take(t, more, engine.Request{N: 1})[0].Granted)
		require.NoError(t, w.rdb.Del(t.Context(), more.key).Err())
		require.False(t, take(t, less, engine.Request{N: 1})[0].Granted)
		require.False(t, take(t, more, engine.Request{N: 90})[0].Granted, "it was told of 100 in this minute")
	})
}
