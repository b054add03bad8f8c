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
	kilobytes := func() int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
		require.NoError(t, err)
		pages, err := strconv.Atoi(strings.Fields(string(text))[1])
		require.NoError(t, err)
		return pages * os.Getpagesize() / 1024
	}
	before := kilobytes()
	const callers = 2000
	for range callers + 1 {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "POST /v1/queues/tax/turn?timeout=9000h HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.looked("tax").Queued >= callers }, time.Minute, 50*time.Millisecond)
	cost := kilobytes() - before
	t.Logf("%d callers that wait: %d KB", callers, cost)
	require.Less(t, cost, 40_000)
}
