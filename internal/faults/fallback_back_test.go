package faults_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// counted is a fallback that counts what it lets through.
type counted struct{ permits atomic.Int64 }

func (c *counted) WaitN(_ context.Context, n int) error {
	c.permits.Add(int64(n))
	return nil
}

// TestAFallbackDecidesNoLongerOnceRedisIsBack has callers come after Redis
// is back, while the turns that were granted before are as many as may be held.
func TestAFallbackDecidesNoLongerOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	var f counted
	l := limiter(t, s.Client(), fairlimit.Every(time.Minute), fairlimit.WithMaxQueued(2), fairlimit.WithFallback(&f))
	require.NoError(t, l.Wait(t.Context()))
	for range 2 {
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	s.Kill()
	_, err := l.Allow(t.Context()) // finds out that Redis fails
	require.Error(t, err)
	require.NoError(t, l.Wait(t.Context()))
	s.Restart()
	require.Eventually(t, func() bool {
		before := f.permits.Load()
		for range 5 {
			if err := l.Wait(t.Context()); err != nil {
				assert.ErrorIs(t, err, fairlimit.ErrTooManyQueued)
			}
		}
		return f.permits.Load() == before
	}, 20*time.Second, 100*time.Millisecond)
	let := f.permits.Load()
	for range 100 {
		require.ErrorIs(t, l.Wait(t.Context()), fairlimit.ErrTooManyQueued)
		time.Sleep(20 * time.Millisecond)
	}
	assert.Equal(t, let, f.permits.Load())
}
