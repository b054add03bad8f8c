package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoTwoEventsShareANanosecond(t *testing.T) {
	in := newInstants(1, []int{3, 1, 50}, func() time.Duration { return 0 })
	seen := map[int64]bool{}
	for client, callers := range []int{3, 1, 50} {
		for caller := range callers {
			for k := range kinds {
				slot := in.slot(client, caller, k)
				require.False(t, seen[slot])
				require.Less(t, slot, in.slots)
				seen[slot] = true
			}
		}
	}
	require.Len(t, seen, int(in.slots), "and none is left unused")
}

func TestTheNextMomentOfASlotIsLaterAndNear(t *testing.T) {
	in := newInstants(1, []int{10}, func() time.Duration { return 0 })
	for _, after := range []time.Duration{0, 1, 29, 30, 31, time.Hour} {
		for slot := range in.slots {
			at := in.next(after, slot)
			require.Greater(t, at, after)
			require.LessOrEqual(t, at-after, time.Duration(in.slots))
			require.EqualValues(t, slot, int64(at)%in.slots)
		}
	}
}
