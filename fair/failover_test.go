package fair

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// What was lost counts again even if as many turns were granted to those who
// did not know of it.
func TestWhatWasLostCountsThoughOthersWereGrantedAsMany(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, count := range []int{1, 5, 9} {
			quota := engine.Quota{Permits: 20, Per: time.Minute}
			a, at := w.queue(t, quota)
			b, c := a.joins(t, quota), a.joins(t, quota)
			queued(t, a, 1, 1)
			replica := snap(t, a)
			queued(t, c, 3, 1)
			queued(t, a, 2, 1)
			replica.restore(t, a)
			at(50 * time.Millisecond)
			queued(t, b, count, 1)
			require.Equal(t, 20-1-count-5, status(t, a).Available, "what a was told of")
			require.Equal(t, 20-1-count-5, status(t, c).Available, "c knows of no more")
			require.Equal(t, 20-1-count-5, status(t, a).Available, "and it counts once")
		}
	})
}

// A server that restarts is another one, and one that forgets its scripts may
// seem to be. Nothing is lost by that: turns of all of them are taken back.
func TestTurnsAreTakenBackAfterTheServerHasChanged(t *testing.T) {
	t.Parallel()
	t.Run("forgets its scripts", func(t *testing.T) {
		t.Parallel()
		f := build(t, redistest.StartServer(t).Client(), engine.Quota{Permits: 1, Per: time.Hour})
		takesBack(t, f, func() { require.NoError(t, f.client.ScriptFlush(t.Context()).Err()) })
	})
	t.Run("restarts", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartServer(t)
		f := build(t, s.Client(), engine.Quota{Permits: 1, Per: time.Hour})
		servers := takesBack(t, f, func() {
			require.NoError(t, f.client.Save(t.Context()).Err())
			s.Restart()
			_ = f.client.Ping(t.Context()) // finds that the connection is gone
		})
		require.Len(t, servers, 4)
	})
}

// takesBack has turns granted before and after changes of the server, and gives
// all back but the first. It returns the servers that granted them.
func takesBack(t *testing.T, f *fair, change func()) map[string]bool {
	t.Helper()
	grants := queued(t, f, 3, 1)
	for range 3 {
		change()
		grants = append(grants, queued(t, f, 3, 1)...)
	}
	giveBack(t, f, grants[1:]...)
	require.LessOrEqual(t, wait(t, f), time.Hour)
	servers := map[string]bool{}
	for _, g := range grants {
		servers[g.Made[:7]] = true
	}
	return servers
}

// TestWhatCountsAsFullDoesSoAfterAFailover loses a queue, of which one limiter
// knows, and then the write that counts it as full. That limiter has been told
// of the new queue by then, so that is all it remembers.
func TestWhatCountsAsFullDoesSoAfterAFailover(t *testing.T) {
	for what, asks := range map[string]func(*testing.T, *fair){
		"a refusal": func(t *testing.T, a *fair) {
			require.False(t, take(t, a, engine.Request{N: 1, MaxWait: time.Second})[0].Granted)
		},
		"a grant": func(t *testing.T, a *fair) { queued(t, a, 1, 1) },
		"Status":  func(t *testing.T, a *fair) { status(t, a) },
	} {
		for _, first := range []string{"it asks first", "a stranger's turn comes between"} {
			t.Run(what+", "+first, func(t *testing.T) {
				inBothWorlds(t, func(t *testing.T, w world) {
					a, at := w.queue(t, engine.Quota{Permits: 3, Per: 10 * time.Second})
					b := a.joins(t, engine.Quota{Permits: 3, Per: 10 * time.Second})
					queued(t, a, 9, 1) // at 0, 10 and 20 s
					moves(t, a)
					require.NoError(t, a.client.Del(t.Context(), a.key).Err())
					at(200 * time.Millisecond)
					queued(t, b, 1, 1) // so that the queue is not renewed
					at(500 * time.Millisecond)
					replica := snap(t, a)
					asks(t, a)
					require.Equal(t, 29500*time.Millisecond, queuedWait(t, b))
					replica.restore(t, a)
					promotes(t, a)
					if first != "it asks first" {
						at(600 * time.Millisecond)
						queued(t, a.joins(t, a.quotas...), 1, 1)
					}
					at(700 * time.Millisecond)
					again := take(t, a, engine.Request{N: 1, MaxWait: engine.Forever})[0]
					require.GreaterOrEqual(t, again.Wait, 29300*time.Millisecond, "three turns are at 20 s")
					require.LessOrEqual(t, again.Wait, 40*time.Second)
				})
			})
		}
	}
}

// Two limiters know of what was lost, the second of later turns. Another
// failover loses that it has asked.
func TestWhatCountsAsFullLongerDoesSoAfterAFailover(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		b := a.joins(t, a.quotas...)
		queued(t, a, 9, 1) // at 0, 1 and 2 s
		queued(t, b, 3, 1) // at 3 s
		require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
		at(100 * time.Millisecond)
		status(t, a)
		replica := snap(t, a)
		at(200 * time.Millisecond)
		require.False(t, take(t, b, engine.Request{N: 1})[0].Granted)
		require.Equal(t, 3800*time.Millisecond, wait(t, a))
		require.Equal(t, 6, status(t, a).Queued, "at 2 and 3 s, each once")
		replica.restore(t, a)
		at(300 * time.Millisecond)
		require.Equal(t, 3700*time.Millisecond, wait(t, b), "three turns are at 3 s")
	})
}

// A server takes over whose clock is behind, and a stranger asks it first. What
// it grants from then on counts again if it is lost, though the clock has shown
// a later time before.
func TestWhatAServerThatIsBehindGrantsCountsAgain(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		quota := engine.Quota{Permits: 1, Per: time.Second}
		f, at := w.queue(t, quota)
		stranger := f.joins(t, quota)
		queued(t, f, 1, 1)
		replica := snap(t, f)
		at(10 * time.Second)
		queued(t, f, 1, 1)
		at(10 * time.Millisecond)
		replica.restore(t, f)
		queued(t, stranger, 1, 1)
		queued(t, f, 5, 1)
		told := wait(t, f)
		require.NoError(t, f.client.Del(t.Context(), f.key).Err())
		require.Equal(t, told, wait(t, f))
	})
}

// follows makes a server the replica of another, or a primary of its own, and
// waits until it is.
func follows(t *testing.T, s, primary *redistest.Server) {
	t.Helper()
	host, port := "NO", "ONE"
	if primary != nil {
		var err error
		host, port, err = net.SplitHostPort(primary.Addr())
		require.NoError(t, err)
	}
	require.NoError(t, s.Client().Do(t.Context(), "REPLICAOF", host, port).Err())
	require.Eventually(t, func() bool {
		info, err := s.Client().InfoMap(t.Context(), "replication").Result()
		return err == nil && (primary == nil || info["Replication"]["master_link_status"] == "up")
	}, 20*time.Second, 10*time.Millisecond)
}

// lostOnP has a primary and its replica. The replica has seen one turn, and is
// promoted. Then the primary, which has not heard of it, grants 20 turns to a.
// It becomes the replica of the other one, and loses them. In the end it is
// promoted again, before anybody has asked the other one.
func lostOnP(t *testing.T, quota engine.Quota) (a, b *fair, first, lost []engine.Grant) {
	p, r := redistest.Pair(t, "--repl-diskless-sync-delay", "0")
	a, b = build(t, p.Client(), quota), build(t, p.Client(), quota)
	b.key = a.key
	first = queued(t, b, 1, 1)
	require.Eventually(t, func() bool { return r.Client().Exists(t.Context(), a.key).Val() == 1 },
		20*time.Second, time.Millisecond)
	follows(t, r, nil)
	lost = queued(t, a, 20, 1)
	follows(t, p, r)
	follows(t, r, p)
	follows(t, p, nil)
	time.Sleep(100 * time.Millisecond) // SILENCE: no failover is shorter
	return a, b, first, lost
}

func TestAPrimaryThatComesBackIsNotTheOneItWas(t *testing.T) {
	t.Parallel()
	t.Run("turns that it lost free nothing", func(t *testing.T) {
		t.Parallel()
		a, b, held, lost := lostOnP(t, engine.Quota{Permits: 1, Per: 10 * time.Second})
		held = append(held, queued(t, b, 20, 1)...)
		giveBack(t, a, lost...)
		held = append(held, queued(t, b, 20, 1)...)
		for i, g := range held[1:] {
			require.GreaterOrEqual(t, g.At, held[i].At+10*time.Second.Microseconds(), "turn %d", i+1)
		}
	})
	t.Run("turns that it lost count again", func(t *testing.T) {
		t.Parallel()
		a, b, _, _ := lostOnP(t, engine.Quota{Permits: 100, Per: time.Hour})
		queued(t, b, 20, 1)
		require.Equal(t, 100-1-20-20, status(t, a).Available)
	})
}

// A server takes over whose clock is behind. The queue's carries on: at once, or
// within the second that a clock may be behind without anybody noticing.
func TestAServerWhoseClockIsBehindLosesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, behind := range []time.Duration{50 * time.Millisecond, 5 * time.Minute} {
			a, at := w.queue(t, engine.Quota{Permits: 20, Per: time.Minute})
			queued(t, a, 1, 1)
			replica := snap(t, a)
			at(100 * time.Millisecond)
			lost := queued(t, a, 2, 1)
			replica.restore(t, a)
			at(100*time.Millisecond - behind)
			first := take(t, a, engine.Request{N: 1, MaxWait: engine.Forever})[0]
			require.LessOrEqual(t, first.Wait, 50*time.Millisecond)
			require.Equal(t, lost[1].At, first.Grant.At)
			at(200*time.Millisecond - behind)
			require.Equal(t, 20-4, status(t, a).Available)
			second := queued(t, a, 1, 1)[0]
			require.Equal(t, first.Grant.ID, second.ID, "the same generation")
			require.Equal(t, 20-5, status(t, a).Available)
		}
	})
}

// Something was written that granted nothing, and was lost. No turn is missing.
// Those that a pause had put off come as late as was told.
func TestALostWriteThatGrantedNothingLosesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, c := range []struct {
			what  string
			write func(*fair)
			later time.Duration
		}{
			{
				"a pause that is over", func(f *fair) { pause(t, f, 100*time.Millisecond) },
				100*time.Millisecond - time.Microsecond,
			},
			{"who asked", func(f *fair) {
				other := f.joins(t, engine.Quota{Permits: 2, Per: 2 * time.Minute})
				require.False(t, take(t, other, engine.Request{N: 1})[0].Granted)
				f.memory.learn(other.memory.watermark, other.memory.news, f.quotaSet)
			}, 0},
		} {
			a, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Minute})
			news := hears(a)
			held := queued(t, a, 4, 1)
			replica := snap(t, a)
			at(time.Second)
			c.write(a)
			at(2 * time.Second)
			replica.restore(t, a)
			next := queued(t, a, 1, 1)[0]
			require.Equal(t, held[0].ID, next.ID, c.what)
			require.False(t, last(t, news).Lost, c.what)
			giveBack(t, a, append(held[2:], next)...)
			require.Equal(t, 58*time.Second+c.later, wait(t, a), c.what)
		}
	})
}

// A server takes over that has not heard of some turns. Others get these slots.
// Whoever gives the lost turns back frees none of theirs.
func TestAReturnOfALostTurnFreesNobodyElses(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		other := f.joins(t, f.quotas...)
		queued(t, f, 1, 1)
		before := snap(t, f)
		lost := queued(t, f, 3, 1)
		before.restore(t, f)
		moves(t, f)
		at(10 * time.Millisecond)
		queued(t, other, 3, 1)
		giveBack(t, f, lost...)
		require.GreaterOrEqual(t, status(t, other).Queued, 3, "the others' turns stay")
		require.GreaterOrEqual(t, queuedWait(t, other), 3990*time.Millisecond)
		require.GreaterOrEqual(t, inspected(t, other).Backlog, int64(6), "and the lost ones count")
	})
}

// Whoever is only refused after a failover hears of the new epoch all the same,
// so that its questions go straight again.
func TestARefusalTellsOfTheEpoch(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Hour})
		b := a.joins(t, engine.Quota{Permits: 1, Per: time.Hour})
		queued(t, a, 1, 1)
		moves(t, a)
		at(time.Second)
		queued(t, b, 1, 1)
		require.False(t, take(t, a, engine.Request{N: 1})[0].Granted)
		require.Equal(t, b.memory.now().text, a.memory.now().text)
	})
}

// A refusal tells of the epoch that has begun since. The news that come with it
// are of its own moment, not of the last write.
func TestARefusalAfterAFailoverPutsNobodyOff(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: 10 * time.Second})
		other := f.joins(t, f.quotas...)
		held := queued(t, f, 2, 1)[1] // at 10 s
		moves(t, f)
		queued(t, other, 1, 1) // begins the epoch
		news := hears(f)
		at(5 * time.Second)
		require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
		require.Equal(t, 10*time.Second, comesAt(t, news, 5*time.Second, held))
	})
}

// So did turns that have passed since.
func TestTurnsThatALostPausePutOffCountAsLateOnceTheyHavePassed(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Minute})
		queued(t, f, 2, 1) // at 0 and 60 s
		replica := snap(t, f)
		at(59 * time.Second)
		pause(t, f, 10*time.Second)
		at(75 * time.Second)
		replica.restore(t, f)
		require.InDelta(t, 55*time.Second, queuedWait(t, f), float64(time.Millisecond), "a minute after 70 s")
	})
}

// A queue was reset a while ago. What was granted since is lost: the limiter was
// told of all of it after the reset.
func TestWhatWasGrantedAfterAResetCountsAgain(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]func(t *testing.T, f *fair){
		"deleted and begun anew": func(t *testing.T, f *fair) { require.NoError(t, f.client.Del(t.Context(), f.key).Err()) },
		"reset once more":        func(t *testing.T, f *fair) { require.NoError(t, f.Reset(t.Context())) },
	} {
		for first, stranger := range map[string]bool{"it asks first": false, "a stranger's turn comes between": true} {
			t.Run(what+", "+first, func(t *testing.T) {
				inBothWorlds(t, func(t *testing.T, w world) {
					f, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Minute})
					queued(t, f, 3, 1)
					require.NoError(t, f.Reset(t.Context()))
					replica := snap(t, f)
					at(10 * time.Minute)
					after(t, f)
					at(10*time.Minute + time.Millisecond)
					queued(t, f, 6, 1) // at 10 and 11 min
					at(10*time.Minute + time.Second)
					replica.restore(t, f)
					if stranger {
						queued(t, f.joins(t, f.quotas...), 1, 1)
					}
					require.GreaterOrEqual(t, queuedWait(t, f), 119*time.Second, "three of them are at 11 min")
				})
			})
		}
	}
}

// A server takes over whose clock is behind. It grants turns to a limiter that
// was told of less, and then one asks that was told of more.
func TestAWatermarkMovesNoTurnOfThePresentEpoch(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		other := f.joins(t, f.quotas...)
		queued(t, other, 1, 1)
		replica := snap(t, f)
		at(5 * time.Second)
		queued(t, f, 1, 1)
		at(-5 * time.Second)
		replica.restore(t, f)
		var comes time.Duration
		for range 10 {
			comes = queuedWait(t, other)
		}
		require.Equal(t, 10*time.Second, comes)
		require.GreaterOrEqual(t, queuedWait(t, f), comes+time.Second)
	})
}

// A queue is lost, others go on with it, and it becomes slower. Then it is lost
// again. The limiter that asks first holds turns of the first queue, and has
// only looked at the second.
func TestTurnsThatASuccessorHasSlowedComeAsLateAfterItIsLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1/1s")
		other := f.looksFor(t)
		held := queued(t, f, 20, 1)
		queued(t, other, 1, 1)
		at(500 * time.Millisecond)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		queued(t, other, 1, 1)
		set(t, other, "1/3s")
		set(t, other, "1/1s") // which speeds no turn up
		news := hears(f)
		require.NoError(t, f.Look(t.Context()))
		comes := comesAt(t, news, 500*time.Millisecond, held[19])
		require.Greater(t, comes, 40*time.Second)
		at(time.Second)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		require.GreaterOrEqual(t, time.Second+queuedWait(t, f), comes+time.Second)
	})
}

// A server takes over whose clock is half a second behind, with a queue of a
// stranger. Lost turns come as much later, but nothing is paused.
func TestAServerThatIsALittleBehindPausesNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		quota := engine.Quota{Permits: 1, Per: time.Second}
		f, at := w.queue(t, quota)
		at(time.Second)
		queued(t, f, 5, 1)
		require.NoError(t, f.client.Del(t.Context(), f.key).Err())
		moves(t, f)
		at(500 * time.Millisecond)
		queued(t, f.joins(t, quota), 1, 1)
		require.Zero(t, status(t, f).Paused)
		require.Equal(t, 5500*time.Millisecond, wait(t, f))
	})
}
