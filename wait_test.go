package fairlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestATurnAfterTheDeadlineIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, began := queueOf(t, server.Client, "tax-office", fairlimit.Every(time.Minute)), time.Now()
		require.NoError(t, q.Wait(t.Context()))
		err := q.Wait(within(t, 5*time.Second))
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &refused)
		assert.Equal(t, time.Minute, refused.Wait)
		assert.True(t, refused.Timeout())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, fairlimit.ErrPaused)
		assert.EqualError(t, err, `fairlimit: "tax-office": refused: the turn would come in 1m0s, `+
			`later than ctx's deadline (5s left) allows`)
		assert.Zero(t, time.Since(began))
		ok, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Equal(t, fairlimit.Status{Delay: time.Minute}, status(t, q), "nothing was consumed")

		q = queueOf(t, server.Client, "tax-office", fairlimit.Every(time.Minute), fairlimit.WithMaxWait(30*time.Second))
		require.ErrorContains(t, q.Wait(within(t, time.Hour)), "in 1m0s, later than WithMaxWait (30s left) allows")
		require.ErrorContains(t, q.Wait(within(t, 5*time.Second)), "later than ctx's deadline (5s left) allows")
		_, err = q.ReserveN(t.Context(), 1)
		require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	})
}

func TestWhoeverLeavesWhileItsQuestionIsUnderWayReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerHour(3))
		w.is(traffic{back: 3 * time.Second})
		for what, call := range map[string]func(context.Context) error{
			"Wait":     q.Wait,
			"Allow":    func(ctx context.Context) error { _, err := q.Allow(ctx); return err },
			"ReserveN": func(ctx context.Context) error { _, err := q.ReserveN(ctx, 1); return err },
		} {
			ctx, leave := context.WithCancelCause(t.Context())
			left, began := background(func() error { return call(ctx) }), time.Now()
			leave(assert.AnError)
			err := <-left
			require.ErrorIs(t, err, context.Canceled, what)
			require.ErrorIs(t, err, assert.AnError, what)
			require.NotErrorAs(t, err, new(*fairlimit.RefusedError))
			assert.LessOrEqual(t, time.Since(began), 25*time.Millisecond, what)
			time.Sleep(10 * time.Second)
		}
		w.is(traffic{})
		assert.Equal(t, 3, status(t, q).Available, "what the answers granted went back")
	})
}

// The first answer is quick, so that the limiter knows when slots come. Later
// ones take longer than half the guard: their turns have passed when they
// arrive.
func TestATurnThatWasMissedIsGivenBackAndAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		var missed []time.Duration
		q, w := onAWay(t, server, fairlimit.PerMinute(5), fairlimit.WithGuard(100*time.Millisecond),
			fairlimit.WithTrace(&fairlimit.Trace{Missed: func(_ int, late time.Duration) { missed = append(missed, late) }}))
		require.NoError(t, q.Wait(t.Context()))
		w.is(traffic{back: 60 * time.Millisecond})
		late := waits(t.Context(), q)
		next := waits(t.Context(), q)
		time.Sleep(50 * time.Millisecond)
		w.is(traffic{})
		require.NoError(t, <-late)
		require.NoError(t, <-next)
		require.Len(t, missed, 1)
		assert.InDelta(t, 60*time.Millisecond, missed[0], 1e5)
		assert.Equal(t, 2, status(t, q).Available)
	})
}

func TestWhoMissedATurnAsksAgainBeforeWhoStandsInLine(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		spaced := fairlimit.Quota{Permits: 5, Per: 10 * time.Second, Burst: 1}
		q, w := onAWay(t, server, spaced, fairlimit.WithGuard(100*time.Millisecond))
		c := newCrowd(t)
		require.NoError(t, q.Wait(t.Context()))
		time.Sleep(3 * time.Second)
		w.is(traffic{back: 90 * time.Millisecond})
		c.line(q, 1)
		w.is(traffic{back: 10 * time.Millisecond})
		time.Sleep(91 * time.Millisecond) // its answer came, and its turn is on the way back
		w.is(traffic{back: 30 * time.Millisecond})
		c.line(q, 3)
		require.Len(t, c.gone(), 4)
		assert.Less(t, c.went[0].at, c.went[2].at)
	})
}

func TestWhoeverMissesTenTurnsIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		missed := 0
		q, w := onAWay(t, server, fairlimit.PerHour(5), fairlimit.WithGuard(100*time.Millisecond),
			fairlimit.WithTrace(&fairlimit.Trace{Missed: func(int, time.Duration) { missed++ }}))
		require.NoError(t, q.Wait(t.Context()))
		w.is(traffic{back: 60 * time.Millisecond})
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrMissed)
		assert.Equal(t, 10, missed)
		assert.False(t, allow(t, q), "Allow does not take it either")
		assert.Equal(t, 4, status(t, q).Available, "all were given back")
	})
}

// The turn that it missed had come at once. Meanwhile another process took the next.
func TestARefusalAfterAMissedTurnSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		guard := fairlimit.WithGuard(100 * time.Millisecond)
		q, w := onAWay(t, server, fairlimit.PerHour(2), guard)
		other := queueOf(t, server.Client, "q", fairlimit.PerHour(2), guard)
		require.NoError(t, q.Wait(t.Context()))
		w.is(traffic{back: 300 * time.Millisecond})
		refused := waits(within(t, time.Minute), q)
		time.Sleep(100 * time.Millisecond)
		_, err := other.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		err = <-refused
		require.ErrorAs(t, err, new(*fairlimit.RefusedError))
		assert.Contains(t, err.Error(), "refused after missing 1 of its turns: ")
	})
}

// The default guard is a twentieth of the shortest Per, and 250 ms at most.
func TestTheGuardLengthensPer(t *testing.T) {
	for _, c := range []struct {
		quota fairlimit.Quota
		opts  options
		delay time.Duration
	}{
		{fairlimit.Every(time.Second), nil, 1050 * time.Millisecond},
		{fairlimit.Every(time.Minute), nil, 60250 * time.Millisecond},
		{fairlimit.Every(20 * time.Millisecond), options{fairlimit.WithGuard(60 * time.Millisecond)}, 80 * time.Millisecond},
		{fairlimit.Every(time.Minute), options{fairlimit.WithGuard(0)}, time.Minute},
	} {
		bubble(t, func(t *testing.T, server *redistest.MiniServer) {
			q, err := fairlimit.NewQueue(server.Client, "q", c.quota, c.opts...)
			require.NoError(t, err)
			reserve(t, q, 1)
			assert.Equal(t, c.delay, reserve(t, q, 1).Delay())
		})
	}
}

func TestWhoeverLeavesWhileRedisIsAwayHearsBothReasons(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerSecond(10), fairlimit.WithRetry(), fairlimit.WithMaxWait(20*time.Second))
		w.is(traffic{before: noConnection})
		began := time.Now()
		leaves, patient := waits(within(t, 5*time.Second), q), waits(t.Context(), q)
		reserves := background(func() error { _, err := q.ReserveN(t.Context(), 1); return err })
		_, err := q.Allow(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrUnreachable, "Allow does not wait")
		for _, c := range []struct {
			err <-chan error
			at  time.Duration
		}{{leaves, 5 * time.Second}, {patient, 20 * time.Second}, {reserves, 20 * time.Second}} {
			err := <-c.err
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, fairlimit.ErrUnreachable)
			require.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
			require.False(t, errors.As(err, new(*fairlimit.RefusedError)))
			assert.InDelta(t, c.at, time.Since(began), float64(time.Second))
		}
		w.is(traffic{})
		assert.Equal(t, 10, status(t, q).Available)
	})
}

// The state is read before anybody asks again, so that one question is lost,
// however often answers are.
func TestALostAnswerIsNoTurnAndMayHaveTakenPermits(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerHour(8), fairlimit.WithRetry(), fairlimit.WithMaxWait(20*time.Second))
		waits := func(n int, lost time.Duration) error {
			w.is(traffic{after: &net.OpError{Op: "read", Err: io.EOF}})
			waited := background(func() error { return q.WaitN(t.Context(), n) })
			time.Sleep(lost)
			w.is(traffic{})
			return <-waited
		}
		require.NoError(t, waits(3, 10*time.Second))
		assert.Equal(t, 8-3-3, status(t, q).Available)
		require.ErrorIs(t, waits(2, 0), fairlimit.ErrOutcomeUnknown, "refused, and the lost answer had granted the last")
		assert.Zero(t, status(t, q).Available)
	})
}

func TestOnlyARedisThatIsAwayIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		err   error
		waits bool
	}{
		{noConnection, true},
		{io.EOF, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		{redis.ErrPoolTimeout, true},
		{saying("LOADING Redis is loading the dataset in memory"), true},
		{saying("READONLY You can't write against a read only replica."), true},
		{saying("CLUSTERDOWN The cluster is down"), true},
		{saying("STATE what"), false},
		{saying("NOPERM this user has no permissions"), false},
		{saying("OOM command not allowed"), false},
		{saying("WRONGPASS invalid username-password pair"), false},
		{redis.ErrClosed, false},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false},
		{errors.New("redis: can't parse int reply"), false},
	} {
		bubble(t, func(t *testing.T, server *redistest.MiniServer) {
			q, w := onAWay(t, server, fairlimit.PerSecond(10), fairlimit.WithRetry())
			w.is(traffic{before: c.err})
			began := time.Now()
			err := q.Wait(within(t, 15*time.Second))
			require.ErrorContains(t, err, c.err.Error())
			assert.Equal(t, c.waits, errors.Is(err, context.DeadlineExceeded), "%v", err)
			assert.Equal(t, c.waits, time.Since(began) > 0)
		})
	}
}
