//go:build !race

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The race detector multiplies memory, so this is for a run without it.
func TestThousandsThatWaitCostLittle(t *testing.T) {
	s := newShell(t)
	socket := filepath.Join(t.TempDir(), "s")
	cmd := s.command("serve", "tax=1/1h", "-listen", "unix://"+socket)
	lines, _ := start(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Equal(t, "serving unix://"+socket, lines())
	number := func(file string, field int) int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.Fields(string(text))[field])
		require.NoError(t, err)
		return n
	}
	kilobytes := func() int { return number("statm", 1) * os.Getpagesize() / 1024 }
	ticks := func() int { return number("stat", 13) + number("stat", 14) } // of the user and of the system
	before := kilobytes()
	const callers = 2000
	for range callers + 1 {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "POST /v1/queues/tax/turn?timeout=9000h HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	for !strings.Contains(s.does("look", "tax"), fmt.Sprintf("backlog   %d permits", callers)) {
	}
	cost, busy := kilobytes()-before, ticks()
	time.Sleep(3 * time.Second) // in which nothing is to happen
	busy = ticks() - busy
	t.Logf("%d callers that wait: %d KB, %d ticks of 10 ms in 3 s", callers, cost, busy)
	require.Less(t, cost, 40_000)
	require.LessOrEqual(t, busy, 2)
}
