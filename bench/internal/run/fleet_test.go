package run

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

	"github.com/fairlimit/fairlimit/bench/internal/measure"
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
		fmt.Println(`{}`)
		orders.Scan()
		os.Exit(4)
	case "cannot":
		orders.Scan()
		fmt.Println(`{"Error":"no Redis"}`)
		os.Exit(1)
	case "never ready":
		for orders.Scan() { // until the orders end
		}
	case "does its job":
		orders.Scan()
		fmt.Println(`{}`)
		for orders.Scan() {
		}
		fmt.Println(`{"Calls":[{"client":0,"seq":1}],"RedisCalls":5,"Stalls":[{"from":3,"to":4}]}`)
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
	f, err := Launch(t.Context(), clients("does its job"), []Job{{Client: 0}, {Client: 1}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	told, err := f.Stop()
	require.NoError(t, err)
	require.Len(t, told, 2)
	for _, one := range told {
		require.Len(t, one.Calls, 1)
		require.Equal(t, 5, one.RedisCalls)
		require.Equal(t, []measure.Stall{{From: 3, To: 4}}, one.Stalls)
	}
}

func TestAClientThatCannotBeginIsToldOf(t *testing.T) {
	_, err := Launch(t.Context(), clients("dies at once"), []Job{{Client: 6}})
	require.ErrorContains(t, err, "client 6")
	require.ErrorContains(t, err, "cannot find my feet")

	_, err = Launch(t.Context(), clients("cannot"), []Job{{}})
	require.ErrorContains(t, err, "no Redis")
}

func TestAClientThatDiesAtWorkIsToldOf(t *testing.T) {
	f, err := Launch(t.Context(), clients("dies at work"), []Job{{}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	select {
	case err := <-f.Died():
		require.ErrorContains(t, err, "exit status 4")
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed")
	}
	told, _ := f.Stop()
	require.Empty(t, told[0].Calls)
}

func TestAClientThatIsKilledOnPurposeIsNoFault(t *testing.T) {
	f, err := Launch(t.Context(), clients("does its job"), []Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, f.Kill(0))
	told, err := f.Stop()
	require.NoError(t, err)
	require.Empty(t, told[0].Calls)
	require.Empty(t, f.Died())
}

func TestASleepingClientIsWokenToBeSentHome(t *testing.T) {
	f, err := Launch(t.Context(), clients("does its job"), []Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	if err := f.Suspend(0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, f.Start(1))
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	told, err := f.Stop()
	require.NoError(t, err)
	require.Len(t, told[0].Calls, 1)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Launch(ctx, clients("never ready"), []Job{{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
