package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Single permits a second apart stand in one cell. Read with a window of ten in
// five seconds they would seem to stand closer together.
func TestAWindowThatAnotherOneImpliesDelaysNobody(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 100, Per: 150 * time.Second},
			engine.Quota{Permits: 10, Per: 5 * time.Second}, engine.Quota{Permits: 1, Per: time.Second})
		grants := queued(t, f, 101, 1)
		require.Equal(t, (150 * time.Second).Microseconds(), grants[100].At-grants[0].At)
	})
}

func TestEachQuotaIsAWindowAndEachBurstAnother(t *testing.T) {
	type all = []engine.Quota
	for _, c := range []struct {
		what   string
		quotas all
		guard  time.Duration
		want   []window
	}{
		{"a quota", quotas(t, "3/1s"), 0, []window{{3, 1_000_000}}},
		{"a nanosecond rounds up", all{{Permits: 3, Per: 1}}, 0, []window{{3, 1}}},
		{"a part of a microsecond rounds up", all{{Permits: 3, Per: 1001}}, 0, []window{{3, 2}}},
		{"a whole microsecond stays", all{{Permits: 3, Per: 1000}}, 0, []window{{3, 1}}},
		{"a burst of all is no further window", all{{Permits: 3, Per: 1000, Burst: 3}}, 0, []window{{3, 1}}},
		{"a burst rounds down", quotas(t, "3/1s burst 2"), 0, []window{{3, 1_000_000}, {2, 666_666}}},
		{"a burst of the exact Per", all{{Permits: 3, Per: 1500, Burst: 2}}, 0, []window{{3, 2}, {2, 1}}},
		{
			"a guard lengthens, and ten take as long",
			quotas(t, "10/1s burst 1"), 50 * time.Millisecond,
			[]window{{1, 105_000}},
		},
		{"a guard lengthens every quota", quotas(t, "10/1s 20/1m"), time.Second, []window{{20, 61_000_000}, {10, 2_000_000}}},
		{"of equal lengths the stricter counts", quotas(t, "10/1s 4/1s"), 0, []window{{4, 1_000_000}}},
		{"whichever comes first", quotas(t, "4/1s 10/1s"), 0, []window{{4, 1_000_000}}},
		{
			"what a shorter one implies is none, nor what a longer one does",
			quotas(t, "100/150s 10/5s 1/1s 100/75s 2/1ms"), 0,
			[]window{{100, 150_000_000}, {1, 1_000_000}},
		},
		{
			"the longest and the most",
			all{{Permits: mostPermits, Per: longestPer, Burst: mostPermits - 1}},
			0,
			[]window{
				{mostPermits, longestPer.Microseconds()},
				{mostPermits - 1, longestPer.Microseconds() - longestPer.Microseconds()/mostPermits},
			},
		},
	} {
		got, err := windowsOf(c.quotas, c.guard)
		require.NoError(t, err, c.what)
		assert.Equal(t, c.want, got, c.what)
	}
}
