package fleet_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/fleet"
	"github.com/fairlimit/fairlimit/bench/internal/wire"
)

// behave, in the environment, makes the test binary a client that behaves in
// this way.
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
	case "done before it began":
		orders.Scan()
		fmt.Println(`{"done":{}}`)
	case "works for ever":
		orders.Scan()
		fmt.Println(`{"ready":true}`)
		for orders.Scan() {
			fmt.Println(`{"call":{"client":0,"seq":1},"redis_calls":3}`)
		}
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

func TestLaunchDoesNotWaitForTheDead(t *testing.T) {
	_, err := fleet.Launch(t.Context(), clients("done before it began"), []wire.Job{{Client: 3}})
	require.ErrorContains(t, err, "client 3 ended before it was ready")
}

func TestAClientThatIsKilledOnPurposeIsNoFaultAndWhatItToldStays(t *testing.T) {
	f, err := fleet.Launch(t.Context(), clients("works for ever"), []wire.Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, f.Kill(0))
	calls, sent, err := f.Stop()
	require.NoError(t, err)
	require.Len(t, calls, 1)
	require.Equal(t, 3, sent)
	require.Empty(t, f.Died())
}

func TestASleepingClientIsWokenToBeSentHome(t *testing.T) {
	f, err := fleet.Launch(t.Context(), clients("does its job"), []wire.Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	if err := f.Suspend(0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, f.Start(1))
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	calls, _, err := f.Stop()
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := fleet.Launch(ctx, clients("never ready"), []wire.Job{{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
