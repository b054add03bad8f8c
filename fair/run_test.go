package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestEachOfARunIsRefusedByItsOwnDeadlineOnly(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		var granted []time.Duration
		for i, a := range take(t, f,
			engine.Request{N: 1, MaxWait: 1500 * time.Millisecond}, // now
			engine.Request{N: 1, MaxWait: 1600 * time.Millisecond}, // after 1 s
			engine.Request{N: 1, MaxWait: 1700 * time.Millisecond}, // refused
			engine.Request{N: 1, MaxWait: 2 * time.Second},         // after 2 s
			engine.Request{N: 1, MaxWait: 2 * time.Second},         // refused
			engine.Request{N: 1, MaxWait: engine.Forever},          // after 3 s
		) {
			require.Equal(t, i != 2 && i != 4, a.Granted, i)
			granted = append(granted, a.Wait)
		}
		require.Equal(
			t,
			[]time.Duration{0, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second},
			granted,
		)
	})
}

// A slot is what a run takes time for; see lua/fair/grant.lua.
func TestOneRunGrantsAFewSlotsAtMost(t *testing.T) {
	requests := make([]engine.Request, 1024)
	for i := range requests {
		requests[i] = engine.Request{N: 1, MaxWait: engine.Forever}
	}
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, burst := range []int{0, 2, 7} {
			f, _ := w.queue(t, engine.Quota{Permits: 420, Per: time.Minute, Burst: burst})
			queued(t, f, 450, 1)
			answers, err := f.Take(t.Context(), requests)
			require.NoError(t, err)
			slots := map[int64]bool{}
			for _, a := range answers {
				require.True(t, a.Granted)
				slots[a.Grant.At] = true
			}
			require.NotEmpty(t, slots)
			require.LessOrEqual(t, len(slots), 64, "Burst %d", burst)
		}
	})
}
