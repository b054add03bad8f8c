package picture

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

func TestLinesAtTheDoorCrossWhereCallsWereOvertaken(t *testing.T) {
	var inOrder, backward []metrics.Call
	for i := range 100 {
		one, other := granted(0, 20*i, 5000+20*i), granted(0, 20*i, 9000-20*i)
		one.Seq, other.Seq = i, i
		inOrder, backward = append(inOrder, one), append(backward, other)
	}
	backward = append(backward, metrics.Call{Called: backward[0].Called, Outcome: metrics.Waiting})
	d := Door([]Run{runOf("orderly", 1, inOrder...), runOf("unruly", 1, backward...)}, apart)
	strokes, words := parsed(t, d.File())
	require.Len(t, strokes, 2*32, "as many for each engine, and nobody who did not get through")
	for i, s := range strokes {
		level := strings.Fields(strings.NewReplacer("M", "", "L", " ").Replace(s.path))
		require.Equal(t, i < 32, level[1] == level[3], "level where nobody is overtaken: %s", s.path)
	}
	require.Contains(t, words, "0 of 32 were overtaken")
	require.Contains(t, words, "32 of 32 were overtaken")
	require.Contains(t, words, "orderly")

	_, words = parsed(t, Door([]Run{runOf("nobody", 1)}, apart).File())
	require.Contains(t, words, "0 of 0 were overtaken")
}
