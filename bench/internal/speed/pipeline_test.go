package speed

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAPipelineIsSentOnceItIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	b := &bed{rdb: server.Client}
	lane := b.pipelining()[0]
	var sum atomic.Int64
	increase := func(ctx context.Context) error {
		n, err := lane.Incr(ctx, "n").Result()
		sum.Add(n)
		return err
	}

	all := crew(alike(pipelined, increase))
	require.NoError(t, all.keepAsking(t.Context(), 2))
	require.EqualValues(t, pipelined*(2*pipelined+1), sum.Load(), "each has its own answer: 1 to 128")

	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, all[1:].keepAsking(short, 1), context.DeadlineExceeded, "one is missing")
	require.Equal(t, "128", b.rdb.Get(t.Context(), "n").Val())
}

func TestOneWhoFailsEndsTheWaitOfTheOthers(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	all := crew(alike(pipelined-1, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
	all = append(all, func(context.Context) error { return broken })
	require.ErrorIs(t, all.keepAsking(t.Context(), 1), broken)
}

func TestNoNameIsAskedTooOften(t *testing.T) {
	t.Parallel()
	k := kind{names: 32, most: 400} // 128 questions every 10 ms
	round := k.spaced(1, func(context.Context) (float64, error) { return 0, nil })
	began := time.Now()
	for range 4 {
		_, err := round(t.Context())
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
}
