package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestALimiterFallsBackWhileItsServerIsAwayAndReturns(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	f := limiter(t, redistest.Standalone(t), fairlimit.PerHour(1000)) // on another Redis
	l := limiter(t, s.Client(), fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond}, fairlimit.WithFallback(f))
	require.NoError(t, l.Wait(t.Context()))
	heard := &overheard{}
	s.Client().AddHook(heard)
	questions := func() int { return heard.count("evalsha", "eval") }
	for how, away := range map[string]struct{ goes, returns func() }{
		"paused": {s.Pause, s.Resume},
		"killed": {s.Kill, s.Restart},
	} {
		begun := status(t, f).Available
		away.goes()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				assert.NoError(t, l.Wait(ctx), how)
			})
		}
		wg.Wait()
		start, before := time.Now(), questions()
		for range 20 {
			assert.NoError(t, l.Wait(t.Context()), how)
		}
		assert.LessOrEqual(t, questions()-before, 1+int(time.Since(start)/time.Second),
			"%s: one asks whether Redis is back, once a second", how)
		assert.Equal(t, begun-70, status(t, f).Available, how)

		away.returns()
		require.Eventually(t, func() bool {
			before, err := f.Status(t.Context())
			if err != nil || l.Wait(t.Context()) != nil {
				return false
			}
			after, err := f.Status(t.Context())
			return err == nil && before.Available == after.Available
		}, 20*time.Second, 50*time.Millisecond, how)
	}
}
