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

// TestNoServerHoldsACallerPastItsDeadline is with the clients' default
// timeouts, which are seconds, on connections that nothing comes through.
func TestNoServerHoldsACallerPastItsDeadline(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	for kind, connect := range map[string]func(p *redistest.Proxy) redis.UniversalClient{
		"standalone": func(p *redistest.Proxy) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: nowhere, Dialer: p.Dial})
		},
		"cluster": func(p *redistest.Proxy) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, Dialer: p.Dial})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bystander := standBy(t)
			proxy := redistest.StartProxy(t)
			proxy.Freeze()
			rdb := connect(proxy)
			t.Cleanup(func() { redistest.Close(rdb) })
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			var wg sync.WaitGroup
			for name, call := range calls(l) {
				for i := range 10 {
					wg.Go(func() {
						patience := 100*time.Millisecond + time.Duration(i)*10*time.Millisecond
						err := bystander.prompt(t, patience, name, call)
						assert.ErrorIs(t, err, context.DeadlineExceeded, name)
					})
				}
			}
			wg.Wait()
			proxy.Heal()
			proxy.Cut() // what is left behind ends with its connection
		})
	}
}

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

func TestARestartedServerIsNoError(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	l := limiter(t, s.Client(), fairlimit.PerHour(5))
	require.NoError(t, l.Wait(t.Context()))
	s.Restart()
	require.NoError(t, l.Reset(t.Context()), "this finds that the connection is gone")
	require.NoError(t, l.Wait(t.Context()), "and this that the script is")
}

// It has a server of its own: a question of other tests may take as many round
// trips as they count on.
func TestForgottenScriptsAreNoError(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	l := limiter(t, rdb, fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var flushing, calling sync.WaitGroup
	flushing.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, rdb.ScriptFlush(t.Context()).Err())
			time.Sleep(time.Millisecond) // some calls find the script
		}
	})
	for range 8 {
		calling.Go(func() {
			for range 100 {
				assert.NoError(t, l.Wait(t.Context()))
			}
		})
	}
	calling.Wait()
	stop()
	flushing.Wait()
}
