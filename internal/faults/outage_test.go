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
	redistest.NoLeaks(t)
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
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			var wg sync.WaitGroup
			for name, call := range calls(l) {
				for i := range 10 {
					wg.Go(func() {
						patience := 100*time.Millisecond + time.Duration(i)*10*time.Millisecond
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						start := time.Now()
						err := call(ctx)
						bystander.prompt(t, start, patience, name)
						assert.ErrorIs(t, err, context.DeadlineExceeded, name)
					})
				}
			}
			wg.Wait()
			start := time.Now()
			const module = "github.com/fairlimit/fairlimit"
			library := []string{module + ".", module + "/internal/batch.", module + "/internal/bound."}
			require.Eventually(t, func() bool { return redistest.Running(library...) == 0 },
				30*time.Second, 100*time.Millisecond,
				"what was left behind should end with the client's own timeouts")
			t.Logf("what was left behind ended %v later", time.Since(start))
		})
	}
}

// TestALimiterRecoversWhateverTheClientsTimeouts holds with a client that would
// wait for ever.
func TestALimiterRecoversWhateverTheClientsTimeouts(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(10))
	require.NoError(t, l.Wait(t.Context()))

	bystander := standBy(t)
	s.Pause()
	start := time.Now()
	err := l.Wait(t.Context())
	bystander.prompt(t, start, 5*time.Second, "Wait")
	s.Resume()
	require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	require.NoError(t, l.Wait(t.Context()))
	assert.Contains(t, []int{7, 8}, status(t, l).Available, "the call without an answer consumed once or not at all")
}

// TestAServerThatStandsStillHoldsNoMethod is about Status, Reset and Cancel,
// with a client that would wait for ever and a ctx that never ends.
func TestAServerThatStandsStillHoldsNoMethod(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(10))
	queued := limiter(t, rdb, fairlimit.PerHour(1))
	require.NoError(t, queued.Wait(t.Context()))
	r, err := queued.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	bystander := standBy(t)
	s.Pause()
	var all sync.WaitGroup
	for _, name := range []string{"Status", "Reset"} {
		all.Go(func() {
			start := time.Now()
			assert.ErrorIs(t, calls(l)[name](context.Background()), fairlimit.ErrOutcomeUnknown, name)
			bystander.prompt(t, start, 5*time.Second, name)
		})
	}
	all.Go(func() {
		start := time.Now()
		assert.ErrorIs(t, r.Cancel(context.Background()), fairlimit.ErrOutcomeUnknown)
		bystander.prompt(t, start, 5*time.Second, "Cancel")
	})
	all.Wait()
	s.Resume()
	require.NoError(t, l.Wait(t.Context()), "and goes on")
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
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			assert.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
			bystander.prompt(t, start, 100*time.Millisecond, "Wait")
		})
	}
	wg.Wait()
	s.Resume()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		status, err := l.Status(ctx)
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

func TestForgottenScriptsAreNoError(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) { redistest.Bubble(t, forgetsScripts) })
	// Not the server that other tests share: a question of theirs may take as
	// many round trips as they count on.
	t.Run("redis", func(t *testing.T) { forgetsScripts(t, redistest.StartServer(t).Client()) })
}

func forgetsScripts(t *testing.T, rdb *redis.Client) {
	l := limiter(t, rdb, fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var flushing, calling sync.WaitGroup
	flushing.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, rdb.ScriptFlush(t.Context()).Err())
			time.Sleep(time.Millisecond)
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
