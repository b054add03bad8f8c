package fair

import (
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
