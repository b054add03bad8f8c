package fair

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestTheSamplesInTheDocumentationAreStates(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	inBothWorlds(t, func(t *testing.T, w world) {
		shows := func(f *fair, generation, epoch string) {
			t.Helper()
			state := w.rdb.Get(t.Context(), f.key).Val()
			for line := range strings.Lines(state) {
				line = strings.TrimSuffix(line, "\n")
				if len(line) == 76 {
					line = "77a6222 " + generation + " " + epoch + line[25:]
				}
				require.Contains(t, string(doc), "\n//\t"+line+"\n")
			}
		}
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		for range 5 {
			queued(t, f, 1, 1)
		}
		shows(f, "k3x9q2ab", "39a85018")
		f, at := w.queue(t,
			engine.Quota{Permits: 20, Per: time.Second, Burst: 1},
			engine.Quota{Permits: 100, Per: 2 * time.Minute})
		queued(t, f, 5, 1)
		at(300 * time.Millisecond)
		queued(t, f, 1, 1)
		shows(f, "3i7wfy7i", "39a85018")
		f, _ = w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		queued(t, f, 5, 1)
		pause(t, f, 30*time.Second)
		shows(f, "v0c9s41m", "39a85018")
	})
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		for range 4 {
			queued(t, f, 1, 1)
		}
		moves(t, f)
		at(400 * time.Millisecond)
		queued(t, f, 2, 1)
		lines := strings.Split(w.rdb.Get(t.Context(), f.key).Val(), "\n")
		require.Len(t, lines, 3)
		for i, names := range []string{1: "epochs 39a85018", 2: "5b11f04 k3x9q2ab c4d20f6e"} {
			if i > 0 {
				require.Contains(t, string(doc), "\n//\t"+names+lines[i][len(names):]+"\n")
			}
		}
	})
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		other := f.joins(t, engine.Quota{Permits: 3, Per: time.Second})
		f.member, other.member = "00a", "00b"
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 3)
		askFor(t, other, engine.Flow{ID: "b", Weight: 2}, 2)
		state := w.rdb.Get(t.Context(), f.key).Val()
		require.Equal(t, 1, strings.Count(state, "\nflows "))
		for line := range strings.Lines(state) {
			if strings.HasPrefix(line, "flows ") {
				require.Contains(t, string(doc), "\n//\t"+line, line)
			}
		}
	})
}
