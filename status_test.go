package fairlimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// stuck is an engine whose calls wait for the end of the test.
type stuck struct {
	*stub
	until chan struct{}
}

func (e *stuck) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	<-e.until
	return nil, assert.AnError
}

func (e *stuck) Status(context.Context) (engine.Status, error) {
	<-e.until
	return engine.Status{Available: 7}, nil
}

func (e *stuck) Reset(context.Context) error {
	<-e.until
	return nil
}

func TestEveryMethodReturnsAfterFiveSeconds(t *testing.T) {
	for _, name := range []string{"Wait", "WaitN", "Allow", "ReserveN", "Status", "Reset"} {
		synctest.Test(t, func(t *testing.T) {
			e := &stuck{&stub{queues: true}, make(chan struct{})}
			build := func(engine.Config) (engine.Engine, error) { return e, nil }
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1})
			defer func() { _ = rdb.Close() }()
			l, err := fairlimit.New(rdb, "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
			require.NoError(t, err)
			start := time.Now()
			err = calls(l.(fairlimit.Reserver))[name](context.Background())
			require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, name)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)
			assert.Equal(t, 5*time.Second, time.Since(start), name)
			close(e.until)
		})
	}
}

// TestAServerThatStandsStillHoldsNoMethod is the same on a real server, with a
// client that would wait for ever.
func TestAServerThatStandsStillHoldsNoMethod(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer func() { _ = rdb.Close() }()
	l := limiter(t, rdb, fairlimit.PerHour(10))
	r, err := limiter(t, rdb, fairlimit.PerHour(1)).ReserveN(t.Context(), 1)
	require.NoError(t, err)
	s.Pause()
	var all sync.WaitGroup
	for _, name := range []string{"Status", "Reset"} {
		all.Go(func() {
			start := time.Now()
			assert.ErrorIs(t, calls(l)[name](context.Background()), fairlimit.ErrOutcomeUnknown, name)
			assert.Less(t, time.Since(start), 6*time.Second, name)
		})
	}
	all.Go(func() {
		start := time.Now()
		if r.Delay() > 0 {
			assert.ErrorIs(t, r.Cancel(context.Background()), fairlimit.ErrOutcomeUnknown)
		}
		assert.Less(t, time.Since(start), 6*time.Second, "Cancel")
	})
	all.Wait()
	s.Resume()
	require.NoError(t, l.Wait(t.Context()), "and goes on")
}
