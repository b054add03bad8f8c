package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/speed"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestFlagsOfSpeed(t *testing.T) {
	r, path, err := parseSpeed(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, speed.Full, r.Scale)
	require.Equal(t, speed.Names(), r.Groups)
	require.Empty(t, r.Redis, "one of its own")
	require.Empty(t, path)

	r, path, err = parseSpeed([]string{"-quick", "-rows", "alone, crowd", "-redis", "localhost:1", "-json", "-"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, speed.Quick, r.Scale)
	require.Equal(t, []string{"alone", "crowd"}, r.Groups)
	require.Equal(t, "localhost:1", r.Redis)
	require.Equal(t, "-", path)
}

func TestWhatSpeedCannotDoIsToldInOneLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		path string
		says string
	}{
		"no such flag":     {[]string{"-nothing"}, "", "-h"},
		"an argument":      {[]string{"alone"}, "", "-h"},
		"no such row":      {[]string{"-rows", "nothing"}, "", "throughput"},
		"no server":        {nil, t.TempDir(), "no redis-server in PATH"},
		"server away":      {[]string{"-redis", "127.0.0.1:1"}, "", "leave -redis out"},
		"nowhere to write": {[]string{"-json", t.TempDir()}, "", "-json"},
	} {
		t.Run(name, func(t *testing.T) {
			p := bench(t.Context(), t, append([]string{"speed"}, c.args...)...)
			if c.path != "" {
				p.Env = append(p.Env, "PATH="+c.path, "FAIRLIMIT_REDIS_SERVER=")
			}
			p.cannotRun(t, c.says)
		})
	}
}

func TestCtrlCShowsTheSpeedsThatWereMeasured(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	path := filepath.Join(t.TempDir(), "speed.json")
	bounded, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := bench(bounded, t, "speed", "-quick", "-redis", server.Addr(), "-rows", "batch,throughput", "-json", path)
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		return err == nil && len(text) > 0
	}, 50*time.Second, 10*time.Millisecond, "nothing was measured")

	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.status(t, p.Wait()), p.stderr.String())
	require.Contains(t, p.stdout.String(), "ten at a slot")
	require.NotContains(t, p.stdout.String(), "processes")
	require.NotContains(t, p.stderr.String(), "not measured")
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var f speed.Figure
	require.NoError(t, json.NewDecoder(file).Decode(&f))
	require.Equal(t, "batch", f.Row)

	left, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left)
}
