package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	reads  int
	status func() error
}

func (e *ailing) Status(context.Context) (engine.Status, error) {
	e.mu.Lock()
	e.reads++
	status := e.status
	e.mu.Unlock()
	return engine.Status{}, status()
}

func (e *ailing) statusIs(f func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = f
}

func (e *ailing) probes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reads
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
			(<-e.calls).fails(problem)
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
		own := []error{
			fairlimit.ErrFull, fairlimit.ErrExceedsQuota,
			fmt.Errorf("%w: %w", fairlimit.ErrFull, redis.ErrNoScript),
		}
		for _, problem := range own {
			errs := lineUp(t.Context(), l, 1, 1)
			(<-e.calls).fails(problem)
			require.ErrorIs(t, <-errs, problem)
		}
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(engine.Answer{Err: fairlimit.ErrExceedsQuota})
		require.ErrorIs(t, <-errs, fairlimit.ErrExceedsQuota)

		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(refused(time.Hour))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		require.ErrorIs(t, l.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		errs = lineUp(ctx, l, 1, 1)
		c := <-e.calls
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
		c.grants(1)

		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "Redis is asked as before")
		assert.Zero(t, f.permits.Load())
	})
}

func TestSilenceIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 3)
		silent := <-e.calls
		for range 3 {
			require.NoError(t, <-errs)
		}
		assert.Equal(t, time.Second, time.Since(start), "those behind it do not wait for its end either")
		require.NoError(t, l.WaitN(t.Context(), 4))
		assert.Equal(t, time.Second, time.Since(start))
		assert.EqualValues(t, 10, f.permits.Load())

		silent.answers(granted(time.Hour, 1))
		synctest.Wait()
		assert.Len(t, e.givenBack(), 1, "a grant that comes too late")
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs, "it has answered after all")
		assert.EqualValues(t, 10, f.permits.Load())
	})
}

func TestACallerWithoutADeadlineDoesNotWaitForASilentRedisEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newAiling(t, fairlimit.FailOpen)
		start := time.Now()
		errs := lineUp(context.Background(), l, 1, 1)
		c := <-e.calls
		go func() { // as the client's ReadTimeout would
			time.Sleep(3 * time.Second)
			c.fails(fairlimit.ErrOutcomeUnknown)
		}()
		require.NoError(t, <-errs)
		assert.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Minute)
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

func TestAllowAsksTheFallbackForNothingWhereRedisSaysNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newAiling(t, fairlimit.FailOpen)
		go func() { (<-e.calls).answers(refused(time.Hour)) }()
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
	})
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

func TestWithoutAFallbackNobodyGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		for range 2 {
			errs := lineUp(t.Context(), l, 1, 1)
			(<-e.calls).fails(fairlimit.ErrUnreachable)
			require.ErrorIs(t, <-errs, fairlimit.ErrUnreachable)
		}
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

func TestNoFallbackIsAnError(t *testing.T) {
	for _, f := range []fairlimit.Fallback{nil, (*second)(nil)} {
		_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithFallback(f))
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
	}
}

// TestNobodyIsLostBetweenTheTwo lets an engine fail at random and looks whether
// each permit was given by one of both.
func TestNobodyIsLostBetweenTheTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e := &moody{stub: &stub{queues: true}, random: rand.New(rand.NewPCG(5, 6))}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build),
			fairlimit.WithFallback(&f))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 200 {
					assert.NoError(t, l.Wait(t.Context()))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		first := e.permits - int64(len(e.givenBack()))
		assert.EqualValues(t, 50*200, first+f.permits.Load())
		assert.Positive(t, first)
		assert.Positive(t, f.permits.Load())
		t.Log(first, f.permits.Load())
	})
}

// moody is an engine that answers, fails or falls silent.
type moody struct {
	*stub
	random  *rand.Rand
	permits int64
}

func (m *moody) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	switch m.random.IntN(20) {
	case 0:
		return nil, fairlimit.ErrUnreachable
	case 1:
		time.Sleep(3 * time.Second)
	}
	time.Sleep(time.Millisecond)
	answers := make([]engine.Answer, len(requests))
	for i := range answers {
		answers[i] = granted(time.Duration(i)*time.Millisecond, 1)
	}
	m.permits += int64(len(requests))
	return answers, nil
}
