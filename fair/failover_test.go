package fair

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A server takes over, with an older state or another clock.
func TestFailovers(t *testing.T) {
	tell(t, []story{
		{"what was lost counts though others were granted as many", "20/1m", "a takes 1, kept, c takes 3, a takes 2, back, " +
			"at 50ms, {b takes 1, a available 13, c available 13, a available 13|" +
			"b takes 9, a available 5, c available 5, a available 5}"},
		{"a return of a lost turn frees nobody else's", "1/1s", "a takes 1, kept, a takes 3, back, moves, at 10ms, " +
			"b takes 3, a returns 1:, b queued >=3, b takes 1 after >=3.99s, b backlog >=6"},
		{"a refusal tells of the epoch", "1/1h", "a takes 1, moves, at 1s, b takes 1, a refused, a knows b"},
		{
			"a refusal after a failover puts nobody off", "1/10s",
			"a takes 2, moves, b takes 1, at 5s, a refused, a heard 1 in 5s",
		},

		// Only a knows of a queue that is gone. Then the write that counts it as full is
		// lost, but a has been told of the new queue by then.
		{"what counts as full does so after a failover", "3/10s", "a takes 9, moves, lost, at 200ms, b takes 1, at 500ms, " +
			"kept, {a refused within 1s|a takes 1|a asks}, b takes 1 after 29.5s, back, promoted, " +
			"{|at 600ms, c takes 1}, at 700ms, a takes 1 after >=29.3s <=40s"},
		// Here b knows of later turns, and that it has asked is lost.
		{"what counts as full longer does so after a failover", "3/1s", "a takes 9, b takes 3, lost, at 100ms, a asks, " +
			"kept, at 200ms, b refused, a waits 3.8s, a queued 6, back, at 300ms, b waits 3.7s"},

		{"a server whose clock is behind loses nothing", "20/1m", "a takes 1, kept, at 100ms, a takes 2, back, " +
			"{at 50ms, a takes 1 after <=50ms, at 150ms|at -4m59.9s, a takes 1 after 0s, at -4m59.8s}, " +
			"a stands 3 at 100ms, a available 16, a takes 1, a stays, a available 15"},
		{"a queue that is over by the limiter's clock alone", "10/1s", "moves, a takes 1, a waited 1200ms, at 700ms, " +
			"moves, kept long, a takes 30, {|a looks,} at 710ms, back, a takes 1 after >=1s"},
		{"what a server that is behind grants counts again", "1/1s", "a takes 1, kept, at 10s, a takes 1, at 10ms, back, " +
			"b takes 1, a takes 5, a waits >6s, lost, a waits same"},
		{
			"a server that is a little behind pauses nothing", "1/1s",
			"at 1s, a takes 5, lost, moves, at 500ms, b takes 1, a paused 0s, a waits 5.5s",
		},
		// The clock is behind. A limiter that was told of less is granted turns, and
		// then one asks that was told of more.
		{"a watermark moves no turn of the present epoch", "1/1s", "b takes 1, kept, at 5s, a takes 1, at -5s, back, " +
			"b takes 9, b takes 1 after 10s, a takes 1 after >=11s"},

		{"a reset that was lost forgets old turns for whoever knows, even of none since", "1/1s", "moves, a takes 100, " +
			"b takes 1, kept, a resets, b looks, at 3s, a waited 3s, b waited 3s, back, b takes 1 after <=1s, " +
			"a takes 1 after <=2s"},
		{"what has gone since such a reset is full in wider windows, too", "3/10s", "moves, a has 10/10s, c takes 1, " +
			"kept long, at 20s, b resets, at 21s, back, a takes 10 after 0s, at 21.001s, {|c refused}, b looks, " +
			"at 21.002s, a waits >=9.9s"},
		{"and in those of a wider quota", "stored 10/10s", "moves, a sets 10/10s, a takes 1, kept long, at 20s, b resets, " +
			"at 21s, back, c takes 10 after 0s, at 21.001s, {|c sets 3/10s}, b looks, at 21.002s, c sets 10/10s, c looks, " +
			"c waits >=9.9s"},
		{"nobody has gone at the slot at which the clock stands", "1/300ms", "moves, a pauses 1s, kept, a pauses 3s, " +
			"a takes 1, b takes 2, a asks, at 1.2s, back, moves, b asks, a asks, a awaits 0, a holds 0 in 1.8s, a pauses 3s, " +
			"a holds 0 in 3s, b holds 0 in 3.3s"},
		{"but somebody has if others have moved the clock on", "2/10s", "moves, a pauses 1s, kept, a pauses 3s, " +
			"at 1.2s, back, moves, b takes 2, a asks, b returns 1, b queued 0"},
		{"a lost pause goes on, wherever the clock is", "1/1s", "moves, at 10s, a takes 1, kept, at 10.1s, a pauses 30s, " +
			"a takes 1 after >=30.8s, a waited 100ms, at {10.2s|9.7s|6.2s}, back, a takes 1 after >=31.7s <=33s"},

		{"a lost write that granted nothing loses nothing: a pause that is over", "2/1m", "a takes 4, kept, at 1s, " +
			"a pauses 100ms, at 2s, back, a takes 1, a stays, a heard no loss, a returns 2:, a waits 58.099999s"},
		{"a lost write that granted nothing loses nothing: who asked", "2/1m", "a takes 4, kept, at 1s, " +
			"b has 2/2m, b refused, a hears b, at 2s, back, a takes 1, a stays, a heard no loss, a returns 2:, a waits 58s"},
		{
			"turns that a lost pause put off count as late once they have passed", "1/1m",
			"a takes 2, kept, at 59s, a pauses 10s, at 75s, back, a takes 1 after ~55s",
		},
		{"what was granted after a reset counts again", "3/1m", "a takes 3, a resets, kept, at 10m, {lost|a resets}, " +
			"at 10m0.001s, a takes 6, at 10m1s, back, {|b takes 1}, a takes 1 after >=119s"},
		{"turns of narrower quotas than a limiter knows stay where nothing was lost", "stored", "moves, a sets 1/1s, " +
			"a takes 3, b sets 1/100s, b takes 1, moves, a asks, b holds 0 in <=401s"},
		{"a lost pause goes on, though others have slowed the queue by more", "stored", "moves, a sets 10/1s, " +
			"a takes 20, kept long, a pauses 60s, back, b sets 1/100s, a asks, b paused ~60s"},
		{"lost turns that have gone hold back no queue that was slowed since", "stored", "moves, a sets 1/1s 50/1m, " +
			"b takes 1, kept long, a takes 1, back, at 10s, b takes 20, b sets 1/100s, a asks, b paused 0s, " +
			"b holds 2 in <=201s"},
		{"no turn comes sooner than told, though whoever knows lost turns knows of no slow clock", "stored", "moves, " +
			"a sets 1/1s 50/1m, b takes 1, kept long, a takes 1, back, at 10s, b takes 20, b sets 1/100s, " +
			"b sets 1/1s 50/1m, b holds 12 in >1000s, a asks, b holds 12 in same"},
		{"no turn comes sooner than told, though what stood behind it was given back", "stored", "a sets 1/1s, a takes 6, " +
			"a sets 1/10s, kept long, a returns 3:, {a pauses 8s, a takes 1, at 18s, a looks, at 19s, back, a holds 2 in ~9s|" +
			"at 17s, a pauses 8s, a takes 1, at 19s, back, a holds 2 in ~9s|" +
			"a sets 1/12s, a takes 1, at 12s, a looks, at 13s, back, a holds 2 in >=10.99s}"},
		{"no turn comes sooner than told, though the copy's clock has passed it", "stored", "a sets 1/1s, a takes 6, " +
			"a sets 1/10s, kept long, a returns 3:, a pauses 18s, a takes 1, at 28s, a looks, at 29s, a holds 2 in ~9s, " +
			"back, {|a looks, a pauses 2s,} a holds 2 in >=8.99s"},
		{"no turn comes sooner than told, though the copy is slow where the lost clock was slower", "stored", "moves, " +
			"a sets 1/1s, a takes 100, a sets 1/10s, kept long, a returns 3:, at 20s, a looks, at 30s, a looks, " +
			"a sets 1/100ms, a takes 30, a sets 1/10s, a takes 3, at 31s, a looks, back, {|a looks, a pauses 100s,} " +
			"a holds {101 in >=8.99s|109 in >=88.99s|129 in >=288.99s|132 in >=318.99s}"},
		{"nobody was granted turns on the windows of whoever has none", "stored", "moves, a pauses 3s, kept long, " +
			"a sets 1/1s, a takes 10, a sets 1/10s, at 4s, back, a looks, a holds 9 in <=95s"},
		{"turns that were asked for in a pause have not passed", "6/1h", "moves, a takes 1, kept long, at 200ms, " +
			"a pauses 8s, a takes 5, at {300ms|-200ms|-1.7s}, back, a looks, a awaits 1, a pauses 1m, a holds 1 in >=1m"},
		{"turns stay as far apart, though the copy is slower in all", "stored", "a sets 1/3s, a takes 22, " +
			"a sets 1/30s, kept long, a returns 1:, at 31s, a looks, a sets 1/20ms, {a takes 3, a sets 1/30s, at 33s, " +
			"a looks, back, a keeps 23: 1/30s|a takes 6, a sets 1/3s, at 33s, a looks, back, a keeps 23: 1/3s|a pauses 24s, " +
			"a takes 6, a sets 1/3s, at 33s, a looks, back, a keeps 23: 1/3s}"},
		{"a look that meets other quotas changes nothing", "stored 1/1s 20/1m", "moves, a takes 6, at 20s, a takes 6, " +
			"at 40s, a takes 3, kept long, a sets 1/1s 20/1m, a takes 2, at 40.1s, back, quota lost, a {asks|looks}, " +
			"a takes 6, a holds 22 in <22s"},
		// Few permits were granted in all, so few seem to be missing.
		{"what counts as full does so in a wider window", "1/1h", "b has 12/1h, moves, a takes 1, kept long, moves, " +
			"a takes 1, b takes 5, a asks, at 2s, back, a looks, b waits >=119m"},
		{"what counts as full does so in a wider window, that others have begun", "1/1h", "b has 12/1h, moves, b takes 6, " +
			"a takes 1, b takes 5, a asks, b looks, at 1s, lost, c takes 1, a looks, b looks, b waits >=119m"},
		{"what counts as full does so in a wider quota", "stored", "a sets 1/1h, moves, a takes 1, kept long, moves, " +
			"a sets 12/1h, a takes 5, a sets 1/1h, at 2s, back, stored 1/1h, a looks, a sets 12/1h, a waits >=59m"},
		// Others go on with a lost queue, slow it, and lose it again. Who asks first
		// holds turns of the first queue, and has only looked at the second.
		{"turns that a successor has slowed come as late after it is lost", "stored", "a sets 1/1s, a takes 20, b takes 1, " +
			"at 500ms, lost, b takes 1, b sets 1/3s, b sets 1/1s, a holds 19 in 55.5s, at 1s, lost, a takes 1 after >=56s"},
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
