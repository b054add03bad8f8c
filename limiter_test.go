package fairlimit_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// options are given to New, which is to fail.
type options = []fairlimit.Option

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	rdb, second, none := nowhere(t), fairlimit.PerSecond(1), fairlimit.Quota{}
	burst := func(permits, burst int) fairlimit.Quota {
		return fairlimit.Quota{Permits: permits, Per: time.Second, Burst: burst}
	}
	endless, tokens := fairlimit.WithGuard(math.MaxInt64), fairlimit.WithUnit("tokens", second)
	for _, c := range []struct {
		quota fairlimit.Quota
		opts  options
		want  error
		text  string
	}{
		{none, nil, fairlimit.ErrInvalidQuota, "Permits is 0, want at least 1"},
		{fairlimit.PerMinute(-1), nil, fairlimit.ErrInvalidQuota, "Permits is -1, want at least 1"},
		{fairlimit.Every(0), nil, fairlimit.ErrInvalidQuota, "Per is 0s, want more than 0"},
		{fairlimit.Every(50), nil, fairlimit.ErrInvalidQuota, "50ns: did you mean 50 * time.Millisecond?"},
		{burst(5, -1), nil, fairlimit.ErrInvalidQuota, "Burst is -1"},
		{burst(5, 6), nil, fairlimit.ErrInvalidQuota, "Burst is 6, want 0 to Permits, which is 5"},
		{fairlimit.Every(math.MaxInt64), nil, fairlimit.ErrUnsupported, "fair holds up to"},
		{second, options{endless}, fairlimit.ErrUnsupported, "fair holds up to"},
		{fairlimit.PerHour(math.MaxInt), nil, fairlimit.ErrUnsupported, "fair counts to"},
		{second, options{nil}, fairlimit.ErrInvalidOption, "nil option"},
		{second, options{fairlimit.WithEngine(nil)}, fairlimit.ErrInvalidOption, "WithEngine: nil engine"},
		{second, options{fairlimit.WithMaxWait(-1)}, fairlimit.ErrInvalidOption, "WithMaxWait: -1ns is negative"},
		{second, options{fairlimit.WithMaxWait(50)}, fairlimit.ErrInvalidOption, "50ns: did you mean"},
		{second, options{fairlimit.WithGuard(-1)}, fairlimit.ErrInvalidOption, "WithGuard: -1ns is negative"},
		{second, options{fairlimit.WithGuard(50)}, fairlimit.ErrInvalidOption, "50ns: did you mean"},
		{second, options{fairlimit.WithPrefix("{}")}, fairlimit.ErrUnsupported, `its {} would spread the keys over slots`},
		{second, options{fairlimit.WithExtraQuota(none)}, fairlimit.ErrInvalidQuota, "WithExtraQuota: Permits is 0"},
		{second, options{fairlimit.WithUnit("a b", second)}, fairlimit.ErrInvalidOption, `"a b" is no name of a unit`},
		{second, options{fairlimit.WithUnit("burst", second)}, fairlimit.ErrInvalidOption, "is no name of a unit"},
		{second, options{fairlimit.WithUnit("calls", second)}, fairlimit.ErrInvalidOption, "is not burst, calls, flows"},
		{second, options{fairlimit.WithUnit("tokens")}, fairlimit.ErrInvalidOption, "has no quota"},
		{second, options{fairlimit.WithUnit("tokens", none)}, fairlimit.ErrInvalidQuota, "WithUnit: tokens: Permits is 0"},
		{second, options{tokens, tokens}, fairlimit.ErrInvalidOption, "given twice"},
		{second, options{fairlimit.WithFlow("", 1)}, fairlimit.ErrInvalidFlow, "WithFlow: invalid flow: empty id"},
		{second, options{fairlimit.WithFlow("a", 0)}, fairlimit.ErrInvalidFlow, "a weight of 0, want 1 to 1000"},
		{second, options{fairlimit.WithFlow("a", 1001)}, fairlimit.ErrInvalidFlow, "a weight of 1001"},
	} {
		l, err := fairlimit.New(rdb, "n", c.quota, c.opts...)
		assert.Nil(t, l)
		require.ErrorIs(t, err, c.want, c.text)
		assert.ErrorContains(t, err, c.text)
		assert.True(t, strings.HasPrefix(err.Error(), `fairlimit: "n": `), err)
		assert.Equal(t, 1, strings.Count(err.Error(), "fairlimit: "), err)
	}
}

func TestNewNeedsAClientAndAName(t *testing.T) {
	for _, none := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		_, err := fairlimit.New(none, "n", fairlimit.PerSecond(1))
		require.ErrorIs(t, err, fairlimit.ErrNilClient)
	}
	_, err := fairlimit.New(nowhere(t), "", fairlimit.PerSecond(1))
	require.ErrorIs(t, err, fairlimit.ErrEmptyName)
}

func TestAPrefixStandsBeforeTheKeys(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		require.True(t, allow(t, queueOf(t, server.Client, "n", fairlimit.PerHour(1), fairlimit.WithPrefix("p{q}"))))
		assert.Equal(t, []string{"p{q}{n}", "p{q}{n}:calls"}, server.Keys())
	})
}

func TestAnEngineWithoutTurnsAheadIsNoQueue(t *testing.T) {
	e := fairlimit.WithEngine(window.New)
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), e)
	require.NoError(t, err)
	assert.NotImplements(t, (*interface{ Requeue(context.Context) error })(nil), l)
	_, err = fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(1), e)
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.Open(nowhere(t), "n", e)
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), e, fairlimit.WithFlow("a", 1))
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	for want, build := range map[error]engine.Builder{
		assert.AnError:             func(engine.Config) (engine.Engine, error) { return nil, assert.AnError },
		fairlimit.ErrInvalidOption: func(engine.Config) (engine.Engine, error) { return nil, nil },
	} {
		_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
		require.ErrorIs(t, err, want)
	}
}

func TestBadNumbersOfPermitsAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "n", fairlimit.PerHour(3))
		for n, want := range map[int]error{
			0: fairlimit.ErrInvalidPermits, math.MinInt: fairlimit.ErrInvalidPermits,
			4: fairlimit.ErrExceedsQuota, math.MaxInt: fairlimit.ErrExceedsQuota,
		} {
			require.ErrorIs(t, q.WaitN(t.Context(), n), want)
			allowed, err := q.AllowN(t.Context(), n)
			require.ErrorIs(t, err, want)
			require.False(t, allowed)
			_, err = q.ReserveN(t.Context(), n)
			require.ErrorIs(t, err, want)
		}
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, q))
	})
}

func TestAnErrorSaysWhyAndWhichLimiterAndWhereRedisWasLookedFor(t *testing.T) {
	q := queueOf(t, nowhere(t), "tax-office", fairlimit.PerSecond(5))
	var none context.Context
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for method, call := range calls(q) {
		require.ErrorIs(t, call(none), fairlimit.ErrNilContext, method)
		require.ErrorIs(t, call(ended), context.Canceled, method)
		require.NotErrorIs(t, call(ended), fairlimit.ErrUnreachable, method)
		err := call(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrUnreachable, method)
		assert.Equal(t, 1, strings.Count(err.Error(), "fairlimit: "), err)
		assert.True(t, strings.HasPrefix(err.Error(), `fairlimit: "tax-office": `), err)
		assert.ErrorContains(t, err, "127.0.0.1:1")
	}
}

// The client waits for a minute, and does not look at its ctx.
func TestEveryCallEndsAfterFiveSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.PerSecond(5))
		w.is(traffic{there: 8 * time.Second})
		for method, call := range calls(q) {
			began := time.Now()
			err := call(context.Background())
			require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, method)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", method)
			assert.Equal(t, 5*time.Second, time.Since(began), method)
			time.Sleep(time.Minute)
		}
	})
}

func TestLimitersWithOtherUnitsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, plain := tokens(t, server), queueOf(t, server.Client, "q", fairlimit.PerMinute(60))
		require.NoError(t, q.Wait(t.Context()))
		err := plain.Wait(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrUnsupported)
		assert.ErrorContains(t, err, "the queue counts calls and tokens, this limiter counts calls only: give all")
		require.NoError(t, plain.Reset(t.Context()))
		require.NoError(t, plain.Wait(t.Context()))
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrUnsupported)
	})
}

func TestAQuotaIsText(t *testing.T) {
	parsed, err := fairlimit.ParseQuota("100/2m burst 10")
	require.NoError(t, err)
	assert.Equal(t, "100/2m burst 10", parsed.String())
	_, err = fairlimit.ParseQuota("20/1s 3/1m")
	require.ErrorIs(t, err, fairlimit.ErrInvalidQuota)
}
