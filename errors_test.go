package fairlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// outage fails commands, before or after the server runs them.
type outage struct {
	commands
	mu            sync.Mutex
	before, after error
	asked         int
}

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		before, after := o.ask()
		if before == nil {
			if err := next(ctx, cmd); err != nil || after == nil {
				return err
			}
		}
		cmd.SetErr(errors.Join(before, after))
		return cmd.Err()
	}
}

func (o *outage) ask() (before, after error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	return o.before, o.after
}

// is sets how commands fail, and counts anew.
func (o *outage) is(before, after error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before, o.after, o.asked = before, after, 0
}

var refusedToConnect = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// retrying runs f with a limiter whose Redis can go away.
func retrying(
	t *testing.T, f func(t *testing.T, l *fairlimit.Queue, o *outage), quota fairlimit.Quota, opts ...fairlimit.Option,
) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := queueOf(t, rdb, "retry", quota, append(opts, fairlimit.WithRetry())...)
		require.NoError(t, l.Wait(t.Context())) // Redis learns the script
		time.Sleep(time.Second)
		o := &outage{}
		rdb.AddHook(o)
		defer time.Sleep(10 * time.Second) // within which the limiter is idle again
		f(t, l, o)
	})
}

func TestWhoeverLeavesWhileRedisIsAwayHearsBothReasons(t *testing.T) {
	for name, opts := range map[string][]fairlimit.Option{"no flow": nil, "a flow": {fairlimit.WithFlow("f", 1)}} {
		t.Run(name, func(t *testing.T) {
			retrying(t, func(t *testing.T, l *fairlimit.Queue, o *outage) {
				o.is(refusedToConnect, nil)
				ctx := within(t, 5*time.Second)
				start, errs := time.Now(), make(chan error, 9)
				for range 3 {
					go func() { errs <- l.Wait(ctx) }()
					go func() { _, err := l.ReserveN(ctx, 1); errs <- err }()
					go func() { errs <- l.Wait(t.Context()) }() // WithMaxWait
					time.Sleep(50 * time.Millisecond)
				}
				for i := range cap(errs) {
					err := <-errs
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, fairlimit.ErrUnreachable)
					require.NotErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
					if i < 6 {
						assert.Equal(t, 5*time.Second, time.Since(start))
					}
				}
				assert.Equal(t, 20*time.Second+100*time.Millisecond, time.Since(start))
				time.Sleep(10 * time.Second)
				o.is(nil, nil)
				require.NoError(t, l.Wait(t.Context()))
				assert.Equal(t, 1, o.asked, "an idle limiter has forgotten that Redis was away")
				assert.Equal(t, 0, status(t, l).Available, "nothing else was consumed")
			}, fairlimit.Every(100*time.Millisecond), append(opts, fairlimit.WithMaxWait(20*time.Second))...)
		})
	}
}

// TestALostAnswerIsNoTurn has Redis grant a turn, and the answer not arrive.
func TestALostAnswerIsNoTurn(t *testing.T) {
	retrying(t, func(t *testing.T, l *fairlimit.Queue, o *outage) {
		lost := &net.OpError{Op: "read", Err: io.EOF}
		o.is(nil, lost)
		ctx := within(t, 30*time.Second)
		go func() {
			time.Sleep(10 * time.Second)
			o.is(nil, nil)
		}()
		start := time.Now()
		require.NoError(t, l.WaitN(ctx, 3))
		assert.InDelta(t, 10, time.Since(start).Seconds(), 1.1)
		assert.Equal(t, 100-1-3-3, status(t, l).Available, "one question was lost, however often Redis was asked")

		o.is(nil, lost)
		err := l.WaitN(ctx, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	}, fairlimit.PerHour(100))
}

// saying is an error of Redis.
type saying string

func (s saying) Error() string { return string(s) }
func (saying) RedisError()     {}

func TestOnlyARedisThatIsAwayIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		err   error
		waits bool
	}{
		{refusedToConnect, true},
		{io.EOF, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		{redis.ErrPoolTimeout, true},
		{saying("LOADING Redis is loading the dataset in memory"), true},
		{saying("READONLY You can't write against a read only replica."), true},
		{saying("MASTERDOWN Link with MASTER is down"), true},
		{saying("CLUSTERDOWN The cluster is down"), true},
		{saying("STATE what"), false},
		{saying("NOPERM this user has no permissions"), false},
		{saying("OOM command not allowed"), false},
		{saying("WRONGPASS invalid username-password pair"), false},
		{redis.ErrClosed, false},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false},
		{errors.New("redis: can't parse int reply"), false},
	} {
		t.Run(strings.ReplaceAll(c.err.Error(), " ", "_"), func(t *testing.T) {
			retrying(t, func(t *testing.T, l *fairlimit.Queue, o *outage) {
				o.is(c.err, nil)
				ctx := within(t, 30*time.Second)
				start := time.Now()
				err := l.Wait(ctx)
				require.ErrorContains(t, err, c.err.Error())
				assert.Equal(t, c.waits, errors.Is(err, context.DeadlineExceeded), "%v", err)
				assert.Equal(t, c.waits, time.Since(start) > 0)
			}, fairlimit.PerSecond(10))
		})
	}
}

// TestADurationWithoutItsUnitIsRefused has a bare number for each duration.
func TestADurationWithoutItsUnitIsRefused(t *testing.T) {
	t.Parallel()
	second := fairlimit.PerSecond(1)
	made := func(quota fairlimit.Quota, opts ...fairlimit.Option) error {
		_, err := fairlimit.New(nowhere(t), "n", quota, opts...)
		return err
	}
	_, q := newSteered(t)
	for what, c := range map[string]struct{ err, want error }{
		"Every":           {made(fairlimit.Every(50)), fairlimit.ErrInvalidQuota},
		"WithExtraQuota":  {made(second, fairlimit.WithExtraQuota(fairlimit.Every(50))), fairlimit.ErrInvalidQuota},
		"WithGuard":       {made(second, fairlimit.WithGuard(50)), fairlimit.ErrInvalidOption},
		"WithMaxWait":     {made(second, fairlimit.WithMaxWait(50)), fairlimit.ErrInvalidOption},
		"WithMaxLateness": {made(second, fairlimit.WithMaxLateness(50)), fairlimit.ErrInvalidOption},
		"WithPauseWithin": {made(second, fairlimit.WithPauseWithin(50)), fairlimit.ErrInvalidOption},
		"KeepAlive": {
			made(second, fairlimit.WithEngine(window.With(window.KeepAlive(50)))), window.ErrInvalidArgument,
		},
		"RetryTick": {
			made(second, fairlimit.WithEngine(window.With(window.RetryTick(50)))), window.ErrInvalidArgument,
		},
		"Pause":     {q.Pause(t.Context(), 50), fairlimit.ErrInvalidPause},
		"SetQuotas": {q.SetQuotas(t.Context(), fairlimit.Every(50)), fairlimit.ErrInvalidQuota},
	} {
		require.ErrorIs(t, c.err, c.want, what)
		require.ErrorContains(t, c.err, "50ns: did you mean 50 * time.Millisecond?", what)
	}
	require.NoError(t, made(fairlimit.Every(time.Microsecond), fairlimit.WithGuard(time.Microsecond)))
}
