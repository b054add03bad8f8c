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

func TestAMissedTurnIsNoFailureOfRedis(t *testing.T) {
	t.Parallel()
	var f counted
	fellBack := func(because error) { assert.NotErrorIs(t, because, fairlimit.ErrMissed) } // nil is Redis's return
	l := limiter(t, redistest.Standalone(t), fairlimit.PerSecond(200), fairlimit.WithMaxLateness(time.Microsecond),
		fairlimit.WithFallback(&f), fairlimit.WithTrace(&fairlimit.Trace{FellBack: fellBack}))
	missed := 0
	for range 30 {
		if err := l.Wait(t.Context()); err != nil {
			require.ErrorIs(t, err, fairlimit.ErrMissed)
			missed++
		}
	}
	assert.Positive(t, missed)
}
