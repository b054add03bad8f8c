package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestRequestsOfWhichNoneWaitsForLessLongThanTheFirstAreOneRun(t *testing.T) {
	ask := func(n int, waits ...time.Duration) (requests []engine.Request) {
		for _, wait := range waits {
			requests = append(requests, engine.Request{N: n, MaxWait: wait})
		}
		return requests
	}
	for _, c := range []struct {
		what     string
		requests []engine.Request
		longest  time.Duration
		count    int
	}{
		{"equal ones", ask(2, time.Second, time.Second, time.Second), time.Second, 3},
		{"nanoseconds do not count", ask(2, time.Second, time.Second+1, time.Second), time.Second, 3},
		{
			"later ones with later deadlines",
			ask(1, time.Second, 3*time.Second, 2*time.Second, engine.Forever), time.Second, -4,
		},
		{
			"until one has less time",
			ask(1, time.Second, 2*time.Second, time.Second-time.Microsecond, time.Second), time.Second, -2,
		},
		{"until one asks for more", append(ask(1, time.Second, time.Second), ask(2, time.Second)...), time.Second, 2},
	} {
		permits, longest, count := run(c.requests)
		require.Equal(t, c.requests[0].N, permits, c.what)
		require.Equal(t, c.longest.Microseconds(), longest, c.what)
		require.Equal(t, c.count, count, c.what)
	}
}

func TestEachOfARunIsRefusedByItsOwnDeadlineOnly(t *testing.T) {
	t.Parallel()
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
