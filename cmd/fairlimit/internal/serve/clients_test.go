package serve

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs in other languages use the clients of the examples, see testdata.
func TestClientsInOtherLanguages(t *testing.T) {
	for _, c := range []struct{ program, file, network string }{
		{"python3", "client.py", "tcp"}, {"python3", "client.py", "unix"}, {"node", "client.mjs", "tcp"},
	} {
		t.Run(c.program+" "+c.network, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skipf("this test needs %s", c.program)
			}
			s := started(t, c.network, llm, func(cfg *Config) {
				cfg.Token, cfg.Quotas["a/b ü"] = "s3cret", quotas("1/1h")
			})
			client := func(token, act string) (cmd *exec.Cmd, warned *strings.Builder) {
				cmd, warned = exec.Command(c.program, "testdata/"+c.file, token, act), new(strings.Builder)
				cmd.Env = append(os.Environ(), "FAIRLIMIT_URL="+s.url, "PYTHONDONTWRITEBYTECODE=1")
				cmd.Stderr = warned
				return cmd, warned
			}
			for _, step := range []struct{ act, says, warns string }{
				{"wait", `^went \d+\n$`, `^$`},
				{"try", `^refused (T|t)rue\n$`, `^$`},
				{"settle", `^$`, `^$`},
				{"fail", `^own error\n$`, `the turn was not settled: `},
			} {
				cmd, warned := client("s3cret", step.act)
				out, err := cmd.Output()
				require.NoError(t, err, warned)
				require.Regexp(t, step.says, string(out))
				require.Regexp(t, step.warns, warned.String())
			}
			require.Equal(t, 1299, s.tokens())

			waits, _ := client("s3cret", "wait")
			require.NoError(t, waits.Start())
			s.until(func() bool { return s.queued("a/b ü") == 1 })
			require.NoError(t, waits.Process.Kill())
			_ = waits.Wait()
			s.until(func() bool { return s.queued("a/b ü") == 0 })

			denied, _ := client("wrong", "wait")
			require.Error(t, denied.Run())
		})
	}
}
