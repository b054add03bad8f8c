package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	redistest.Main(m)
}

// TestAServerIsGoneWithItsTestBinary kills another run of this binary, in which
// this same test starts a server and waits.
func TestAServerIsGoneWithItsTestBinary(t *testing.T) {
	t.Parallel()
	const inner = "REDISTEST_INNER"
	if os.Getenv(inner) != "" {
		s := redistest.StartServer(t)
		fmt.Println(s.Addr())
		select {}
	}
	_ = redistest.Standalone(t) // skips where there is no Redis

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inner+"=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr = strings.TrimSpace(addr)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, 10*time.Second, 10*time.Millisecond)
}
