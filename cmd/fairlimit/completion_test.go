package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// What a shell offers is up to cobra, but for the names of queues.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, name := range []string{"tax-office", "other", "with space"} {
		s.backlog(name, fairlimit.Every(time.Hour), 1)
	}
	for line, want := range map[string]string{
		"l":                         "look ls",
		"look ":                     "other tax-office",
		"look -json ":               "other tax-office",
		"look other ":               "",
		"wait -quota 1/1s ":         "other tax-office",
		"look -redis 127.0.0.1:1 ":  "",
		"look -prefix nobody-has: ": "",
	} {
		words := strings.Split(line, " ")
		r := s.run(append([]string{"__complete"}, words...)...)
		require.Zero(t, r.status, r.err)
		var offered []string
		for candidate := range strings.Lines(r.out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(candidate), "\t"); !strings.HasPrefix(word, ":") {
				offered = append(offered, word)
			}
		}
		assert.Equal(t, want, strings.Join(offered, " "), line)
	}
	require.Contains(t, s.does("completion", "bash"), "__start_fairlimit")
}
