package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServeToldWrong(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for line, c := range map[string]struct {
		status int
		says   string
	}{
		"serve tax":                          {2, "serve: tax: want NAME=QUOTAS"},
		"serve =1/1s":                        {2, "want NAME=QUOTAS"},
		"serve tax=":                         {2, "serve: tax: no quota"},
		"serve tax=1":                        {2, "serve: tax: duration of"},
		"serve tax=1/1s tax=1/1s":            {2, "serve: tax: it is given twice"},
		"serve -most-waiting 0":              {2, "-most-waiting: want at least 1"},
		"serve -guard 5":                     {2, "-guard: the unit is missing"},
		"serve -token-file " + empty:         {1, "no token"},
		"serve -token-file /nowhere":         {1, "/nowhere: no such file"},
		"serve tax=1/1s":                     {3, "Redis was looked for at 127.0.0.1:1"},
		"serve tax=1/1s -listen 0.0.0.0:0 -": {2, "want NAME=QUOTAS"},
	} {
		r := finish(t, process(nowhere, strings.Fields(line)...))
		assert.Equal(t, c.status, r.status, "%s: %s", line, r.err)
		assert.Contains(t, r.err, c.says, line)
		assert.Empty(t, r.out)
	}
	r := finish(t, process(nowhere, "serve", "tax=60/1m; timeout 3/1m"))
	assert.Equal(t, 2, r.status)
	assert.Contains(t, r.err, `serve: tax: unit "timeout": it needs another name, requests have a parameter timeout`)
	s := newShell(t)
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		r := s.run("serve", "-listen", listen)
		assert.Equal(t, 2, r.status, listen)
		assert.Contains(t, r.err, "give -public as well")
	}
}

func TestServeUntilASignal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("s3cret\n"), 0o600))
	cmd := s.command("serve", "tax=1/1h 5/2h", "a=b=1/1s", "-listen", "127.0.0.1:0", "-token-file", token)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	at, found := strings.CutPrefix(linesOf(out)(), "serving ")
	require.True(t, found)
	for _, name := range []string{"a%3Db", "tax"} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", at+"/v1/queues/"+name+"/turn", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer s3cret")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_ = answer.Body.Close()
		require.Equal(t, 200, answer.StatusCode)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	require.Empty(t, problems.String())
}
