package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheHistoryIsOneHourLong(t *testing.T) {
	h, at := &history{}, time.Unix(1_000_000*60, 0)
	for i := range 100 {
		h.now(at.Add(time.Duration(i) * time.Minute)).Turns = int64(i)
	}
	last := h.last(at.Add(99 * time.Minute))
	require.Len(t, last, 60)
	require.Equal(t, int64(40), last[0].Turns)
	require.Equal(t, int64(99), last[59].Turns)
	require.Len(t, h.last(at.Add(109*time.Minute)), 50)
	require.Empty(t, h.last(at.Add(5*time.Hour)))
}
