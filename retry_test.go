package fairlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
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

func TestWhoeverLeavesWhileRedisIsAwayHearsBothReasons(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rdb, w := wayTo(t, server)
		q := queueOf(t, rdb, "q", fairlimit.PerSecond(10), fairlimit.WithRetry(), fairlimit.WithMaxWait(20*time.Second))
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
func TestALostAnswerIsNoTurn(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rdb, w := wayTo(t, server)
		q := queueOf(t, rdb, "q", fairlimit.PerHour(100), fairlimit.WithRetry())
		w.is(traffic{after: &net.OpError{Op: "read", Err: io.EOF}})
		waited := background(func() error { return q.WaitN(t.Context(), 3) })
		time.Sleep(10 * time.Second)
		w.is(traffic{})
		require.NoError(t, <-waited)
		assert.Equal(t, 100-3-3, status(t, q).Available)
	})
}

// Its lost answer had granted the last permits. Then it is refused.
func TestWhoeverLostAnAnswerIsNotToldThatNothingWasConsumed(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rdb, w := wayTo(t, server)
		q := queueOf(t, rdb, "q", fairlimit.PerHour(2), fairlimit.WithRetry(), fairlimit.WithMaxWait(20*time.Second))
		w.is(traffic{after: io.EOF})
		waited := background(func() error { return q.WaitN(t.Context(), 2) })
		w.is(traffic{})
		err := <-waited
		require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
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
			rdb, w := wayTo(t, server)
			q := queueOf(t, rdb, "q", fairlimit.PerSecond(10), fairlimit.WithRetry())
			w.is(traffic{before: c.err})
			began := time.Now()
			err := q.Wait(within(t, 15*time.Second))
			require.ErrorContains(t, err, c.err.Error())
			assert.Equal(t, c.waits, errors.Is(err, context.DeadlineExceeded), "%v", err)
			assert.Equal(t, c.waits, time.Since(began) > 0)
		})
	}
}
