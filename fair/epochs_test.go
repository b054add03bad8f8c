package fair

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

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
