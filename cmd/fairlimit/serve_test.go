package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAddressThatOthersReachIsPublic(t *testing.T) {
	s := newShell(t)
	s.ends(2, "serve -listen :0", "give -public as well")
	s.ends(2, "serve -listen x", "want host:port, or unix:///path")
}

func TestServeUntilASignal(t *testing.T) {
	s := newShell(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("s3cret\n"), 0o600))
	cmd := s.command("serve", "tax=1/1h 5/2h", "a=b=1/1s", "-listen", "127.0.0.1:0", "-token-file", token)
	lines, problems := s.start(cmd)
	at, found := strings.CutPrefix(lines(), "serving ")
	require.True(t, found)
	turn := func(name string) int {
		r, err := http.NewRequestWithContext(t.Context(), "POST", at+"/v1/queues/"+name+"/turn", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer s3cret")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	require.Equal(t, 200, turn("a%3Db"))
	require.Equal(t, 200, turn("tax"))
	waits := make(chan int)
	go func() { waits <- turn("tax") }()
	for !strings.Contains(s.does("look tax"), "  backlog   1,") {
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 503, <-waits)
	require.Empty(t, problems())
	require.NoError(t, cmd.Wait())
	require.Contains(t, s.does("look tax"), "  backlog   0\n", "the turn was given back")
}
