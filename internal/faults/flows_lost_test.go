package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestTurnsOfFlowsOutliveTheirServer(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	name := redistest.Name(t)
	for _, flow := range []string{"a", "b"} {
		q := named(t, primary.Client(), name, fairlimit.Every(time.Minute), fairlimit.WithReplicas(1),
			fairlimit.WithFlow(flow, 1))
		for held := 0; held < 3; {
			if _, err := q.ReserveN(t.Context(), 1); err == nil {
				held++
			} else { // the replica took its time
				require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
			}
		}
	}
	primary.Kill()
	require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	promoted := named(t, replica.Client(), name, fairlimit.Every(time.Minute))
	assert.Equal(t, 5, status(t, promoted).Queued, "all but the one that was due")
	assert.Equal(t, 2, flowsOf(t, replica.Client(), name),
		"and both have their shares")
}

func TestFlowsGoOnWhereTheyFellBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var f counted
	const pace = 20 * time.Millisecond
	name := redistest.Name(t)
	of := func(flow string) *fairlimit.Queue {
		return named(t, s.Client(), name, fairlimit.Every(pace), fairlimit.WithFallback(&f),
			fairlimit.WithFlow(flow, 1)).(*fairlimit.Queue)
	}
	a, b := of("a"), of("b")
	all := func(callers int) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		errs := make(chan error, 2*callers)
		for range callers {
			go func() { errs <- a.Wait(ctx) }()
			go func() { errs <- b.Wait(ctx) }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	}
	all(10)
	require.Zero(t, f.permits.Load())
	s.Kill()
	all(200) // those in the lines of both flows as well
	require.Positive(t, f.permits.Load())
	s.Restart()
	require.Eventually(t, func() bool {
		before := f.permits.Load()
		all(1)
		return f.permits.Load() == before
	}, 20*time.Second, 100*time.Millisecond)

	let, began := f.permits.Load(), time.Now()
	all(50)
	require.Equal(t, let, f.permits.Load())
	assert.GreaterOrEqual(t, time.Since(began), 99*pace-pace, "their turns are Redis's again")
}
