package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// asMain makes the test binary the program.
const asMain = "FAIRLIMIT_TEST_ROLLOUT"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	redistest.Main(m)
}

// process is a run of the program.
type process struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		assert.NoError(t, cmd.Wait())
	})
	return &process{t, in, bufio.NewScanner(out)}
}

// calls tries n times, and returns how often it was let through.
func (p *process) calls(n int) (through int) {
	p.t.Helper()
	for range n {
		_, err := fmt.Fprintln(p.in)
		require.NoError(p.t, err)
		require.True(p.t, p.out.Scan(), "it answers")
		if p.out.Text() == "called" {
			through++
		} else {
			assert.Contains(p.t, p.out.Text(), "refused")
		}
	}
	return through
}

func TestWhileTwoVersionsRunEachObeysItsOwnQuota(t *testing.T) {
	t.Parallel()
	name, addr := redistest.Name(t), redistest.Standalone(t).Options().Addr
	old := start(t, "-redis", addr, "-name", name, "-quota", "10/1h")
	assert.Equal(t, 3, old.calls(3))
	deployed := start(t, "-redis", addr, "-name", name, "-quota", "4/1h")
	assert.Equal(t, 1, deployed.calls(2), "what the old one took counts")
	assert.Equal(t, 6, old.calls(8), "the old one goes on, up to its own quota")
	assert.Equal(t, 0, deployed.calls(1))
}

func TestAStoredQuotaHoldsForBothAtOnce(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	addr := rdb.Options().Addr
	old := start(t, "-redis", addr, "-name", name, "-quota", "10/1h", "-stored")
	deployed := start(t, "-redis", addr, "-name", name, "-quota", "20/1h", "-stored")
	assert.Equal(t, 2, old.calls(2))
	assert.Equal(t, 1, deployed.calls(1))

	queue, err := fairlimit.Open(rdb, name)
	require.NoError(t, err)
	require.NoError(t, queue.SetQuotas(t.Context(), fairlimit.PerHour(4)))
	assert.Equal(t, 1, old.calls(2))
	assert.Equal(t, 0, deployed.calls(1))

	require.NoError(t, queue.SetQuotas(t.Context(), fairlimit.PerHour(6)))
	assert.Equal(t, 2, deployed.calls(3))
	assert.Equal(t, 0, old.calls(1))
}
