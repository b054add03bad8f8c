package faults_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestADeadProcessDelaysNobody kills another run of this binary, in which this
// same test queues callers up and waits. The queue is two seconds long: time
// enough for this process to see it and to kill the other.
func TestADeadProcessDelaysNobody(t *testing.T) {
	t.Parallel()
	const (
		server, name = "FAIRLIMIT_TEST_SERVER", "FAIRLIMIT_TEST_NAME"
		theirs, ours = 20, 5
		interval     = 100 * time.Millisecond
	)
	quota := fairlimit.Every(interval)
	if addr := os.Getenv(server); addr != "" {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		l := named(t, rdb, os.Getenv(name), quota)
		for range theirs {
			go func() { _ = l.Wait(t.Context()) }()
		}
		require.Eventually(t, func() bool { return status(t, l).Queued >= theirs/2 }, 10*time.Second, time.Millisecond)
		fmt.Println("queued")
		select {}
	}

	rdb := redistest.Standalone(t)
	limiterName := redistest.Name(t)
	l := named(t, rdb, limiterName, quota)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), server+"="+rdb.Options().Addr, name+"="+limiterName)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "queued\n", line)

	// The turn is at the slot, or earlier by no more than the call took.
	reserve := func() (r *fairlimit.Reservation, blur time.Duration) {
		asked := time.Now()
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		return r, time.Since(asked) + time.Millisecond
	}
	before, blurred := reserve()
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	left := before.Delay()
	require.Positive(t, left, "this should be killed before its turns have come")

	previous := before.Slot()
	for i := range ours {
		r, blur := reserve()
		assert.InDelta(t, interval, r.Slot().Sub(previous), float64(blur+blurred), "turn %d", i)
		previous, blurred = r.Slot(), blur
	}
	start := time.Now()
	require.NoError(t, l.Wait(t.Context()))
	assert.False(t, time.Now().Before(previous.Add(interval-blurred)))
	t.Logf("killed %v before our turn; the turns after it are %v apart; ours took %v more",
		left, interval, time.Since(start))
	require.Eventually(t, func() bool { return status(t, l) == fairlimit.Status{Available: 1} },
		5*time.Second, time.Millisecond, "and then it is idle")
}
