package run

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// TestMain makes the test binary a client that behaves as its role says.
func TestMain(m *testing.M) {
	orders := bufio.NewScanner(os.Stdin)
	switch os.Getenv(Role) {
	case "":
		os.Exit(m.Run())
	case ClientRole:
		ClientMain()
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot find my feet")
		os.Exit(3)
	case "dies at work":
		orders.Scan()
		fmt.Println(`{"Result":null}`)
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
		fmt.Println(`{"Result":null}`)
		for orders.Scan() {
		}
		fmt.Println(`{"Result":{"Calls":[{"client":0,"seq":1}],"RedisCalls":5,"Stalls":[{"from":3,"to":4}]}}`)
	}
}

func TestWhatClientsTellComesBack(t *testing.T) {
	f, err := Launch(t.Context(), "does its job", []Job{{Client: 0}, {Client: 1}})
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
	_, err := Launch(t.Context(), "dies at once", []Job{{Client: 6}})
	require.ErrorContains(t, err, "client 6")
	require.ErrorContains(t, err, "cannot find my feet")

	_, err = Launch(t.Context(), "cannot", []Job{{}})
	require.ErrorContains(t, err, "no Redis")
}

func TestAClientThatDiesAtWorkIsToldOf(t *testing.T) {
	f, err := Launch(t.Context(), "dies at work", []Job{{}})
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
	f, err := Launch(t.Context(), "does its job", []Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Start(1))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, f.befall(scenario.Kill))
	told, err := f.Stop()
	require.NoError(t, err)
	require.Empty(t, told[0].Calls)
	require.Empty(t, f.Died())
}

func TestASleepingClientIsWokenToBeSentHome(t *testing.T) {
	f, err := Launch(t.Context(), "does its job", []Job{{Client: 0}})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.befall(scenario.Suspend))
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
	_, err := Launch(ctx, "never ready", []Job{{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
