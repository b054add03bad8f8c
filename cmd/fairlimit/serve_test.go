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

func TestAnAddressThatOthersReachIsPublic(t *testing.T) {
	t.Parallel()
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
