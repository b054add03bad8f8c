package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

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
			require.True(t, last(t, news).Lost)
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
