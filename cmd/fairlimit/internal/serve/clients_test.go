package serve

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// client is one of examples, in another language.
type client struct {
	runtime string
	args    []string
	imports string
	takes   string // a turn of NAME, and prints what it was told
	tries   string // for a turn that is too far away, and prints by how much
}

var clients = []client{
	{
		"python3",
		[]string{"-c"},
		"import sys\nsys.path.insert(0, 'python')\nfrom fairlimit import turn, Refused\n",
		"with turn('NAME', AT) as t: print('went', t['waited_ms'])\n",
		"try:\n  with turn('NAME', AT, timeout='1s'): pass\nexcept Refused as r: print('refused', r.args[0] > 3500)\n",
	},
	{
		"node",
		[]string{"--input-type=module", "-e"},
		"const { turn, Refused } = await import('./node/fairlimit.mjs');\n",
		"console.log('went', (await turn('NAME', AT)).waited_ms);\n",
		"try { await turn('NAME', { ...AT, timeout: '1s' }); } catch (e) {\n" +
			"  console.log('refused', e instanceof Refused && e.waitMs > 3.5e6) }\n",
	},
}

// program is one that runs such code.
func (c *client) program(t *testing.T, at, token, code string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(c.runtime)
	if err != nil {
		t.Skipf("this test needs %s", c.runtime)
	}
	address := "at='" + at + "', token='" + token + "'"
	if c.runtime == "node" {
		address = "{ at: '" + at + "', token: '" + token + "' }"
	}
	code = strings.NewReplacer("AT", address, "NAME", "a/b ü").Replace(c.imports + code)
	cmd := exec.Command(path, append(c.args, code)...)
	cmd.Dir, err = filepath.Abs("../../../../examples")
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestClientsInOtherLanguages(t *testing.T) {
	for _, c := range clients {
		t.Run(c.runtime, func(t *testing.T) {
			s := started(t, "tcp", func(cfg *Config) {
				cfg.Token, cfg.Quotas["a/b ü"] = "s3cret", cfg.Quotas["tax"]
			})
			out, err := c.program(t, s.url, "s3cret", c.takes+c.tries).Output()
			require.NoError(t, err)
			require.Regexp(t, `(?i)^went \d+\nrefused true\n$`, string(out))

			waits := c.program(t, s.url, "s3cret", c.takes)
			require.NoError(t, waits.Start())
			require.Eventually(t, func() bool { return s.queued("a/b ü") == 1 }, patience, time.Millisecond)
			require.NoError(t, waits.Process.Kill())
			_ = waits.Wait()
			require.Eventually(t, func() bool { return s.queued("a/b ü") == 0 }, patience, time.Millisecond)

			denied := c.program(t, s.url, "wrong", c.takes)
			denied.Stderr = nil
			require.Error(t, denied.Run())
		})
	}
}

func TestThePythonClientOverASocket(t *testing.T) {
	s := started(t, "unix")
	python := clients[0]
	out, err := python.program(t, "unix://"+s.path, "", strings.ReplaceAll(python.takes, "NAME", "fast")).Output()
	require.NoError(t, err)
	require.Regexp(t, `^went \d+\n$`, string(out))
}

// Programs in three languages, each with one caller, take turns in one order.
// So each has as many, and the upstream never sees more than its quota.
func TestThreeLanguagesShareOneQueueInOrder(t *testing.T) {
	quota := fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1} // so that each stands in line
	guard := fairlimit.WithGuard(200 * time.Millisecond)              // programs that others keep waiting call late
	s := started(t, "tcp", func(c *Config) {
		c.Quotas["a/b ü"], c.Guard = []fairlimit.Quota{quota}, []fairlimit.Option{guard}
	})
	u := &upstream{seen: map[string]int{}}
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	ctx, stop := context.WithTimeout(t.Context(), redistest.Long(5*time.Second, time.Minute))
	defer stop()
	for i, loop := range []string{
		"import urllib.request\nwhile True:\n  with turn('NAME', AT):\n" +
			"    urllib.request.urlopen('" + server.URL + "/python').read()\n",
		"for (;;) { await turn('NAME', AT); await (await fetch('" + server.URL + "/node')).text(); }\n",
	} {
		program := clients[i].program(t, s.url, "", loop)
		require.NoError(t, program.Start())
		t.Cleanup(func() {
			_ = program.Process.Kill()
			_ = program.Wait()
		})
	}
	require.Eventually(t, func() bool { return len(u.counts()) == 2 }, patience, time.Millisecond, "both have begun")
	before := u.counts()
	limiter, err := fairlimit.New(s.rdb, "a/b ü", quota, guard, fairlimit.WithPrefix(s.Prefix))
	require.NoError(t, err)
	for limiter.Wait(ctx) == nil {
		answer, err := http.Get(server.URL + "/go")
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	after := u.counts()
	t.Log(before, after, "at most", u.seconds(), "in a second")
	for _, language := range []string{"python", "node"} {
		require.Greater(t, after[language], before[language])
	}
	if redistest.Long(false, true) { // on a machine with nothing else to do
		require.LessOrEqual(t, u.seconds(), quota.Permits)
		for _, language := range []string{"python", "node"} {
			require.InEpsilon(t, after["go"], after[language]-before[language], 0.1, language)
		}
	}
}

// upstream is strict: it counts who calls, and the most in any second.
type upstream struct {
	mu   sync.Mutex
	seen map[string]int
	last []time.Time // calls of the last second
	most int
}

func (u *upstream) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	u.seen[strings.TrimPrefix(r.URL.Path, "/")]++
	u.last = append(u.last, now)
	for now.Sub(u.last[0]) >= time.Second {
		u.last = u.last[1:]
	}
	u.most = max(u.most, len(u.last))
}

// seconds is the most calls in any second.
func (u *upstream) seconds() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.most
}

func (u *upstream) counts() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.seen)
}
