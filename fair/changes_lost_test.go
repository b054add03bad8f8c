package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestUnitsThatBecomeNarrowerSlowLostTurns(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, how := range []string{"an older copy", "the keys are gone", "the keys are gone, then a look"} {
			t.Run(how, func(t *testing.T) {
				f, at := w.stored(t)
				writes(t, f, "10/1s; tokens 100/1s")
				var held []engine.Grant
				take4 := func() {
					for range 4 {
						held = append(held, take(t, f, amount(1, "tokens=100"))[0].Grant)
					}
				}
				take4()
				before := snap(t, f)
				take4()
				at(200 * time.Millisecond)
				switch how {
				case "an older copy":
					before.restore(t, f)
				default:
					require.NoError(t, w.rdb.Del(t.Context(), f.key, f.unitsKey(), f.quotaKey()).Err())
				}
				if how == "the keys are gone, then a look" {
					require.NoError(t, f.Look(t.Context()))
				}
				writes(t, f, "10/1s; tokens 100/10s")
				apart(t, dues(t, f, held)[1:], 10*time.Second, "tokens 100/10s")
			})
		}
	})
}

// A failover between a text that a person wrote and the first turn under it.
func TestLostTurnsAreThoseOfTheTextThatWasStored(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		set(t, f, "1/1.7s")
		queued(t, f, 1, 1)
		writes(t, f, "1/100ms")
		before := snap(t, f)
		held := queued(t, f, 4, 1)
		before.restore(t, f)
		dues(t, f, held)
		set(t, f, "1/5s")
		apart(t, dues(t, f, held), 5*time.Second, "1/5s")
	})
}

// The older state has a stretch up to the same slot.
func TestALostNarrowerQuotaGoesOn(t *testing.T) {
	w := realWorld(t)
	for _, wider := range []bool{false, true} {
		f, _ := w.stored(t)
		set(t, f, "1/1s")
		held := queued(t, f, 11, 1)
		if wider {
			set(t, f, "1/300ms") // there is a stretch from now on
		}
		before := snap(t, f)
		text := w.rdb.Get(t.Context(), f.quotaKey()).Val()
		set(t, f, "1/5s")
		told := dues(t, f, held)
		before.restore(t, f)
		writes(t, f, text)
		require.InDelta(t, told[1], dues(t, f, held)[1], float64(time.Second), "the second of 11; a stretch: %v", wider)
	}
}

// Lost turns stand in a stretch that had become shorter: a turn of it had gone
// back, and the older state does not know.
func TestTurnsAmongThoseOfAnOlderQuotaAreSlowed(t *testing.T) {
	w := realWorld(t)
	for _, looks := range []bool{false, true} {
		f, _ := w.stored(t)
		set(t, f, "1/5s")
		far := queued(t, f, 2, 1)[1]
		set(t, f, "1/300ms")
		before := snap(t, f)
		giveBack(t, f, far)
		held := queued(t, f, 2, 1)
		before.restore(t, f)
		if looks {
			require.NoError(t, f.Look(t.Context()))
		}
		set(t, f, "1/1.7s")
		apart(t, dues(t, f, held), 1700*time.Millisecond, fmt.Sprint("somebody looked between: ", looks))
	}
}

// Turns that are lost beside others of an older quota come back as those of theirs.
func TestALossJoinsNoStretches(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1/1s")
		held := queued(t, f, 20, 1)
		set(t, f, "1/1ms")
		held = append(held, queued(t, f, 1, 1)...)
		at(10 * time.Millisecond)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		writes(t, f, "1/1s")
		require.LessOrEqual(t, dues(t, f, held)[18], 2*time.Minute, "turn of 18 s")
	})
}

// withoutNews is what a limiter does that has not heard of a change.
var withoutNews = map[string]func(t *testing.T, f *fair, g engine.Grant){
	"looks":   func(t *testing.T, f *fair, _ engine.Grant) { require.NoError(t, f.Look(t.Context())) },
	"pauses":  func(t *testing.T, f *fair, _ engine.Grant) { pause(t, f, 2*time.Second) },
	"returns": func(t *testing.T, f *fair, g engine.Grant) { giveBack(t, f, g) },
	"settles": func(t *testing.T, f *fair, g engine.Grant) { settles(t, f, g, 1, "") },
}

func TestLostTurnsGoByTheNarrowerQuotaWhateverBringsThemBack(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, does := range withoutNews {
			for _, isKnown := range []bool{false, true} {
				f, at := w.stored(t)
				late := f.looksFor(t)
				writes(t, f, "1/100ms")
				queued(t, f, 1, 1)
				before := snap(t, f)
				held := queued(t, late, 20, 1)
				at(10 * time.Millisecond)
				before.restore(t, f)
				writes(t, f, "1/5s")
				if isKnown {
					status(t, f)
				}
				does(t, late, held[19])
				status(t, f)
				apart(t, dues(t, late, held[:19])[1:], 5*time.Second, fmt.Sprint(what, ", known: ", isKnown))
			}
		}
	})
}

func TestTurnsAreThoseOfTheQuotaTheyWereGrantedOnWhateverALimiterDoesThatKnowsAnOlderOne(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, does := range withoutNews {
			f, at := w.stored(t)
			late := f.looksFor(t)
			writes(t, f, "1/5s")
			own := queued(t, late, 2, 1)[1]
			writes(t, f, "1/100ms")
			held := queued(t, f, 10, 1)
			at(10 * time.Millisecond)
			does(t, late, own)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			status(t, f)
			status(t, late)
			writes(t, f, "1/5s")
			apart(t, dues(t, f, held), 5*time.Second, what)
		}
	})
}

// Lost turns stand behind the stretches that the older state has.
func TestLostTurnsKeepTheStretchesThatTheirLimiterKnows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		other := f.looksFor(t)
		set(t, f, "1/1s")
		queued(t, f, 2, 1)
		before := snap(t, f)
		queued(t, other, 30, 1)
		set(t, other, "1/100ms")
		held := queued(t, other, 10, 1)
		set(t, other, "1/1s")
		before.restore(t, f)
		set(t, f, "1/10ms")
		queued(t, f, 300, 1)
		set(t, f, "1/1s")
		apart(t, dues(t, other, held), time.Second, "1/1s")
	})
}

// Who asks first was told of the pause, the next one of a slower clock alone.
func TestALostPauseIsNotUndoneByWhoKnowsASlowerClock(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		second, third := f.looksFor(t), f.looksFor(t)
		set(t, f, "1/1s")
		held := queued(t, third, 12, 1)
		set(t, f, "1/3s")
		require.NoError(t, second.Look(t.Context()))
		pause(t, third, time.Second)
		giveBack(t, f, held[11])
		queued(t, f, 1, 1)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(100 * time.Millisecond)
		require.InDelta(t, 900*time.Millisecond, status(t, f).Paused, float64(time.Millisecond))
		require.NoError(t, second.Look(t.Context()))
		require.InDelta(t, 900*time.Millisecond, status(t, f).Paused, float64(time.Millisecond))
	})
}

// Others have begun a queue. Lost turns go as they were told, unless its clock
// is slow then: package turns lets them be missed.
func TestANarrowerQuotaSlowsTheQueueThatCountsLostTurns(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, before := range []bool{false, true} { // it is stored before they count again
			for _, count := range []int{1, 20} { // turns of the others
				f, at := w.stored(t)
				stranger := f.looksFor(t)
				set(t, f, "1/1s")
				held := queued(t, f, 5, 1)
				require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
				at(time.Millisecond)
				if before {
					writes(t, f, "1/3s")
				}
				queued(t, stranger, count, 1)
				told := hears(f)
				require.NoError(t, f.Look(t.Context()))
				if !before {
					require.Empty(t, last(t, told).Slow)
					set(t, stranger, "1/3s")
					require.NoError(t, f.Look(t.Context()))
				}
				n := last(t, told)
				require.NotEqual(t, held[0].ID, n.Queue)
				require.Greater(t, n.Until(n.SlowUntil()), 4*time.Second, "%v %d", before, count)
				require.GreaterOrEqual(t, wait(t, f), 7*time.Second-time.Millisecond)
			}
		}
	})
}

// A pause, or what else has no quotas to say, leaves the queue under those that it
// obeys. The others were stored by somebody who was cut off then.
func TestAPauseSaysNothingOfQuotasThatTheQueueDoesNotObey(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, asks := range map[string]func(f *fair, last engine.Grant){
			"a pause":      func(f *fair, _ engine.Grant) { pause(t, f, time.Millisecond) },
			"a return":     func(f *fair, last engine.Grant) { giveBack(t, f, last) },
			"a settlement": func(f *fair, last engine.Grant) { settles(t, f, last, 0, "") },
		} {
			f, at := w.stored(t)
			set(t, f, "1/1s")
			held := queued(t, f, 5, 1)
			writes(t, f, "1/10s")
			asks(f, held[4])
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
			at(10 * time.Millisecond)
			status(t, f)
			apart(t, dues(t, f, held[1:4]), 10*time.Second, what)

			f, at = w.stored(t)
			set(t, f, "1/1s")
			held = queued(t, f, 2, 1)
			writes(t, f, "1/1h")
			asks(f, held[1])
			at(3 * time.Second)
			require.NoError(t, w.rdb.Del(t.Context(), f.key).Err()) // it has ended
			require.Zero(t, wait(t, f), what)
		}
	})
}

// The queue alone is lost, and who counts calls only restores it. Units count
// for longer.
func TestAQueueLivesForAsLongAsWhoKnowsWasTold(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		calls, at := w.queue(t, quotas(t, "10/1s")...)
		knows := calls.joinsAs(t, calls.quotas, engine.Unit{Name: "tokens", Quotas: quotas(t, "100/1m")})
		require.True(t, take(t, knows, amount(1, "tokens=100"))[0].Granted)
		at(100 * time.Millisecond)
		queued(t, calls, 1, 1)
		require.NoError(t, w.rdb.Del(t.Context(), calls.key).Err())
		at(200 * time.Millisecond)
		queued(t, calls, 1, 1)
		require.False(t, take(t, knows, engine.Request{N: 1, Amounts: "tokens=1"})[0].Granted)
		require.Greater(t, w.ttl(t, calls.key), 59*time.Second)
	})
}
