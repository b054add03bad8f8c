package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/fleet"
	"github.com/fairlimit/fairlimit/bench/internal/wire"
)

// behave, in the environment, makes the test binary a client that behaves in this way.
const behave = "FAIRLIMIT_BENCH_TEST_CLIENT"

func TestMain(m *testing.M) {
	orders := bufio.NewScanner(os.Stdin)
	switch os.Getenv(behave) {
	case "":
		os.Exit(m.Run())
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot find my feet")
		os.Exit(3)
	case "dies at work":
		orders.Scan()
		fmt.Println(`{"ready":true}`)
		orders.Scan()
		fmt.Println(`{"call":{"client":0,"seq":7}}`)
		os.Exit(4)
	case "cannot":
		orders.Scan()
		fmt.Println(`{"failed":"no Redis"}`)
		os.Exit(1)
	case "never ready":
		for orders.Scan() { // until the orders end
		}
	case "does its job":
		orders.Scan()
		fmt.Println(`{"ready":true}`)
		orders.Scan()
		fmt.Println(`{"call":{"client":0,"seq":1}}`)
		orders.Scan()
		fmt.Println(`{"call":{"client":0,"seq":2}}`)
		fmt.Println(`{"done":{"redis_calls":5}}`)
	}
}

func clients(behaviour string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), behave+"="+behaviour)
		return cmd
	}
}

func TestWhatClientsTellComesBack(t *testing.T) {
	f, err := fleet.Launch(t.Context(), clients("does its job"), []wire.Job{{Client: 0}, {Client: 1}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	calls, sent, err := f.Stop()
	require.NoError(t, err)
	require.Len(t, calls, 4)
	require.Equal(t, 10, sent)
}

func TestAClientThatCannotBeginIsToldOf(t *testing.T) {
	_, err := fleet.Launch(t.Context(), clients("dies at once"), []wire.Job{{Client: 6}})
	require.ErrorContains(t, err, "client 6")
	require.ErrorContains(t, err, "cannot find my feet")

	_, err = fleet.Launch(t.Context(), clients("cannot"), []wire.Job{{}})
	require.ErrorContains(t, err, "no Redis")
}

func TestAClientThatDiesAtWorkIsToldOfAndWhatItToldStays(t *testing.T) {
	f, err := fleet.Launch(t.Context(), clients("dies at work"), []wire.Job{{}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	select {
	case err := <-f.Died():
		require.ErrorContains(t, err, "exit status 4")
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed")
	}
	calls, _, _ := f.Stop()
	require.Len(t, calls, 1)
	require.Equal(t, 7, calls[0].Seq)
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := fleet.Launch(ctx, clients("never ready"), []wire.Job{{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
