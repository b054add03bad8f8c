package faults_test

import (
	"context"
	"sync"
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

func TestALimiterFallsBackWhileItsServerIsAwayAndReturns(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]struct{ goes, returns func(*redistest.Server) }{
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartServer(t)
			var f counted
			quota := fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond}
			l := limiter(t, s.Client(), quota, fairlimit.WithFallback(&f))
			require.NoError(t, l.Wait(t.Context()))
			heard := &overheard{}
			s.Client().AddHook(heard)
			questions := func() int { return heard.count("evalsha", "eval") }
			away.goes(s)
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
			}
			wg.Wait()
			start, before := time.Now(), questions()
			for range 20 {
				assert.NoError(t, l.Wait(t.Context()))
			}
			assert.LessOrEqual(t, questions()-before, 1+int(time.Since(start)/time.Second),
				"one asks whether Redis is back, once a second")
			assert.EqualValues(t, 70, f.permits.Load())

			away.returns(s)
			require.Eventually(t, func() bool {
				before := f.permits.Load()
				return l.Wait(t.Context()) == nil && f.permits.Load() == before
			}, 20*time.Second, 50*time.Millisecond)
		})
	}
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
