package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestALimiterRecoversWhateverTheClientsTimeouts holds with a client that would
// wait for ever, and callers that would, too.
func TestALimiterRecoversWhateverTheClientsTimeouts(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(10))
	require.NoError(t, l.Wait(t.Context()))

	bystander := standBy(t)
	s.Pause()
	var all sync.WaitGroup
	for _, name := range []string{"Wait", "Status"} {
		all.Go(func() {
			assert.ErrorIs(t, bystander.overdue(t, name, calls(l)[name]), fairlimit.ErrOutcomeUnknown, name)
		})
	}
	all.Wait()
	s.Resume()
	require.NoError(t, l.Wait(t.Context()))
	assert.Contains(t, []int{7, 8}, status(t, l).Available, "the call without an answer consumed once or not at all")
}

func TestAServerThatIsNotThereIsAnErrorAndNeverLeave(t *testing.T) {
	t.Parallel()
	rdb := nowhere(t)
	for name, call := range calls(limiter(t, rdb, fairlimit.PerSecond(10))) {
		err := call(t.Context())
		require.Error(t, err, name)
		assert.ErrorIs(t, err, fairlimit.ErrUnreachable, name)
		assert.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown, "%s: nothing was sent", name)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)
	}
}

func TestAPausedServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	l := limiter(t, s.Client(), fairlimit.PerHour(1))
	require.NoError(t, l.Wait(t.Context()))
	bystander := standBy(t)
	s.Pause()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := bystander.prompt(t, 100*time.Millisecond, "Wait", l.Wait)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	s.Resume()
	require.Eventually(t, func() bool {
		status, err := l.Status(t.Context())
		return err == nil && status.Queued == 0 && status.Delay <= time.Hour
	}, 10*time.Second, 10*time.Millisecond, "those who left should have been granted nothing, or have given it back")
}
