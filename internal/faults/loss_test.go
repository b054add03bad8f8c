package faults_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Loud.
func TestAKilledServerIsAnErrorAndTurnsToldBeforeStand(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	l, start := limiter(t, server.Client(), fairlimit.Every(300*time.Millisecond)), time.Now()
	var told []*fairlimit.Reservation
	for range 4 {
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		told = append(told, r)
	}
	server.Kill()
	allowed, err := l.Allow(t.Context())
	require.False(t, allowed)
	require.True(t, unavailable(err), err)
	for _, r := range told {
		require.NoError(t, r.Wait(t.Context()))
	}
	require.GreaterOrEqual(t, time.Since(start), 3*300*time.Millisecond, "never early")
}

// Healing. Those who were told nothing can be granted one quota more, if they ask
// before anybody who knows.
func TestWhatARestartedServerHasLostCountsAgain(t *testing.T) {
	t.Parallel()
	for who, want := range map[string]int{"who knows": 10, "strangers": 16} {
		t.Run(who+" first", func(t *testing.T) {
			t.Parallel()
			server, name := redistest.StartServer(t), redistest.Name(t)
			var lost atomic.Int64
			knowing := named(t, server.Client(), name, fairlimit.PerHour(10),
				fairlimit.WithTrace(&fairlimit.Trace{Lost: func() { lost.Add(1) }}))
			stranger := named(t, server.Client(), name, fairlimit.PerHour(10))
			require.NoError(t, knowing.WaitN(t.Context(), 6))
			server.Restart()
			granted := 6
			if who == "strangers" {
				granted += takeAll(t, stranger)
			}
			granted += takeAll(t, knowing) + takeAll(t, stranger)
			require.Equal(t, want, granted)
			require.Equal(t, who == "who knows", lost.Load() == 1, "it says so")
		})
	}
}

// Healing. The replica has not seen the newest turns.
func TestWhatAnOldReplicaLacksCountsAgainAfterAFailover(t *testing.T) {
	t.Parallel()
	const permits, seen, unseen = 20, 8, 4
	for who, want := range map[string]int{"who knows": permits, "a stranger": permits + unseen} {
		t.Run(who+" asks", func(t *testing.T) {
			t.Parallel()
			g, name := redistest.Sentinel(t), redistest.Name(t)
			l := named(t, g.Client, name, fairlimit.PerHour(permits))
			require.NoError(t, l.WaitN(t.Context(), seen))
			cutOff(t, g.Master, g.Replica)
			require.NoError(t, l.WaitN(t.Context(), unseen))
			if who == "a stranger" {
				l = named(t, g.Client, name, fairlimit.PerHour(permits))
			}
			g.Master.Kill()
			g.Replica.Resume()
			granted, open := seen+unseen, 0
			eventually(t, func() bool {
				allowed, err := l.Allow(t.Context())
				switch {
				case allowed:
					granted++
				case errors.Is(err, fairlimit.ErrOutcomeUnknown):
					open++
				case err != nil:
					require.True(t, unavailable(err) || errors.As(err, new(redis.Error)), err)
				}
				return !allowed && err == nil
			}, "all permits are taken")
			require.LessOrEqual(t, granted, want)
			require.GreaterOrEqual(t, granted+open, want)
		})
	}
}

// cutOff lets the replica see what has been written, and nothing that will be.
func cutOff(t *testing.T, primary, replica *redistest.Server) {
	conn := primary.Client().Conn() // WAIT waits for what its own connection wrote, and all before
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.Set(t.Context(), "seen", "", 0).Err())
	eventually(t, func() bool { return conn.Wait(t.Context(), 1, time.Second).Val() == 1 }, "the replica is in sync")
	replica.Pause()
	require.NoError(t, primary.Client().Do(t.Context(), "client", "kill", "type", "replica").Err())
}

// holderOf names a server to a process that holds turns.
const holderOf = "FAIRLIMIT_FAULTS_HOLDER_OF"

var slow = fairlimit.Every(400 * time.Millisecond)

// holdTurns is what that process does, until the test is no more.
func holdTurns(addr string) {
	l, err := fairlimit.New(redis.NewClient(&redis.Options{Addr: addr}), "held", slow)
	for range 50 {
		go func() { _ = l.Wait(context.Background()) }()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	panic(err)
}

// The turns of a killed process pass unused, unless somebody calls Requeue.
func TestTheTurnsOfAKilledProcessAreFreeAfterARequeue(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	l := named(t, server.Client(), "held", slow)
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), holderOf+"="+server.Addr())
	stdin, err := process.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	require.NoError(t, process.Start())
	eventually(t, func() bool { return status(t, l).Queued >= 40 }, "its callers wait")
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())

	behind, err := l.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	require.Greater(t, behind.Delay(), 25*slow.Per, "it waits behind them")
	require.NoError(t, l.Requeue(t.Context()))
	require.NoError(t, behind.Wait(t.Context()))
	require.Positive(t, behind.Delay(), "it did not wait for its first slot")
}
