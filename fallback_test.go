package fairlimit_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// second is a Waiter that counts what it lets through.
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

// rateLimiter has the methods of a *rate.Limiter that matter here.
type rateLimiter struct{ second }

func (r *rateLimiter) AllowN(_ time.Time, n int) bool {
	return r.WaitN(context.Background(), n) == nil
}

var _ fairlimit.Waiter = fairlimit.Limiter(nil)

func TestTheFallbackTakesOverAtOnce(t *testing.T) {
	each(t, map[string]traffic{
		"Redis is away":     {there: 10 * time.Millisecond, before: noConnection},
		"Redis says no":     {there: 5 * time.Millisecond, before: saying("NOPERM no permissions")},
		"an answer is lost": {there: 10 * time.Millisecond, after: io.EOF},
		"a black hole":      {there: time.Minute, before: noConnection},
	}, func(t *testing.T, server *redistest.MiniServer, failure traffic) {
		q, w := onAWay(t, server, fairlimit.PerHour(100))
		s, c := &second{}, newCrowd(t)
		l := fairlimit.Fallback(q, s)
		w.is(failure)
		c.line(l, 20)                                // the first asks, the others stand in line
		longest := min(failure.there, 5*time.Second) // nobody waits for one time-out after the other
		for _, went := range c.gone() {
			assert.LessOrEqual(t, went.at, longest+5*time.Millisecond)
		}
		assert.EqualValues(t, 20, s.permits.Load())
		began := time.Now()
		for range 10 {
			require.NoError(t, l.WaitN(t.Context(), 2))
		}
		assert.Zero(t, time.Since(began), "nobody pays for it again")
		assert.EqualValues(t, 40, s.permits.Load())
		time.Sleep(failure.there) // what is under way ends
	})
}

func TestRedisIsAskedAgainAfterASecond(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		var told []bool
		q, w := onAWay(t, server, fairlimit.PerHour(100), fairlimit.WithTrace(&fairlimit.Trace{
			FellBack: func(because error) { told = append(told, because != nil) },
		}))
		s := &second{}
		l := fairlimit.Fallback(q, s)
		w.is(traffic{there: 550 * time.Millisecond, before: noConnection})
		var all []<-chan error
		for range 30 {
			all = append(all, waits(t.Context(), l))
			time.Sleep(100 * time.Millisecond)
		}
		for _, waited := range all {
			require.NoError(t, <-waited)
		}
		assert.Equal(t, 2, w.commands(), "by one caller at a time, who takes 550 ms")
		require.EqualValues(t, 30, s.permits.Load())
		w.is(traffic{})
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		assert.EqualValues(t, 30, s.permits.Load())
		assert.Equal(t, 99, status(t, l).Available)
		assert.Equal(t, []bool{true, false}, told)
	})
}

func TestTheCallersOwnErrorsAreNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerMinute(2))
		s := &second{}
		l := fairlimit.Fallback(q, s)
		require.ErrorIs(t, l.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)
		require.ErrorIs(t, l.WaitN(t.Context(), 3), fairlimit.ErrExceedsQuota)
		require.NoError(t, l.WaitN(t.Context(), 2))
		require.ErrorAs(t, l.Wait(within(t, time.Second)), new(*fairlimit.RefusedError))
		require.False(t, allow(t, l))
		w.is(traffic{back: time.Second})
		require.ErrorIs(t, l.Wait(within(t, time.Millisecond)), context.DeadlineExceeded)
		var none context.Context
		require.ErrorIs(t, l.Wait(none), fairlimit.ErrNilContext)
		assert.Zero(t, s.permits.Load())
	})
}

func TestAllowUsesAFallbackThatCanSayNo(t *testing.T) {
	type fallback struct {
		second fairlimit.Waiter
		want   bool
		err    error
	}
	each(t, map[string]fallback{
		"rate.Limiter":             {&rateLimiter{}, true, nil},
		"rate.Limiter that is out": {&rateLimiter{second{err: assert.AnError}}, false, nil},
		"only WaitN":               {&second{}, false, fairlimit.ErrUnreachable},
		"everybody":                {fairlimit.FailOpen, true, nil},
	}, func(t *testing.T, server *redistest.MiniServer, c fallback) {
		q, w := onAWay(t, server, fairlimit.PerHour(1))
		l := fairlimit.Fallback(q, c.second)
		w.is(traffic{before: noConnection})
		for range 3 { // when it fails, and when it is known to
			allowed, err := l.Allow(t.Context())
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.want, allowed)
		}
	})
}

func TestIfBothFailBothAreTold(t *testing.T) {
	l := fairlimit.Fallback(queueOf(t, nowhere(t), "q", fairlimit.PerHour(1)), &second{err: assert.AnError})
	for range 2 {
		err := l.Wait(t.Context())
		require.ErrorIs(t, err, assert.AnError)
		require.ErrorIs(t, err, fairlimit.ErrUnreachable)
		require.True(t, strings.HasPrefix(err.Error(), "fairlimit: "), err)
	}
	_, err := l.Status(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrUnreachable, "Status always asks Redis")
	require.ErrorIs(t, l.(pauser).Pause(t.Context(), time.Minute), fairlimit.ErrUnreachable)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fairlimit.Fallback(l, fairlimit.FailOpen).Wait(ended), context.Canceled)
}

func TestAFallbackOfNothingIsAnError(t *testing.T) {
	q := queueOf(t, nowhere(t), "q", fairlimit.PerHour(1))
	for _, l := range []fairlimit.Limiter{
		fairlimit.Fallback(nil, fairlimit.FailOpen), fairlimit.Fallback(q, nil), fairlimit.Fallback(q, (*rateLimiter)(nil)),
	} {
		_, status := l.Status(t.Context())
		for _, err := range []error{l.Wait(t.Context()), status, l.Reset(t.Context())} {
			require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
		}
	}
}

// Turns that were told before go on, and each of them ended the fallback.
func TestATurnThatWasToldBeforeDoesNotEndTheFallback(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		fell, back := 0, 0
		q, w := onAWay(t, server, fairlimit.PerSecond(1), fairlimit.WithTrace(&fairlimit.Trace{FellBack: func(err error) {
			if err == nil {
				back++
			} else {
				fell++
			}
		}}))
		l := fairlimit.Fallback(q, &second{})
		var told []<-chan error
		for range 5 {
			told = append(told, waits(t.Context(), l))
		}
		time.Sleep(100 * time.Millisecond)
		w.is(traffic{there: 10 * time.Millisecond, before: noConnection})
		for range 40 {
			require.NoError(t, l.Wait(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, []int{1, 0}, []int{fell, back})
		w.is(traffic{})
		for _, turn := range told {
			require.NoError(t, <-turn)
		}
	})
}
