package fairlimit_test

import (
	"context"
	"errors"
	"math"
	"strings"
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
	"github.com/fairlimit/fairlimit/window"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	badQuota, badOption, unsupported := fairlimit.ErrInvalidQuota, fairlimit.ErrInvalidOption, fairlimit.ErrUnsupported
	rdb, second := nowhere(t), fairlimit.PerSecond(1)
	burst := func(permits int, per time.Duration, burst int) fairlimit.Quota {
		return fairlimit.Quota{Permits: permits, Per: per, Burst: burst}
	}
	onWindow, endless := fairlimit.WithEngine(window.New), fairlimit.WithGuard(math.MaxInt64)
	inAFlow, tokens := fairlimit.WithFlow("a", 1), fairlimit.WithUnit("tokens", second)
	type options = []fairlimit.Option
	type made struct {
		rdb   redis.UniversalClient
		name  string
		quota fairlimit.Quota
		opts  options
		want  error
	}
	all := map[string]made{
		"nil client":         {nil, "n", second, nil, fairlimit.ErrNilClient},
		"nil *redis.Client":  {(*redis.Client)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"nil *redis.Ring":    {(*redis.Ring)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"nil *ClusterClient": {(*redis.ClusterClient)(nil), "n", second, nil, fairlimit.ErrNilClient},
		"empty name":         {rdb, "", second, nil, fairlimit.ErrEmptyName},
		"replicas of a client of one's own": {
			struct{ *redis.Client }{rdb}, "n", second, options{fairlimit.WithReplicas(1)}, unsupported,
		},
	}
	for name, c := range map[string]struct {
		quota fairlimit.Quota
		opts  options
		want  error
	}{
		"zero quota":                   {fairlimit.Quota{}, nil, badQuota},
		"no permits":                   {fairlimit.PerSecond(0), nil, badQuota},
		"negative permits":             {fairlimit.PerMinute(-1), nil, badQuota},
		"zero Per":                     {fairlimit.Every(0), nil, badQuota},
		"negative Per":                 {fairlimit.Every(-time.Second), nil, badQuota},
		"negative Burst":               {burst(5, time.Second, -1), nil, badQuota},
		"Burst over Permits":           {burst(5, time.Second, 6), nil, badQuota},
		"Per too long":                 {fairlimit.Every(math.MaxInt64), nil, unsupported},
		"Per too long, on window":      {fairlimit.Every(math.MaxInt64), options{onWindow}, unsupported},
		"Per too long with guard":      {fairlimit.Every(math.MaxInt64), options{endless}, unsupported},
		"guard too long":               {second, options{endless}, unsupported},
		"too many permits":             {fairlimit.PerHour(math.MaxInt), nil, unsupported},
		"too many permits, on window":  {fairlimit.PerHour(math.MaxInt), options{onWindow}, unsupported},
		"Burst in no time":             {burst(1000, 10*time.Microsecond, 1), nil, unsupported},
		"Burst, on window":             {burst(5, time.Second, 1), options{onWindow}, unsupported},
		"further quota, on window":     {second, options{onWindow, fairlimit.WithExtraQuota(second)}, unsupported},
		"guard, on window":             {second, options{onWindow, fairlimit.WithGuard(time.Second)}, unsupported},
		"Per of less than 1 ms, there": {fairlimit.Every(time.Microsecond), options{onWindow}, unsupported},
		"stored quota, on window":      {second, options{onWindow, fairlimit.WithStoredQuota()}, unsupported},
		"pauses, on window":            {second, options{onWindow, fairlimit.WithPauseWithin(1e9)}, unsupported},
		"lateness, on window":          {second, options{onWindow, fairlimit.WithMaxLateness(1e9)}, unsupported},
		"flow, on window":              {second, options{onWindow, fairlimit.WithFlow("a", 1)}, unsupported},
		"nil option":                   {second, options{nil}, badOption},
		"nil engine":                   {second, options{fairlimit.WithEngine(nil)}, badOption},
		"nil fallback":                 {second, options{fairlimit.WithFallback(nil)}, badOption},
		"fallback that is nil":         {second, options{fairlimit.WithFallback((*rateLimiter)(nil))}, badOption},
		"retry and a fallback": {
			second, options{fairlimit.WithRetry(), fairlimit.WithFallback(fairlimit.FailOpen)}, badOption,
		},
		"negative max wait":         {second, options{fairlimit.WithMaxWait(-1)}, badOption},
		"negative guard":            {second, options{fairlimit.WithGuard(-1)}, badOption},
		"negative lateness":         {second, options{fairlimit.WithMaxLateness(-1)}, badOption},
		"negative time of pauses":   {second, options{fairlimit.WithPauseWithin(-1)}, badOption},
		"negative bound":            {second, options{fairlimit.WithMaxQueued(-1)}, badOption},
		"no look-ahead":             {second, options{inAFlow, fairlimit.WithLookAhead(0)}, badOption},
		"look-ahead without a flow": {second, options{fairlimit.WithLookAhead(9)}, badOption},
		"flow's quota without one":  {second, options{fairlimit.WithFlowQuota(second)}, badOption},
		"zero flow's quota":         {second, options{fairlimit.WithFlowQuota(fairlimit.PerSecond(0))}, badQuota},
		"no replicas":               {second, options{fairlimit.WithReplicas(0)}, badOption},
		"too many replicas":         {second, options{fairlimit.WithReplicas(1001)}, badOption},
		"zero further quota":        {second, options{fairlimit.WithExtraQuota(fairlimit.Quota{})}, badQuota},
		"unit without a name":       {second, options{fairlimit.WithUnit("", second)}, badOption},
		"unit with a bad name":      {second, options{fairlimit.WithUnit("a b", second)}, badOption},
		"unit that is a word":       {second, options{fairlimit.WithUnit("burst", second)}, badOption},
		"unit without a quota":      {second, options{fairlimit.WithUnit("tokens")}, badOption},
		"zero unit's quota":         {second, options{fairlimit.WithUnit("tokens", fairlimit.Quota{})}, badQuota},
		"unit twice":                {second, options{tokens, tokens}, badOption},
		"unit, on window":           {second, options{tokens, onWindow}, unsupported},
		"unit and a fallback":       {second, options{tokens, fairlimit.WithFallback(new(rateLimiter))}, badOption},
		"guard of no unit":          {second, options{fairlimit.WithUnitGuard("tokens", time.Second)}, badOption},
		"negative guard of a unit":  {second, options{tokens, fairlimit.WithUnitGuard("tokens", -1)}, badOption},
	} {
		all[name] = made{rdb, "n", c.quota, c.opts, c.want}
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			l, err := fairlimit.New(c.rdb, c.name, c.quota, c.opts...)
			require.ErrorIs(t, err, c.want)
			assert.Nil(t, l)
			assert.Contains(t, err.Error(), "fairlimit: ")
			for _, other := range []error{
				fairlimit.ErrNilClient, fairlimit.ErrEmptyName, badQuota, badOption, unsupported, fairlimit.ErrState,
				fairlimit.ErrInvalidPermits, fairlimit.ErrExceedsQuota, fairlimit.ErrOutcomeUnknown,
			} {
				assert.Equal(t, other == c.want, errors.Is(err, other), "%v", other)
			}
		})
	}
}

func TestNewMakesAQueueOnFairAndNoneOnWindow(t *testing.T) {
	onWindow := fairlimit.WithEngine(window.New)
	for _, c := range []struct {
		opts []fairlimit.Option
		is   bool
	}{{nil, true}, {[]fairlimit.Option{onWindow}, false}} {
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), c.opts...)
		require.NoError(t, err)
		_, is := l.(*fairlimit.Queue)
		assert.Equal(t, c.is, is)
		_, is = l.(fairlimit.Reserver)
		assert.Equal(t, c.is, is)
	}
	_, err := fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(1), onWindow)
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.Open(nowhere(t), "n", onWindow)
	require.Error(t, err)
}

func TestAnEngineMayRefuseToBeBuilt(t *testing.T) {
	fails := func(engine.Config) (engine.Engine, error) { return nil, assert.AnError }
	_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(fails))
	require.ErrorIs(t, err, assert.AnError)
	lazy := func(engine.Config) (engine.Engine, error) { return nil, nil }
	_, err = fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), fairlimit.WithEngine(lazy))
	require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
}

func TestBadNumbersOfPermitsAreErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(3), e)
		require.NoError(t, err)
		for n, want := range map[int]error{
			0: fairlimit.ErrInvalidPermits, -1: fairlimit.ErrInvalidPermits, math.MinInt: fairlimit.ErrInvalidPermits,
			4: fairlimit.ErrExceedsQuota, math.MaxInt: fairlimit.ErrExceedsQuota,
		} {
			require.ErrorIs(t, l.WaitN(t.Context(), n), want, "WaitN(%d)", n)
			allowed, err := l.AllowN(t.Context(), n)
			require.ErrorIs(t, err, want, "AllowN(%d)", n)
			require.False(t, allowed)
			if r, ok := l.(fairlimit.Reserver); ok {
				_, err = r.ReserveN(t.Context(), n)
				require.ErrorIs(t, err, want, "ReserveN(%d)", n)
			}
		}
		assert.Equal(t, fairlimit.Status{Available: 3}, status(t, l))
	})
}

// The key of window is the name itself, unless there is a prefix.
func TestTheErrorOfAForeignKeyNamesTheLimiterOnce(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		for prefix, times := range map[string]int{"": 1, "prefix:": 2} {
			l, err := fairlimit.New(
				rdb, name, fairlimit.PerSecond(1), fairlimit.WithEngine(window.New), fairlimit.WithPrefix(prefix))
			require.NoError(t, err)
			require.NoError(t, rdb.Set(t.Context(), prefix+name, "x", time.Hour).Err())
			err = l.Wait(t.Context())
			require.ErrorIs(t, err, fairlimit.ErrState)
			require.Equal(t, times, strings.Count(err.Error(), name), err)
			require.Contains(t, err.Error(), prefix+name)
		}
	})
}

func TestACtxThatIsNilOrHasEndedIsAnErrorOfEveryCall(t *testing.T) {
	s, q := newSteered(t)
	var none context.Context
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for method, call := range calls(q) {
		assert.ErrorIs(t, call(none), fairlimit.ErrNilContext, method)
		assert.ErrorIs(t, call(ended), context.Canceled, method)
	}
	require.ErrorIs(t, q.Pause(ended, time.Second), context.Canceled)
	_, _, err := q.Quotas(ended)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, s.pauses, "nothing was asked")
}

func TestAnErrorNamesItsLimiterOnce(t *testing.T) {
	t.Parallel()
	l := named(t, nowhere(t), "tax-office", fairlimit.PerSecond(5))
	for method, call := range calls(l) {
		err := call(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrUnreachable, method)
		assert.Equal(t, 1, strings.Count(err.Error(), "fairlimit: "), err)
		assert.True(t, strings.HasPrefix(err.Error(), `fairlimit: "tax-office": `), err)
	}
}

func TestARefusalSaysWhatTheTurnIsTooLateFor(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := named(t, rdb, "tax-office", fairlimit.Every(time.Minute), fairlimit.WithMaxWait(30*time.Second))
		require.NoError(t, l.Wait(t.Context()))
		assert.EqualError(t, l.Wait(t.Context()),
			`fairlimit: "tax-office": refused: the turn would come in 1m0s, later than WithMaxWait (30s left) allows`)
		ctx := within(t, 5*time.Second)
		assert.EqualError(t, l.Wait(ctx),
			`fairlimit: "tax-office": refused: the turn would come in 1m0s, later than ctx's deadline (in 5s) allows`)
	})
}

// pausedInAReset is a queue that is paused for an hour while a Reset is on its
// way. One caller slept, and done tells after how long it went.
func pausedInAReset(
	t *testing.T, hooks []redis.Hook, opts ...fairlimit.Option,
) (q *fairlimit.Queue, done <-chan time.Duration) {
	rdb := redistest.Mini(t).NewClient(t)
	q = queueOf(t, rdb, redistest.Name(t), fairlimit.Every(time.Minute), opts...)
	require.NoError(t, q.Reset(t.Context())) // the script is loaded
	require.NoError(t, q.Wait(t.Context()))
	start, went := time.Now(), make(chan time.Duration, 1)
	go func() {
		assert.NoError(t, q.Wait(t.Context()))
		went <- time.Since(start)
	}()
	synctest.Wait()
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	reset := make(chan error, 1)
	go func() { reset <- q.Reset(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, q.Pause(t.Context(), time.Hour))
	require.NoError(t, <-reset)
	return q, went
}

func TestAResetFreesNobodyFromALaterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way onTheWay
		way.back.Store(int64(300 * time.Millisecond))
		var f rateLimiter
		var lost atomic.Bool
		q, done := pausedInAReset(t, []redis.Hook{refuses{set: &lost}, &way}, fairlimit.WithFallback(&f))
		lost.Store(true)
		allowed, err := q.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed, "the pause holds the fallback")
		assert.Zero(t, f.permits.Load())
		lost.Store(false)
		assert.GreaterOrEqual(t, <-done, time.Hour)
	})
}

// stuck is an engine whose calls wait for the end of the test.
type stuck struct {
	*stub
	until chan struct{}
}

func (e *stuck) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	<-e.until
	return nil, assert.AnError
}

func (e *stuck) Status(context.Context) (engine.Status, error) {
	<-e.until
	return engine.Status{Available: 7}, nil
}

func (e *stuck) Reset(context.Context) error {
	<-e.until
	return nil
}

func TestEveryMethodReturnsAfterFiveSeconds(t *testing.T) {
	for _, name := range []string{"Wait", "WaitN", "Allow", "ReserveN", "Status", "Reset"} {
		synctest.Test(t, func(t *testing.T) {
			e := &stuck{&stub{queues: true}, make(chan struct{})}
			build := func(engine.Config) (engine.Engine, error) { return e, nil }
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1})
			defer func() { _ = rdb.Close() }()
			l, err := fairlimit.New(rdb, "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
			require.NoError(t, err)
			start := time.Now()
			err = calls(l.(fairlimit.Reserver))[name](context.Background())
			require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, name)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)
			assert.Equal(t, 5*time.Second, time.Since(start), name)
			close(e.until)
		})
	}
}
