package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// Each loss is what it says.
func TestFaults(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		o := *rdb.(*redis.Client).Options()
		o.ReadTimeout, o.MaxRetries = 200*time.Millisecond, -1
		faulty := redis.NewClient(&o)
		defer redistest.Close(faulty)
		faults, name := redistest.Break(faulty), redistest.Name(t)
		sent := 0
		faults.Watch(func(command []byte) {
			if strings.Contains(string(command), "incr") {
				sent++
			}
		})
		incr := func() error { return faulty.Incr(t.Context(), name).Err() }
		holds := func(want int) {
			t.Helper()
			require.NoError(t, incr())
			require.Equal(t, fmt.Sprint(want), rdb.Get(t.Context(), name).Val())
		}
		holds(1)
		faults.Lose(1, "incr", redistest.Unsent)
		require.ErrorIs(t, incr(), io.EOF)
		holds(2)
		faults.Lose(1, "incr", redistest.Cut)
		require.ErrorIs(t, incr(), io.EOF)
		holds(4)
		faults.Lose(1, "incr", redistest.Unanswered)
		require.ErrorIs(t, incr(), os.ErrDeadlineExceeded)
		holds(6)
		faults.BlackHole()
		start := time.Now()
		require.ErrorIs(t, incr(), os.ErrDeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
		faults.Heal()
		holds(7)
		require.Equal(t, 9, sent)
	})
}
