package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

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
