package serve

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// opened is the page as a browser shows it, three seconds of its time later. The
// test fails for what the browser complains of, such as its security policy.
func opened(t *testing.T, url string) string {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
		}
	}
	if program == "" {
		t.Skip("this test needs Chromium")
	}
	problems := new(strings.Builder)
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--enable-logging=stderr",
		"--virtual-time-budget=3000", "--dump-dom", url)
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+t.TempDir()), problems
	text, err := cmd.Output()
	require.NoError(t, err, problems)
	require.NotRegexp(t, "(?i)Content Security Policy|Uncaught", problems.String())
	shown, _, _ := strings.Cut(string(text), "<script>")
	_, shown, _ = strings.Cut(shown, "<body>")
	return shown
}

func TestThePageDrawsTheLine(t *testing.T) {
	s := started(t, "tcp", func(c *Config) {
		c.Quotas = map[string]Quotas{"tax": quotas("2/1h")}
		c.Quotas[`<img src=x onerror="alert(1)">`] = quotas("1/1h; tokens 500/1h")
	})
	for _, path := range []string{"turn", "reserve", "reserve?flow=billing&weight=3"} {
		require.Equal(t, 200, s.do("POST", "/v1/queues/tax/"+path).status)
	}
	page := opened(t, s.url)
	assert.Regexp(t, `>2/1h · 1 queued · 0 available · next free in (1\.0 h|60 min) · paused: no · `, page)
	assert.Regexp(t, `<circle class="turn" cx="[3-6]\d\d[^"]*" cy="20" r="3"><title>1 permit<`, page, "it is ahead")
	assert.Contains(t, page, "<td>billing</td><td>3</td><td>1</td>")
	assert.Contains(t, page, "<p>tokens 500/1h · 0 queued · 500 available</p>")
	assert.Contains(t, page, `<h2>&lt;img src=x onerror="alert(1)"&gt;</h2>`, "a name is a text")
	assert.Contains(t, page, `<form id="login" hidden="">`)
}

func TestThePageAsksForTheToken(t *testing.T) {
	s := started(t, "tcp", func(c *Config) { c.Token = "s3cret" })
	require.Contains(t, opened(t, s.url), `<form id="login">`)
}
