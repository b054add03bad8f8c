package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Each program runs four callers. A caller waits for its turn, says so to the
// upstream, and begins again. All clocks are the same: see measure.Now.
var programs = [][]string{
	{"python3", "-c", `
import json, sys, threading, time, urllib.request
sys.path.insert(0, 'python')
from fairlimit import turn
def caller(i):
  for seq in range(10**6):
    called = time.monotonic_ns()
    with turn('tax', 'AT'):
      call = dict(client=0, caller=i, seq=seq, permits=1, called=called, ended=time.monotonic_ns(), outcome='granted')
      urllib.request.urlopen('UPSTREAM', json.dumps(call).encode()).read()
for i in range(4): threading.Thread(target=caller, args=(i,)).start()
`},
	{"node", "--input-type=module", "-e", `
const { turn } = await import('./node/fairlimit.mjs');
const now = () => Number(process.hrtime.bigint());
async function caller(i) {
  for (let seq = 0;; seq++) {
    const called = now();
    await turn('tax', { at: 'AT' });
    const call = { client: 1, caller: i, seq, permits: 1, called, ended: now(), outcome: 'granted' };
    await (await fetch('UPSTREAM', { method: 'POST', body: JSON.stringify(call) })).text();
  }
}
for (let i = 0; i < 4; i++) caller(i);
`},
}

// Programs in Python, Node and Go share one queue, and the upstream judges them
// as it judges engines.
func TestThreeLanguagesShareOneQueueInOrder(t *testing.T) {
	for _, p := range programs {
		if _, err := exec.LookPath(p[0]); err != nil {
			t.Skipf("this test needs %s", p[0])
		}
	}
	// The guard is long: programs that others keep waiting call late.
	quota, guard := fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1}, 200*time.Millisecond
	server := redistest.StartServer(t)
	at := serves(t, "tax="+quota.String(), "-redis", server.Addr(), "-guard", guard.String())
	limits := measure.Limits{Permits: quota.Permits, Per: quota.Per}
	ledger := measure.NewLedger(limits, measure.Now)
	upstream := run.Serve(ledger)
	t.Cleanup(upstream.Close)
	for _, p := range programs {
		code := strings.NewReplacer("AT", at, "UPSTREAM", upstream.URL).Replace(p[len(p)-1])
		begin(t, exec.Command(p[0], append(p[1:len(p)-1:len(p)-1], code)...))
	}
	require.Eventually(t, func() bool { return ledger.Count() > 20 }, time.Minute, time.Millisecond, "nobody calls")

	machine := run.Watch(1, nil)
	log := measure.Log{Begin: measure.Now(), Callers: []int{4, 4, 4}}
	log.Machine.Clients, log.Machine.Missed = make([][]measure.Stall, 3), make([][]time.Duration, 3)
	callInGo(t, server.Client(), quota, guard, upstream.URL, 5*time.Second)
	log.End, log.Machine.Common = measure.Now(), machine.Close()
	for _, c := range ledger.Arrivals() {
		if c.Called >= log.Begin {
			log.Calls = append(log.Calls, c)
		}
	}
	stall := log.Machine.Worst(false)
	blur := 50*time.Millisecond + stall
	f := measure.Of(log, measure.Rule{Limits: limits, Guard: guard, Apart: blur})
	t.Logf("%d calls, at most %d in a second, %d rejected, %d overtaken", f.Grants, f.MaxInWindow,
		f.UpstreamRejections, f.Inversions)
	t.Logf("the machine: %d and %d, at worst %v late; shares %v", f.MachineRejections, f.MachineInversions, blur, f.Shares)
	require.Zero(t, f.UpstreamRejections)
	if stall < guard/2 { // else callers miss turns, and lose their places
		require.Zero(t, f.Inversions)
	}
	require.Greater(t, f.Jain, 0.97, "each has as many turns")
}

// serves starts fairlimit serve, and returns where.
func serves(t *testing.T, args ...string) (at string) {
	program := filepath.Join(t.TempDir(), "fairlimit")
	build := exec.Command("go", "build", "-o", program, "github.com/fairlimit/fairlimit/cmd/fairlimit")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program, append([]string{"serve", "-listen", "127.0.0.1:0"}, args...)...)
	says, err := cmd.StdoutPipe()
	require.NoError(t, err)
	begin(t, cmd)
	line, err := bufio.NewReader(says).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "serving "))
}

// begin starts a program that ends with the test.
func begin(t *testing.T, cmd *exec.Cmd) {
	cmd.Dir, cmd.Stderr = filepath.Join("..", "examples"), os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func callInGo(
	t *testing.T, rdb *redis.Client, quota fairlimit.Quota, guard time.Duration, url string, d time.Duration,
) {
	limiter, err := fairlimit.New(rdb, "tax", quota, fairlimit.WithGuard(guard))
	require.NoError(t, err)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			v, err := run.NewVisitor(t.Context(), url, nil)
			for seq, end := 0, time.Now().Add(d); err == nil && time.Now().Before(end); seq++ {
				c := measure.Call{Client: 2, Caller: i, Seq: seq, Permits: 1, Called: measure.Now(), Outcome: measure.Granted}
				if err = limiter.Wait(t.Context()); err == nil {
					c.Ended = measure.Now()
					_, err = v(t.Context(), c)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}
