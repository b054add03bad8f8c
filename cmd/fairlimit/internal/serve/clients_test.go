package serve

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// client is a program in another language that does something with the client of
// examples, see testdata.
func client(t *testing.T, url, language, token, act string) (cmd *exec.Cmd, out, warned *strings.Builder) {
	t.Helper()
	program, file := "python3", "testdata/client.py"
	if language == "node" {
		program, file = "node", "testdata/client.mjs"
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("this test needs %s", program)
	}
	cmd = exec.Command(program, file, token, act)
	cmd.Env = append(os.Environ(), "FAIRLIMIT_URL="+url, "PYTHONDONTWRITEBYTECODE=1")
	out, warned = new(strings.Builder), new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, warned
	return cmd, out, warned
}

func TestClientsInOtherLanguages(t *testing.T) {
	for _, c := range []struct{ language, network string }{{"python", "tcp"}, {"python", "unix"}, {"node", "tcp"}} {
		t.Run(c.language+" "+c.network, func(t *testing.T) {
			s := started(t, c.network, llm, func(cfg *Config) {
				cfg.Token, cfg.Quotas["a/b ü"] = "s3cret", quotas("1/1h")
			})
			url := s.url
			if c.network == "unix" {
				url = "unix://" + s.path
			}
			for _, step := range []struct{ act, says, warns string }{
				{"wait", `^went \d+\n$`, `^$`},
				{"try", `^refused (T|t)rue\n$`, `^$`},
				{"settle", `^$`, `^$`},
				{"fail", `^own error\n$`, `the turn was not settled: `},
			} {
				cmd, out, warned := client(t, url, c.language, "s3cret", step.act)
				require.NoError(t, cmd.Run(), warned)
				require.Regexp(t, step.says, out.String())
				require.Regexp(t, step.warns, warned.String())
			}
			require.Equal(t, 1299, s.tokens())

			waits, _, _ := client(t, url, c.language, "s3cret", "wait")
			require.NoError(t, waits.Start())
			s.until(func() bool { return s.queued("a/b ü") == 1 })
			require.NoError(t, waits.Process.Kill())
			_ = waits.Wait()
			s.until(func() bool { return s.queued("a/b ü") == 0 })

			denied, _, _ := client(t, url, c.language, "wrong", "wait")
			require.Error(t, denied.Run())
		})
	}
}
