package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asMain makes the test binary the program.
const asMain = "FAIRLIMIT_TEST_SHUTDOWN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	redistest.Main(m)
}

func TestSIGTERMLeavesNoPermitUnused(t *testing.T) {
	terminate(t, redistest.Standalone(t).Options().Addr, 100, "begun")
}

func TestSIGTERMLeavesNoPermitUnusedWhereRedisIsFarAway(t *testing.T) {
	proxy := redistest.StartProxy(t)
	proxy.Delay(200 * time.Millisecond)
	// They are too many to be given back at once, and no call is left whose end
	// the process would wait for.
	terminate(t, proxy.Addr(redistest.Standalone(t).Options().Addr), 500, "done")
}

// terminate sends SIGTERM to a program that reaches Redis at the address, after
// it has said so. Then it looks at what the program leaves.
func terminate(t *testing.T, addr string, waiters int, after string) {
	t.Helper()
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	queue, err := fairlimit.Open(rdb, name)
	require.NoError(t, err)

	process := exec.Command(os.Args[0], "-redis", addr, "-name", name, "-callers", fmt.Sprint(waiters+1))
	process.Env = append(os.Environ(), asMain+"=1")
	process.Stderr = os.Stderr
	pipe, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill() })
	output := bufio.NewScanner(pipe)
	var lines []string
	for len(lines) == 0 || lines[len(lines)-1] != after {
		require.True(t, output.Scan(), "the first call begins at once")
		lines = append(lines, output.Text())
	}
	require.Eventually(t, func() bool {
		status, err := queue.Status(t.Context())
		return err == nil && status.Queued >= waiters-1 // the second turn may have come, on a slow machine
	}, 30*time.Second, 10*time.Millisecond)

	require.NoError(t, process.Process.Signal(syscall.SIGTERM))
	for output.Scan() {
		lines = append(lines, output.Text())
	}
	require.NoError(t, process.Wait(), "it ends by itself")
	assert.Equal(t, strings.Count(strings.Join(lines, " "), "begun"), strings.Count(strings.Join(lines, " "), "done"),
		"calls that had begun were let end")

	status, err := queue.Status(t.Context())
	require.NoError(t, err)
	assert.Zero(t, status.Queued)
	assert.LessOrEqual(t, status.Delay, 10*time.Second, "as if only those had come who went")
}
