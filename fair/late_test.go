package fair

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// late is a limiter that holds 3 turns of 2/1s, and what happens around its next
// question.
type late struct {
	*testing.T
	*fair
	at     func(time.Duration)
	before snapshot
}

func (w world) late(t *testing.T) late {
	f, at := w.queue(t, quotas(t, "2/1s")...)
	moves(t, f)
	pause(t, f, time.Microsecond) // teaches the server the scripts
	require.NoError(t, f.Look(t.Context()))
	status(t, f)
	queued(t, f, 3, 1)
	return late{t, f, at, snap(t, f)}
}

// loses everything, or what an older copy lacks.
func (l late) loses(everything bool) {
	if everything {
		require.NoError(l, l.client.Del(l.Context(), l.key).Err())
	} else {
		l.before.restore(l, l.fair)
	}
}

// around calls two functions when the next question reaches Redis and when it is
// answered there.
func (l late) around(asked, answered func()) {
	done := false
	l.client.(*redis.Client).AddHook(redistest.Hook(
		func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			isFirst := strings.HasPrefix(cmd.Name(), "eval") && !done
			if isFirst {
				done = true
				asked()
			}
			err := next(ctx, cmd)
			if isFirst {
				answered()
			}
			return err
		}))
}

// counts makes sure that the limiter waits behind its turns.
func (l late) counts(newest time.Duration) { require.Greater(l, queuedWait(l, l.fair), newest) }

func nothing() {}

var anyQuestion = map[string]func(l late){
	"a look":   func(l late) { require.NoError(l, l.Look(l.Context())) },
	"a status": func(l late) { status(l, l.fair) },
	"a pause":  func(l late) { pause(l, l.fair, time.Second) },
	"a turn":   func(l late) { queued(l, l.fair, 1, 1) },
}

// Another answer overtakes one that granted turns, and the loss of these.
func TestTurnsCountThoughTheirAnswerArrivesAfterTheyWereLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, overtakes := range anyQuestion {
			for _, everything := range []bool{true, false} {
				t.Run(name, func(t *testing.T) {
					l := w.late(t)
					l.around(nothing, func() {
						l.at(100 * time.Millisecond)
						l.loses(everything)
						overtakes(l)
					})
					queued(l, l.fair, 20, 1) // the last one at 11 s
					l.counts(10800 * time.Millisecond)
				})
			}
		}
	})
}

// A server takes over whose clock is behind: what it answers seems to be older.
func TestTurnsCountThoughTheirAnswerTellsALaterMomentThanTheNextServer(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, overtakes := range anyQuestion {
			for _, everything := range []bool{true, false} {
				t.Run(name, func(t *testing.T) {
					l := w.late(t)
					l.at(500 * time.Millisecond)
					l.around(nothing, func() {
						l.loses(everything)
						moves(t, l.fair)
						l.at(300 * time.Millisecond)
						overtakes(l)
					})
					queued(l, l.fair, 20, 1) // the last one at 11 s
					l.counts(10400 * time.Millisecond)
				})
			}
		}
	})
}

// But for a pause they would be over when their answer arrives.
func TestTurnsThatArePutOffCountThoughTheirAnswerArrivesAfterTheyWereLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, everything := range []bool{true, false} {
			l := w.late(t)
			l.around(nothing, func() {
				l.at(100 * time.Millisecond)
				l.loses(everything)
				pause(t, l.fair, time.Minute)
				l.at(30 * time.Second)
			})
			queued(t, l.fair, 20, 1) // the last one at 11 s, and after the pause at 71 s
			l.counts(40 * time.Second)
		}
	})
}

// The next server's clock is ahead, since it has not heard of a pause that is
// over.
func TestTurnsOfALateAnswerCountThoughTheNextServerTellsThatTheyAreOver(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, overtakes := range map[string]func(*fair){
			"a look":  func(f *fair) { require.NoError(t, f.Look(t.Context())) },
			"a pause": func(f *fair) { pause(t, f, 10*time.Millisecond) },
		} {
			t.Run(name, func(t *testing.T) {
				l := w.late(t)
				require.NoError(t, l.Reset(t.Context())) // so the key lives on
				queued(t, l.fair, 1, 1)
				l.before = snap(t, l.fair)
				pause(t, l.fair, 5*time.Second)
				l.at(7 * time.Second)
				l.memory.news.Arrived = l.memory.news.Arrived.Add(-7 * time.Second)
				l.around(nothing, func() {
					l.loses(false)
					l.at(7003 * time.Millisecond)
					overtakes(l.fair)
				})
				queued(t, l.fair, 2, 1)
				l.counts(900 * time.Millisecond)
			})
		}
	})
}

// A pause was asked for first, and reaches Redis after the turns and their loss.
func TestTurnsCountThoughTheirQuestionWasAskedLater(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, everything := range []bool{true, false} {
			l := w.late(t)
			l.around(func() {
				queued(l, l.fair, 20, 1)
				l.at(100 * time.Millisecond)
				l.loses(everything)
			}, nothing)
			pause(t, l.fair, time.Second)
			pause(t, l.fair, time.Second)
			stranger := l.joins(t, l.quotas...)
			require.Greater(t, queuedWait(t, stranger), 10800*time.Millisecond)
			l.counts(10800 * time.Millisecond)
		}
	})
}

// A failover that loses nothing comes between two questions that are under way at
// once. Then others are asked, and all is lost.
func TestTurnsOfTwoServersCount(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		l := w.late(t)
		l.around(nothing, func() {
			moves(l, l.fair)
			l.at(100 * time.Millisecond)
			queued(l, l.fair, 20, 1)
		})
		pause(t, l.fair, time.Second)
		status(l, l.fair)
		l.loses(true)
		l.counts(10 * time.Second)
	})
}

// Of two queues the known one is over by this process's clock before the answer
// of the other one arrives.
func TestWhatIsOverHidesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		l := w.late(t)
		l.around(nothing, func() {
			l.loses(true)
			pause(l, l.fair, time.Millisecond)
			l.memory.mu.Lock()
			defer l.memory.mu.Unlock()
			l.memory.news.Arrived = l.memory.news.Arrived.Add(-time.Minute)
		})
		queued(l, l.fair, 20, 1)
		l.counts(10 * time.Second)
	})
}

// Redis answers a question before a pause that was asked for earlier.
func TestAPauseIsNotForgottenForAQuestionThatOvertookIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		l := w.late(t)
		l.at(10 * time.Millisecond)
		l.around(nothing, func() {
			l.at(20 * time.Millisecond)
			pause(t, l.fair, time.Hour)
			l.memory.mu.Lock()
			defer l.memory.mu.Unlock()
			l.memory.news.sent = l.memory.news.sent.Add(-time.Second)
		})
		queued(t, l.fair, 1, 1)
		l.loses(true)
		require.Greater(t, status(t, l.fair).Paused, 59*time.Minute)
	})
}

// The server does not have the script. So two commands go, and the second one
// is answered.
func TestNewsAreAsNewAsTheCommandThatTheyAnswer(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	var refused, asked time.Time
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			refused = time.Now()
		}
		return err
	}))
	f := build(t, rdb, engine.Quota{Permits: 2, Per: time.Hour})
	queued(t, f, 1, 1)
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	f.heard = func(n *engine.News) { asked = n.Asked }
	require.NoError(t, f.Look(t.Context()))
	require.False(t, refused.IsZero())
	require.False(t, asked.Before(refused))
}

// The primary that answered a pause is lost, and the next one answers a look first.
func TestAPauseThatIsLostIsNotForgottenForALook(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		l := w.late(t)
		l.around(nothing, func() {
			l.at(10 * time.Millisecond)
			l.loses(false)
			require.NoError(t, l.Look(t.Context()))
		})
		pause(t, l.fair, 10*time.Second)
		require.Greater(t, status(t, l.fair).Paused, 9*time.Second)
	})
}

// The next primary also slows turns before the answer comes.
func TestAPauseThatIsLostIsNotForgottenForANarrowerQuota(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, everything := range []bool{true, false} {
			f, at := w.stored(t, quotas(t, "1/1s")...)
			moves(t, f)
			pause(t, f, time.Microsecond) // teaches the server the script
			queued(t, f, 5, 1)
			l := late{t, f, at, snap(t, f)}
			l.around(nothing, func() {
				at(3 * time.Millisecond)
				l.loses(everything)
				set(t, f, "1/10s")
			})
			pause(t, f, 18*time.Second)
			require.Greater(t, status(t, f).Paused, 17*time.Second)
		}
	})
}

// The answer of a pause tells nothing of units, and overtakes one that does.
func TestUnitsCountThoughTheirAnswerWasOvertaken(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		take(t, f, amount(1, ""))
		pause(t, f, time.Microsecond)
		at(10 * time.Millisecond)
		l := late{t, f, at, snap(t, f)}
		l.around(nothing, func() {
			at(20 * time.Millisecond)
			pause(t, f, time.Millisecond)
		})
		take(t, f, amount(1, "tokens=100"))
		require.NoError(t, w.rdb.Del(t.Context(), f.key, f.unitsKey()).Err())
		require.Greater(t, take(t, f, amount(1, "tokens=100"))[0].Wait, 59*time.Second)
	})
}

// A turn is settled before others that are lost, and the next primary does it.
// A look overtakes its answer.
func TestUnitsThatAreLostCountThoughAnOlderAnswerTellsOthers(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		moves(t, f)
		g := take(t, f, amount(1, "tokens=20"))[0].Grant
		l := late{t, f, at, snap(t, f)}
		at(2 * time.Second)
		l.around(func() {
			take(t, f, amount(1, "tokens=80"))
			l.loses(false)
		}, func() {
			at(2010 * time.Millisecond)
			require.NoError(t, f.Look(t.Context()))
		})
		settles(t, f, g, 0, "tokens=1")
		at(3 * time.Second)
		require.Greater(t, take(t, f, amount(1, "tokens=80"))[0].Wait, 58*time.Second)
	})
}

// While the clock stands still, the text of the state is that of the shorter pause.
func TestALongerPauseIsNotForgottenForAQuestionThatItOvertook(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, asks := range anyQuestion {
			t.Run(name, func(t *testing.T) {
				l := w.late(t)
				pause(l, l.fair, time.Minute)
				l.around(func() {
					pause(l, l.fair, time.Hour)
					l.at(time.Millisecond)
					l.loses(true)
				}, nothing)
				asks(l)
				require.Greater(l, status(l, l.fair).Paused, 59*time.Minute)
			})
		}
	})
}
