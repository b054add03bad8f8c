package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// second is a fallback that counts what it lets through.
type second struct {
	permits atomic.Int64
	err     error
}

func (s *second) WaitN(_ context.Context, n int) error {
	if s.err == nil {
		s.permits.Add(int64(n))
	}
	return s.err
}

// rateLimiter has the methods of a *rate.Limiter of golang.org/x/time/rate that
// matter here.
type rateLimiter struct{ second }

func (r *rateLimiter) AllowN(_ time.Time, n int) bool {
	return r.err == nil && r.WaitN(context.Background(), n) == nil
}

// likeALimiter has a Limiter's.
type likeALimiter struct{ second }

func (l *likeALimiter) AllowN(ctx context.Context, n int) (bool, error) {
	return l.err == nil, l.WaitN(ctx, n)
}

var _, _, _ fairlimit.Fallback = (*rateLimiter)(nil), (*likeALimiter)(nil), fairlimit.Limiter(nil)

// ailing is an engine for which the test answers. The test also says whether
// its Status fails.
type ailing struct {
	*stub
	mu     sync.Mutex
	status func() error
}

func (e *ailing) Status(context.Context) (engine.Status, error) {
	e.mu.Lock()
	status := e.status
	e.mu.Unlock()
	return engine.Status{}, status()
}

func (e *ailing) statusIs(f func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = f
}

func newAiling(t *testing.T, f fairlimit.Fallback) (*ailing, fairlimit.Reserver) {
	e := newAilingEngine()
	return e, backedBy(t, f, e)
}

func newAilingEngine() *ailing {
	return &ailing{stub: &stub{queues: true, calls: make(chan *call)}, status: func() error { return assert.AnError }}
}

// backedBy makes a limiter on an engine with a fallback.
func backedBy(t *testing.T, f fairlimit.Fallback, e engine.Engine) fairlimit.Reserver {
	build := func(engine.Config) (engine.Engine, error) { return e, nil }
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build),
		fairlimit.WithFallback(f))
	require.NoError(t, err)
	return l.(fairlimit.Reserver)
}

// fail lets a question of the limiter fail.
func (e *ailing) fail(t *testing.T, l fairlimit.Limiter, err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- l.Wait(t.Context()) }()
	(<-e.calls).fails(err)
	require.NoError(t, <-done)
}

func TestTheFallbackDecidesWhereRedisFails(t *testing.T) {
	for _, problem := range []error{
		fairlimit.ErrUnreachable, fairlimit.ErrOutcomeUnknown, fairlimit.ErrState, redis.ErrNoScript,
		errors.New("another engine's"),
	} {
		synctest.Test(t, func(t *testing.T) {
			var f second
			e, l := newAiling(t, &f)
			errs := lineUp(t.Context(), l, 1, 3)
			if c := <-e.calls; problem == fairlimit.ErrState {
				c.answers(engine.Answer{Err: problem})
			} else {
				c.fails(problem)
			}
			for range 3 {
				require.NoError(t, <-errs)
			}
			assert.EqualValues(t, 1+2+3, f.permits.Load(), "the one who asked and those behind it")
			synctest.Wait()
			start := time.Now()
			for range 10 {
				require.NoError(t, l.WaitN(t.Context(), 2))
			}
			assert.Zero(t, time.Since(start), "nobody pays for it again")
			assert.EqualValues(t, 26, f.permits.Load())
		})
	}
}

func TestTheCallersOwnErrorsAreNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		asks := func(answer func(c *call)) error {
			errs := lineUp(t.Context(), l, 1, 1)
			answer(<-e.calls)
			return <-errs
		}
		for _, own := range []error{
			fairlimit.ErrFull, fairlimit.ErrExceedsQuota, fmt.Errorf("%w: %w", fairlimit.ErrFull, redis.ErrNoScript),
		} {
			require.ErrorIs(t, asks(func(c *call) { c.fails(own) }), own)
			require.ErrorIs(t, asks(func(c *call) { c.answers(engine.Answer{Err: own}) }), own)
		}
		require.ErrorAs(t, asks(func(c *call) { c.answers(refused(time.Hour)) }), new(*fairlimit.RefusedError))
		require.ErrorIs(t, l.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)

		ctx := within(t, time.Millisecond)
		errs := lineUp(ctx, l, 1, 1)
		c := <-e.calls
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
		c.grants(1)

		require.NoError(t, asks(func(c *call) { c.grants(1) }), "Redis is asked as before")
		assert.Zero(t, f.permits.Load())
	})
}

func TestATurnGrantedBeforeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(granted(time.Minute, 1))
		synctest.Wait()
		e.fail(t, l, fairlimit.ErrUnreachable)
		require.NoError(t, <-errs)
		assert.Equal(t, time.Minute, time.Since(start))
		assert.EqualValues(t, 1, f.permits.Load())
		assert.Empty(t, e.givenBack())
	})
}

func TestAllowUsesAFallbackThatCanSayNo(t *testing.T) {
	for name, c := range map[string]struct {
		f    fairlimit.Fallback
		want bool
		err  error
	}{
		"rate.Limiter":             {&rateLimiter{}, true, nil},
		"rate.Limiter that is out": {&rateLimiter{second{err: assert.AnError}}, false, nil},
		"Limiter":                  {&likeALimiter{}, true, nil},
		"Limiter that fails":       {&likeALimiter{second{err: assert.AnError}}, false, assert.AnError},
		"only WaitN":               {&second{}, false, fairlimit.ErrUnreachable},
		"everybody":                {fairlimit.FailOpen, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := newAiling(t, c.f)
				go func() { (<-e.calls).fails(fairlimit.ErrUnreachable) }()
				for range 3 { // when it fails, and when it is known to
					allowed, err := l.Allow(t.Context())
					require.ErrorIs(t, err, c.err)
					assert.Equal(t, c.want, allowed)
				}
			})
		})
	}
}

func TestAReservationIsTheFirstsOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newAiling(t, fairlimit.FailOpen)
		go func() { (<-e.calls).fails(fairlimit.ErrState) }()
		_, err := l.ReserveN(t.Context(), 1)
		require.ErrorIs(t, err, fairlimit.ErrState)
		_, err = l.ReserveN(t.Context(), 1)
		require.ErrorIs(t, err, fairlimit.ErrUnreachable, "at once: nothing was asked")
		assert.Contains(t, err.Error(), strings.TrimPrefix(fairlimit.ErrState.Error(), "fairlimit: "))

		e.statusIs(func() error { return nil })
		time.Sleep(time.Second)
		_, err = l.ReserveN(t.Context(), 1)
		require.Error(t, err)
		synctest.Wait()
		go func() { (<-e.calls).answers(granted(time.Hour, 1)) }()
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err, "those who only reserve find out, too")
		assert.Equal(t, time.Hour, r.Delay())
	})
}

func TestWhereBothFailBothAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newAiling(t, &second{err: assert.AnError})
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).fails(fairlimit.ErrOutcomeUnknown)
		err := <-errs
		require.ErrorIs(t, err, assert.AnError)
		require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	})
}

func TestFailOpenLetsEverybodyGoButThoseWhoHaveLeft(t *testing.T) {
	t.Parallel()
	l := limiter(t, nowhere(t), fairlimit.PerHour(1), fairlimit.WithFallback(fairlimit.FailOpen))
	for range 100 {
		require.NoError(t, l.Wait(t.Context()))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Wait(ended), context.Canceled)
	require.ErrorIs(t, fairlimit.FailOpen.WaitN(ended, 1), context.Canceled)
	require.ErrorIs(t, l.WaitN(t.Context(), 2), fairlimit.ErrExceedsQuota, "what never fits does not fit now")
}

// How often a breaker probes, and who tries, is tested in package breaker.
func TestRedisIsAskedAgainOnceItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		e.fail(t, l, fairlimit.ErrUnreachable)
		for range 3 { // while Status fails, too
			require.NoError(t, l.Wait(t.Context()))
			time.Sleep(time.Second)
		}
		assert.EqualValues(t, 1+3, f.permits.Load())
		e.statusIs(func() error { return nil })
		require.NoError(t, l.Wait(t.Context()))
		synctest.Wait()

		errs := lineUp(t.Context(), l, 1, 1) // the one who tries
		c := <-e.calls
		require.NoError(t, l.Wait(t.Context()), "while it does, the others do not")
		assert.EqualValues(t, 1+3+2, f.permits.Load())
		c.answers(granted(time.Hour, 1))
		synctest.Wait()
		again := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-again, "all ask again as soon as it has its answer, though its turn is an hour away")
		require.NoError(t, <-errs)
		assert.EqualValues(t, 1+3+2, f.permits.Load())
	})
}

// pausedAndLost is a queue that is paused for a day. Then Redis fails while
// fails is set. A caller waits for the end of the pause, and done tells after
// how long it went.
func pausedAndLost(
	t *testing.T, f fairlimit.Fallback,
) (q *fairlimit.Queue, fails *atomic.Bool, done <-chan time.Duration) {
	fails = new(atomic.Bool)
	rdb := redistest.Mini(t).NewClient(t)
	rdb.AddHook(refuses{set: fails})
	q = queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second), fairlimit.WithFallback(f))
	require.NoError(t, q.Pause(t.Context(), 24*time.Hour))
	fails.Store(true)
	went := make(chan time.Duration, 1)
	start := time.Now()
	go func() {
		assert.NoError(t, q.Wait(t.Context()))
		went <- time.Since(start)
	}()
	time.Sleep(3 * time.Second)
	return q, fails, went
}

// Nobody else calls.
func TestWhoeverOutlastsAPauseAsksARedisThatIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		back, resets bool
		went         time.Duration
		permits      int64 // of the fallback
	}{
		"it is back":                 {true, false, 24 * time.Hour, 0},
		"it is, and somebody resets": {true, true, 6 * time.Second, 0},
		"it stays away":              {false, false, 24 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f second
				q, fails, done := pausedAndLost(t, &f)
				fails.Store(!c.back)
				if c.resets {
					time.Sleep(3 * time.Second)
					require.NoError(t, q.Reset(t.Context()))
				}
				assert.Equal(t, c.went, <-done)
				assert.Equal(t, c.permits, f.permits.Load())
			})
		})
	}
}

// slow is a fallback with a permit each second.
type slow struct {
	mu   sync.Mutex
	next time.Time
}

func (s *slow) WaitN(_ context.Context, n int) error {
	s.mu.Lock()
	now := time.Now()
	if s.next.Before(now) {
		s.next = now
	}
	s.next = s.next.Add(time.Duration(n) * time.Second)
	wait := s.next.Sub(now)
	s.mu.Unlock()
	time.Sleep(wait)
	return nil
}

func TestAPauseHoldsThoseWhoWaitForTheFallback(t *testing.T) {
	for name, back := range map[string]bool{"Redis is back": true, "it stays away": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails := new(atomic.Bool)
				rdb := redistest.Mini(t).NewClient(t)
				rdb.AddHook(refuses{set: fails})
				q := queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Second), fairlimit.WithFallback(&slow{}))
				fails.Store(true)
				start := time.Now()
				var g goers
				g.wait(t, q, 1, 4)
				time.Sleep(2500 * time.Millisecond)
				fails.Store(!back)
				err := q.Pause(t.Context(), time.Minute)
				require.Equal(t, back, err == nil)
				g.all.Wait()
				require.Len(t, g.at, 4)
				assert.Equal(t, 2*time.Second, g.at[1].Sub(start))
				assert.GreaterOrEqual(t, g.at[2].Sub(start), 62500*time.Millisecond)
				assert.GreaterOrEqual(t, g.at[3].Sub(g.at[2]), time.Second)
			})
		})
	}
}

// A caller that accepts to wait for the end of a pause leaves as soon as it
// becomes too long.
func TestALongerPauseRefusesThoseWhoWaitForTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, done := pausedAndLost(t, new(second))
		ctx := within(t, 30*time.Hour)
		errs := lineUp(ctx, q, 1, 1)
		require.Error(t, q.Pause(t.Context(), 48*time.Hour), "Redis fails")
		start := time.Now()
		require.ErrorIs(t, <-errs, fairlimit.ErrPaused)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 48*time.Hour+3*time.Second, <-done)
	})
}

// Status of a flow asks several questions, one after the other. It asks Redis
// whatever happened before, and its end says nothing of Redis.
func TestAStatusOfAFlowIsNoAffairOfTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		fails := new(atomic.Bool)
		var takes atomic.Int64
		rdb := redistest.Mini(t).NewClient(t)
		rdb.AddHook(refuses{set: fails})
		rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(time.Duration(takes.Load()))
			return next(ctx, cmd)
		}))
		q := queueOf(t, rdb, redistest.Name(t), fairlimit.PerSecond(5), fairlimit.WithFallback(&f))
		tenant, err := q.Flow("a", 1, fairlimit.WithFlowQuota(fairlimit.Every(time.Second)))
		require.NoError(t, err)
		require.NoError(t, tenant.Wait(t.Context()))
		_, err = tenant.Status(t.Context()) // the server knows the scripts now
		require.NoError(t, err)

		takes.Store(int64(6 * time.Millisecond))
		_, err = tenant.Status(within(t, 10*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		takes.Store(0)
		time.Sleep(time.Second / 10) // the question ends
		require.NoError(t, tenant.Wait(t.Context()))
		require.Zero(t, f.permits.Load(), "Redis has answered")

		fails.Store(true)
		require.NoError(t, tenant.Wait(t.Context()))
		require.EqualValues(t, 1, f.permits.Load())
		fails.Store(false)
		_, err = tenant.Status(t.Context())
		require.NoError(t, err)
	})
}

// A question that is under way for longer than MaxWait is none that failed.
func TestTheEndOfMaxWaitIsNoReasonForTheFallback(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		client := redis.NewClient(rdb.Options())
		defer func() { assert.NoError(t, client.Close()) }()
		q := flow(t, client, "a", 1, fairlimit.WithMaxWait(100*time.Millisecond),
			fairlimit.WithFallback(fairlimit.FailOpen))
		require.NoError(t, q.Wait(t.Context())) // the script is there
		client.AddHook(late{by: 150 * time.Millisecond})
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrOutcomeUnknown)
		time.Sleep(time.Second) // what it was granted goes back
	})
}

// The answer had granted the only turn. A refusal and false say that nothing was consumed.
func TestWhoeverLostAnAnswerIsNotToldInAPauseThatNothingWasConsumed(t *testing.T) {
	for what, ask := range map[string]func(context.Context, *fairlimit.Queue) error{
		"Wait": func(ctx context.Context, q *fairlimit.Queue) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // in the pause
			defer cancel()
			return q.Wait(ctx)
		},
		"Allow": func(ctx context.Context, q *fairlimit.Queue) error {
			ok, err := q.Allow(ctx)
			assert.False(t, ok)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				client := redis.NewClient(rdb.Options())
				defer func() { assert.NoError(t, client.Close()) }()
				q := queueOf(t, client, "q", fairlimit.Every(time.Hour), fairlimit.WithFallback(fairlimit.FailOpen))
				require.NoError(t, q.Wait(t.Context())) // the script is there
				require.NoError(t, q.Reset(t.Context()))
				client.AddHook(lost{late{by: 500 * time.Millisecond}})
				paused := make(chan error, 1)
				time.AfterFunc(time.Millisecond, func() { paused <- q.Pause(t.Context(), 5*time.Second) })
				err := ask(t.Context(), q)
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
				require.NotErrorAs(t, err, new(*fairlimit.RefusedError))
				require.Error(t, <-paused)
			})
		})
	}
}
