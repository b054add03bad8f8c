package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// writes stores a text as a person does.
func writes(t *testing.T, f *fair, text string) {
	require.NoError(t, f.client.Set(t.Context(), f.quotaKey(), text, 0).Err())
}

// apart requires that turns come so far apart.
func apart(t *testing.T, due []time.Duration, want time.Duration, what string) {
	t.Helper()
	for i := 1; i < len(due); i++ {
		require.GreaterOrEqual(t, due[i]-due[i-1]+100*time.Microsecond, want, "%s: turns %d and %d, of %v", what, i-1, i, due)
	}
}

// The caller before has the same windows, and those that a quota implies count
// again.
func TestWindowsThatTheQueueDoesNotHaveAreTaken(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		t.Run("stored", func(t *testing.T) {
			f, at := w.stored(t)
			set(t, f, "1/1h")
			queued(t, f, 1, 1)
			set(t, f, "1/100ms")
			require.NoError(t, f.SetQuotas(t.Context(), quotas(t, "10/1s burst 1")))
			at(time.Hour)
			status(t, f)
		})
		t.Run("own", func(t *testing.T) {
			f, _ := w.stored(t)
			set(t, f, "1/1h")
			queued(t, f, 1, 1)
			set(t, f, "1/100ms")
			queued(t, f.joins(t, quotas(t, "10/1s burst 1")...), 1, 1)
		})
	})
}

// The caller between has just the windows that bind.
func TestAnImpliedWindowCountsTurnsOfOthersWhoeverCameBetween(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, between := range []bool{false, true} {
			f, at := w.queue(t, quotas(t, "20/1s")...)
			same, caller := f.joins(t, quotas(t, "1/100ms")...), f.joins(t, quotas(t, "10/1s burst 1")...)
			queued(t, f, 20, 1) // at 0
			if between {
				queued(t, same, 1, 1)
			}
			at(time.Millisecond)
			require.GreaterOrEqual(t, queuedWait(t, caller), 999*time.Millisecond, "20 went; another between: %v", between)
		}
	})
}

// The caller between has a longer window of fewer permits.
func TestWhatWasForgottenCountsForEachLongerWindow(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, between := range []bool{false, true} {
			f, at := w.queue(t, quotas(t, "1/300ms")...)
			longer, caller := f.joins(t, quotas(t, "1/1.7s")...), f.joins(t, quotas(t, "3/1s")...)
			queued(t, f, 3, 1) // at 0, 300 and 600 ms
			at(900 * time.Millisecond)
			queued(t, f, 1, 1)
			if between {
				require.False(t, take(t, longer, engine.Request{N: 1})[0].Granted)
			}
			require.GreaterOrEqual(t, queuedWait(t, caller), 400*time.Millisecond, "3 went before; another between: %v", between)
		}
	})
}

// A longer Per is stored while the oldest slot that is kept is ahead. Then a
// turn comes back that was forgotten before.
func TestWhatWasForgottenFreesNoTurnOfAnother(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, c := range map[string]struct {
			before, after string // the quotas
			allows        int    // turns in ten seconds, after
			amounts       engine.Amounts
			paused        time.Duration
			returns       func(f *fair, forgotten engine.Grant)
		}{
			"missed, after a pause": {
				"1/1s; tokens 100/1m", "2/10s; tokens 100/1m", 2, "tokens=1", 2 * time.Second,
				func(f *fair, forgotten engine.Grant) { giveBack(t, f, unused(forgotten)) },
			},
			"missed, as the one behind it": {
				"1/1s; tokens 100/1m", "2/10s; tokens 100/1m", 2, "tokens=1", 0,
				func(f *fair, forgotten engine.Grant) { giveBack(t, f, unused(forgotten)) },
			},
			"settled": {
				"10/1m; tokens 9/1s", "10/1m; tokens 9/10s", 1, "tokens=9", 2 * time.Second,
				func(f *fair, forgotten engine.Grant) { settles(t, f, forgotten, 0, "tokens=9") },
			},
		} {
			t.Run(name, func(t *testing.T) {
				f, at := w.stored(t)
				writes(t, f, c.before)
				one := func() engine.Grant { return take(t, f, amount(1, c.amounts))[0].Grant }
				forgotten := one()
				at(1500 * time.Millisecond)
				var behind []engine.Grant
				if c.paused > 0 {
					pause(t, f, c.paused)
				} else {
					behind = append(behind, unused(one()))
				}
				held := []engine.Grant{one()}
				at(1600 * time.Millisecond)
				giveBack(t, f, behind...)
				writes(t, f, c.after)
				require.NoError(t, f.Look(t.Context()))
				was := dues(t, f, held)[0]
				c.returns(f, forgotten)
				held = append(held, one(), one())
				due := dues(t, f, held)
				require.GreaterOrEqual(t, due[0], was)
				require.GreaterOrEqual(t, due[1], was, "in order")
				require.GreaterOrEqual(t, due[c.allows]-was, 10*time.Second, "%v", due)
			})
		}
	})
}

func unused(g engine.Grant) engine.Grant {
	g.Unused = true
	return g
}

// What was forgotten went long ago, or was given back: it is not in line.
func TestWhatWasForgottenIsNeverAhead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		writes(t, f, "1/1s; tokens 10/1s")
		take(t, f, amount(1, "tokens=10"))
		queued(t, f, 5, 1)
		at(5 * time.Second)
		held := queued(t, f, 600, 1)
		held = append(held, take(t, f, amount(1, "tokens=1"))[0].Grant)
		writes(t, f, "1/1s; tokens 10/20s")
		require.NoError(t, f.Look(t.Context()))
		giveBack(t, f, held...)
		s := status(t, f)
		require.LessOrEqual(t, s.Delay, 20*time.Second)
		require.Zero(t, s.Units["tokens"].Queued)

		f, _ = w.stored(t)
		writes(t, f, "1/1s")
		pause(t, f, 10*time.Second)
		held = queued(t, f, 600, 1)
		giveBack(t, f, held[:500]...)
		writes(t, f, "1/2s")
		require.NoError(t, f.Look(t.Context()))
		giveBack(t, f, held[500:]...)
		require.LessOrEqual(t, status(t, f).Delay, 12*time.Second)

		f, at = w.stored(t)
		writes(t, f, "1/1s")
		queued(t, f, 5, 1)
		at(6 * time.Second)
		pause(t, f, 10*time.Second)
		held = queued(t, f, 2, 1) // the first at the label at which the clock stands
		writes(t, f, "1/30s")
		require.NoError(t, f.Look(t.Context()))
		giveBack(t, f, held...)
		require.Zero(t, status(t, f).Queued)
	})
}

func TestTurnsWithoutCallsAreSlowed(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		writes(t, f, "20/1s; tokens 10/1s")
		var held []engine.Grant
		for range 2 {
			held = append(held, take(t, f, amount(1, "tokens=10"))[0].Grant)
		}
		writes(t, f, "20/1s; tokens 10/100ms")
		for range 5 {
			held = append(held, take(t, f, amount(0, "tokens=10"))[0].Grant)
		}
		writes(t, f, "20/1s; tokens 10/10s")
		apart(t, dues(t, f, held), 10*time.Second, "tokens 10/10s")
	})
}

// A label of the clock lasts 3.6 s, and the quotas change each second.
func TestQuotasThatChangeWithinALabelLetTheClockGoOn(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1000/1s")
		held := queued(t, f, 2, 1000)
		set(t, f, "1/1h")
		told := dues(t, f, held)[1]
		for i := 1; i <= 3600; i++ {
			at(time.Duration(i) * time.Second)
			set(t, f, []string{"1/1h", "2/1h"}[i%2])
		}
		require.InDelta(t, told-time.Hour, dues(t, f, held)[1], float64(10*time.Minute), "an hour has passed")
	})
}

func TestAPauseOfASlowClockLetsNoTurnComeSooner(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1000/1s")
		held := queued(t, f, 2, 1000)
		set(t, f, "1/1h")
		told := dues(t, f, held)[1]
		for i := range 100 {
			at(time.Duration(2*i) * time.Second)
			pause(t, f, 2*time.Second)
		}
		require.GreaterOrEqual(t, 198*time.Second+dues(t, f, held)[1], told, "when it comes, from the beginning on")
	})
}

func TestStretchesOfWindowsThatAreFarApartCanBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		for i := range 40 {
			text := fmt.Sprintf("%d/1ms", 1_000_000-i)
			if i%2 == 1 {
				text = fmt.Sprintf("%d/8760h", 1_000_000_000-i)
			}
			require.NoError(t, f.SetQuotas(t.Context(), quotas(t, text)), "change %d", i)
			queued(t, f, 2, 900_000)
		}
	})
}

func TestTurnsArePutOffForYearsAtMost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		for range 8 {
			set(t, f, "1/1ms")
			held := queued(t, f, 130, 1)
			set(t, f, "1/87600h")
			require.Less(t, dues(t, f, held)[129], 18*365*24*time.Hour)
		}
	})
}

func TestStretchesAreJoinedWhereThatCostsLeast(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, units := range []string{
			"", "; tokens 500/1s", "; input_tokens 100000/1s 50000/200ms; output_tokens 20000/1s 10000/200ms",
		} {
			t.Run(units, func(t *testing.T) {
				f, _ := w.stored(t)
				writes(t, f, "1/1s"+units)
				held := queued(t, f, 20, 1)
				for i, text := range strings.Fields("1/1ms 1/500ms 1/1s 1/500ms 1/1s 1/500ms 1/1s 1/500ms 1/1s") {
					writes(t, f, text+units)
					held = append(held, queued(t, f, 1, 1)...)
					require.LessOrEqual(t, dues(t, f, held)[18], time.Minute, "turn of 18 s, change %d", 1+i)
				}
			})
		}
	})
}

func TestOneTurnOfAWideQuotaSlowsFewBeforeIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for usual, moment := range map[string]string{
			"1/1s; tokens 10000000/24h": "1/1ms; tokens 10000000/24h",
			"1/1s":                      "60000/1m",
			"60/1m burst 1":             "600/1m",
		} {
			t.Run(usual, func(t *testing.T) {
				f, _ := w.stored(t)
				writes(t, f, usual)
				held := queued(t, f, 50, 1)
				writes(t, f, moment)
				held = append(held, queued(t, f, 1, 1)...)
				writes(t, f, usual)
				require.LessOrEqual(t, dues(t, f, held)[48], 2*time.Minute, "turn of 48 s")
			})
		}
	})
}

// Turns of 4/100ms go by 10/1s, though single permits in 100 ms imply that.
func TestHeldTurnsGoByImpliedWindowsAsWell(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		set(t, f, "4/100ms")
		held := queued(t, f, 40, 1)
		set(t, f, "10/1s burst 1")
		due := dues(t, f, held)
		for i := 10; i < len(due); i++ {
			require.GreaterOrEqual(t, due[i]-due[i-10]+100*time.Microsecond, time.Second, "turns %d to %d", i-10, i)
		}
	})
}

func TestSevenUnitsOfManyWindowsSlowHeldTurns(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		stores := func(per, more string) {
			text := "1000/1s 4000/10s 20000/1m 90000/10m"
			for i := range mostUnits {
				text += fmt.Sprintf("; unit_%d 1000/%s%s", i, per, more)
			}
			writes(t, f, text)
		}
		stores("100ms", " 9999/1s 99980/10s 999700/100s 9996000/1000s")
		var held []engine.Grant
		for range 4 {
			held = append(held, take(t, f, amount(1, "unit_0=1000"))[0].Grant)
		}
		for _, per := range []time.Duration{time.Second, 10 * time.Second} {
			stores(per.String(), "")
			apart(t, dues(t, f, held), per, per.String())
		}
	})
}

// Whoever finds the change of a quota first leaves the same queue.
func TestAStatusThatFindsAChangeDelaysNobody(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		next := func(first func(f *fair)) time.Duration {
			f, _ := w.stored(t)
			set(t, f, "1/1ms")
			queued(t, f, 6_000, 1)
			writes(t, f, "6000/6s")
			first(f)
			return queuedWait(t, f)
		}
		require.InDelta(t, next(func(*fair) {}), next(func(f *fair) { status(t, f) }), float64(time.Second))
	})
}

func TestANarrowerQuotaSlowsFewTurnsHoweverLongTheLine(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		set(t, f, "1/24h")
		held := queued(t, f, 2, 1)
		set(t, f, "1/1s")
		held = append(held, queued(t, f, 2, 1)...)
		set(t, f, "1/24h")
		apart(t, dues(t, f, held), 24*time.Hour*999/1000, "1/24h")
	})
}

// A shorter window asks for the greatest pace, and a longer one spans two
// stretches.
func TestEachWindowReachesBackIntoTheStretchBefore(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		narrow, wide := "1/700ms; tokens 100/5s", "1/100ms; tokens 100/1s"
		writes(t, f, narrow)
		held := []engine.Grant{
			take(t, f, amount(1, "tokens=100"))[0].Grant, take(t, f, amount(1, "tokens=100"))[0].Grant,
		}
		queued(t, f, 1, 1)
		writes(t, f, wide)
		held = append(held, take(t, f, amount(0, "tokens=100"))[0].Grant)
		writes(t, f, narrow)
		apart(t, dues(t, f, held), 5*time.Second, narrow)
	})
}

// Two limiters look that know the text which is stored again. The queue goes by the
// one between.
func TestALookOfWhoKnowsTheTextLetsTheQueueObeyIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, isLost := range []bool{false, true} {
			f, at := w.stored(t)
			other := f.looksFor(t)
			writes(t, f, "1/5s")
			first := queued(t, f, 2, 1)[1]
			writes(t, f, "1/400ms")
			second := queued(t, other, 1, 1)[0]
			if isLost { // the first to ask writes what it knew
				require.NoError(t, w.rdb.Del(t.Context(), f.quotaKey()).Err())
			} else {
				writes(t, f, "1/5s")
			}
			at(4750 * time.Millisecond)
			comes := dues(t, f, []engine.Grant{first})[0]
			at(5150 * time.Millisecond)
			follows := 400*time.Millisecond + dues(t, other, []engine.Grant{second})[0]
			apart(t, []time.Duration{comes, follows}, 5*time.Second, fmt.Sprint("the text was lost: ", isLost))
		}
	})
}
