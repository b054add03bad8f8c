package fair

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// shows requires each line of a state to be in the documentation, with the
// server, the generation and the epoch that it has there.
func shows(t *testing.T, doc, state string) {
	t.Helper()
	for _, line := range strings.Split(strings.Trim(state, "\n"), "\n") {
		line = strings.TrimRight(strings.ReplaceAll(line, "\x00", ""), " ")
		if len(line) == firstLineBytes-1 {
			line = line[:2] + "77a6222 k3x9q2ab 39a85018" + line[27:]
		}
		require.Contains(t, doc, "\n//\t"+line+"\n")
	}
}

func TestTheSamplesInTheDocumentationAreStates(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	doc := strings.ReplaceAll(string(text), " \\\n//\t", " ") // a line that is too long is broken
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		for range 5 {
			queued(t, f, 1, 1)
		}
		shows(t, doc, w.rdb.Get(t.Context(), f.key).Val())
		pause(t, f, 30*time.Second)
		lines := strings.SplitN(w.rdb.Get(t.Context(), f.key).Val(), "\n", 5)
		shows(t, doc, strings.Join(lines[:4], "\n"))
		shows(t, doc, lines[4][ringCells*cellBytes:])

		f, _ = w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		other := f.joins(t, engine.Quota{Permits: 3, Per: time.Second})
		f.member, other.member = "00a", "00b"
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 3)
		askFor(t, other, engine.Flow{ID: "b", Weight: 2}, 2)
		state := w.rdb.Get(t.Context(), f.key).Val()
		shows(t, doc, state[f.layout[0].(int)+1+ringCells*cellBytes+noteBytes:])
	})
}

// Every part of the scripts of callers is explained.
func TestTheDocumentationNamesTheParts(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, part := range storedScripts.take.Parts() {
		require.Contains(t, string(doc), "\n//\t"+strings.TrimPrefix(part, "fair/")+" ")
	}
}
