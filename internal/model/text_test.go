package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// At some length of the queue its cells take one more digit each. Permits at the
// newest slot can bring that about, without a new cell.
func TestALogThatOutgrowsItsDigitsIsCompacted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{500, 333, 83} {
		q := NewQueue([]Window{{1000, 60 * second}})
		for range 2_000_000 / n {
			q.Take(beginning, n, math.MaxInt64)
			require.LessOrEqual(t, q.logs[0].text(), maxText, "%d at a time", n)
		}
	}
}
