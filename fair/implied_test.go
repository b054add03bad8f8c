package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A quota that the others imply is no window of its own: but it is one while
// turns count that were granted under others.
func TestAQuotaThatOthersImplyHoldsForTurnsOfOthers(t *testing.T) {
	for _, c := range []struct {
		before, after string
		granted       int
		first, next   time.Duration // of the turns that come then
	}{
		{"20/1s 100/2m", "1/2s 100/2m", 100, 2 * time.Minute, 122 * time.Second},
		{"100/1m", "100/1m burst 10", 100, time.Minute, time.Minute},
		{"10/1s", "20/1s burst 1", 10, 50 * time.Millisecond, 100 * time.Millisecond},
		{"10/10s", "20/1s burst 1", 20, 10050 * time.Millisecond, 10100 * time.Millisecond},
		{"1/1s", "100/1m burst 10", 5, 4 * time.Second, 4 * time.Second},
	} {
		t.Run(c.before+", then "+c.after, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				f, at := w.queue(t, quotas(t, c.before)...)
				queued(t, f, c.granted, 1)
				other := f.joins(t, quotas(t, c.after)...)
				require.Equal(t, c.first, queuedWait(t, other))
				require.Equal(t, c.next, queuedWait(t, other))
				at(time.Hour)
				queued(t, other, 3, 1)
				require.NotContains(t, w.rdb.Get(t.Context(), f.key).Val(), f.head, "the queue is one of its own windows again")
				require.Contains(t, w.rdb.Get(t.Context(), f.key).Val(), other.head)
			})
		})
	}
}
