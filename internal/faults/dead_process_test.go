package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestADeadProcessDelaysNobody kills a process whose callers hold two seconds of
// turns: time enough for this one to line up behind them.
func TestADeadProcessDelaysNobody(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const interval = 100 * time.Millisecond
	rdb, upstream := redistest.Standalone(t), startUpstream(t)
	s := setup{Redis: rdb.Options().Addr, Name: t.Name(), Upstream: upstream.url, Quota: fairlimit.Every(interval)}
	p := startProcess(t, s)
	l := named(t, rdb, s.Name, s.Quota)
	p.does("wait 20")
	// The turn is at the slot, or earlier by no more than the call took.
	reserve := func() (r *fairlimit.Reservation, blur time.Duration) {
		asked := time.Now()
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		return r, time.Since(asked) + time.Millisecond
	}
	before, blurred := reserve()
	p.kill()
	require.Positive(t, before.Delay(), "it should be killed before its turns have come")

	previous := before.Slot()
	for i := range 5 {
		r, blur := reserve()
		assert.InDelta(t, interval, r.Slot().Sub(previous), float64(blur+blurred), "turn %d", i)
		previous, blurred = r.Slot(), blur
	}
	require.NoError(t, l.Wait(t.Context()))
	assert.False(t, time.Now().Before(previous.Add(interval-blurred)))
	require.Eventually(t, func() bool { return status(t, l) == fairlimit.Status{Available: 1} },
		5*time.Second, time.Millisecond, "and then it is idle")
}
