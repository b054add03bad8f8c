package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client is one of examples, in another language.
type client struct {
	runtime string
	args    []string
	imports string
	takes   string // a turn of NAME, and prints what it was told
	tries   string // for a turn that is too far away, and prints by how much
	settles string // a turn of 1,200 tokens, of which it uses 700
	fails   string // to settle, and prints what the block did and its own error
}

var clients = []client{
	{
		"python3",
		[]string{"-c"},
		"import sys\nsys.path.insert(0, 'python')\nfrom fairlimit import turn, Refused\n",
		"with turn('NAME', AT) as t: print('went', t.waited_ms)\n",
		"try:\n  with turn('NAME', AT, timeout='1s'): pass\nexcept Refused as r: print('refused', r.args[0] > 3500)\n",
		"with turn('llm', AT, tokens=1200) as t: t.used['tokens'] = 700\n",
		"def go(own):\n  with turn('llm', AT, tokens=1) as t:\n" +
			"    t.used['points'] = 1\n    if own: raise own\n    return 'did it'\n" +
			"print(go(None))\ntry: go(KeyError())\nexcept KeyError: print('own error')\n",
	},
	{
		"node",
		[]string{"--input-type=module", "-e"},
		"const { turn, Refused } = await import('./node/fairlimit.mjs');\n",
		"console.log('went', (await turn('NAME', AT)).waitedMs);\n",
		"try { await turn('NAME', { ...AT, timeout: '1s' }); } catch (e) {\n" +
			"  console.log('refused', e instanceof Refused && e.waitMs > 3.5e6) }\n",
		"const t = await turn('llm', { ...AT, tokens: 1200 });\n" +
			"try { t.used.tokens = 700 } finally { await t[Symbol.asyncDispose]() }\n",
		"const go = async own => { const t = await turn('llm', { ...AT, tokens: 1 });\n" +
			"try { t.used.points = 1; if (own) throw own; return 'did it' } finally { await t[Symbol.asyncDispose]() } };\n" +
			"console.log(await go()); try { await go(new TypeError()) } catch (e) {\n" +
			"  if (e instanceof TypeError) console.log('own error') }\n",
	},
}

// program is one that runs such code.
func (c *client) program(t *testing.T, at, token, code string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(c.runtime)
	if err != nil {
		t.Skipf("this test needs %s", c.runtime)
	}
	address := "token='" + token + "'"
	if at != "" {
		address += ", at='" + at + "'"
	}
	if c.runtime == "node" {
		address = "{ " + strings.ReplaceAll(address, "=", ": ") + " }"
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
			s := started(t, "tcp", llm, func(cfg *Config) {
				cfg.Token, cfg.Quotas["a/b ü"] = "s3cret", cfg.Quotas["tax"]
			})
			out, err := c.program(t, s.url, "s3cret", c.takes+c.tries).Output()
			require.NoError(t, err)
			require.Regexp(t, `(?i)^went \d+\nrefused true\n$`, string(out))

			t.Setenv("FAIRLIMIT_URL", s.url)
			require.NoError(t, c.program(t, "", "s3cret", c.settles).Run())
			require.Equal(t, 1300, s.tokens().Available)

			fails, warned := c.program(t, s.url, "s3cret", c.fails), new(strings.Builder)
			fails.Stderr = warned
			out, err = fails.Output()
			require.NoError(t, err)
			require.Equal(t, "did it\nown error\n", string(out))
			require.Contains(t, warned.String(), "the turn was not settled: ")

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
