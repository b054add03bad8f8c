package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestAPrefixStandsBeforeTheKey(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		for prefix, opts := range map[string][]fairlimit.Option{
			"fairlimit:": nil,
			"":           {fairlimit.WithPrefix("")},
			"p{q}":       {fairlimit.WithPrefix("p{q}")},
		} {
			require.NoError(t, named(t, rdb, name, fairlimit.PerHour(1), opts...).Wait(t.Context()))
			left, err := rdb.PTTL(t.Context(), prefix+"{"+name+"}").Result()
			require.NoError(t, err)
			assert.InDelta(t, time.Hour, left, float64(10*time.Second), "the TTL is the backlog")
		}
	})
}

func TestAnErrorOfNewNamesTheLimiterAndHasThePrefixOnce(t *testing.T) {
	t.Parallel()
	rdb, quota := nowhere(t), fairlimit.PerSecond(1)
	made := func(opts ...fairlimit.Option) error {
		_, err := fairlimit.New(rdb, "n", quota, opts...)
		return err
	}
	_, noQuota := fairlimit.New(rdb, "n", fairlimit.Quota{})
	queue, err := fairlimit.NewQueue(rdb, "n", quota)
	require.NoError(t, err)
	_, flow := queue.Flow("", 1)
	_, noQueue := fairlimit.NewQueue(rdb, "n", quota, fairlimit.WithEngine(window.New))
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{noQuota, fairlimit.ErrInvalidQuota, "invalid quota: Permits is 0, want at least 1"},
		{
			made(fairlimit.WithExtraQuota(fairlimit.PerSecond(0))), fairlimit.ErrInvalidQuota,
			"invalid quota: WithExtraQuota: Permits is 0, want at least 1",
		},
		{
			made(fairlimit.WithUnit("my tokens", quota)), fairlimit.ErrInvalidOption,
			`invalid option: WithUnit: "my tokens" is no name of a unit: a name has up to 32 letters, digits, - and _, ` +
				`begins with a letter, and is not burst`,
		},
		{made(fairlimit.WithGuard(-1)), fairlimit.ErrInvalidOption, "invalid option: WithGuard: -1ns is negative"},
		{
			made(fairlimit.WithFlow("", 1)), fairlimit.ErrInvalidFlow,
			"invalid option: WithFlow: invalid flow: empty id",
		},
		{flow, fairlimit.ErrInvalidFlow, "invalid flow: empty id"},
		{
			made(fairlimit.WithEngine(window.New), fairlimit.WithGuard(time.Second)), fairlimit.ErrUnsupported,
			"not supported by this engine: window has no guard",
		},
		{
			noQueue, fairlimit.ErrUnsupported,
			"not supported by this engine: a Queue, because it grants no turns ahead",
		},
		{
			queue.SetQuotas(t.Context()), fairlimit.ErrInvalidQuota,
			"invalid quota: there is none to store; ForgetQuotas forgets the stored ones",
		},
		{
			queue.SetQuotas(t.Context(), quota, fairlimit.PerSecond(0)), fairlimit.ErrInvalidQuota,
			"invalid quota: Permits is 0, want at least 1",
		},
	} {
		assert.ErrorIs(t, c.err, c.is)
		assert.EqualError(t, c.err, `fairlimit: "n": `+c.text)
	}
}

// Which options a combination has; the others are left out.
const (
	hasPrefix = 1 << iota
	hasGuard
	hasMaxWait
	hasMaxQueued
	hasReplicas
	hasKeepAlive
	hasNilEngine
	hasNilFallback
	hasFallback
	hasFailOpen
	hasNilOption
	onFair
	onWindow
	perClient
)

// combination is anything that a limiter may be made with.
type combination struct {
	name, prefix string
	quota, extra fairlimit.Quota
	// Further quotas: the first is extra, and each has a Per of a microsecond
	// more than the one before.
	extras    uint8
	guard     time.Duration
	maxWait   time.Duration
	keepAlive time.Duration
	maxQueued int
	replicas  int
	has       uint16
}

func (c combination) given(option uint16) bool { return c.has&option != 0 }

func (c combination) furtherQuotas() []fairlimit.Quota {
	quotas := make([]fairlimit.Quota, c.extras%12)
	for i := range quotas {
		quotas[i] = c.extra
		quotas[i].Per += min(time.Duration(i)*time.Microsecond, math.MaxInt64-max(0, c.extra.Per))
	}
	return quotas
}

func (c combination) options(second fairlimit.Fallback) (opts []fairlimit.Option) {
	add := func(option uint16, o fairlimit.Option) {
		if c.given(option) {
			opts = append(opts, o)
		}
	}
	add(hasNilOption, nil)
	add(hasNilEngine, fairlimit.WithEngine(nil))
	add(hasNilFallback, fairlimit.WithFallback(nil))
	add(hasPrefix, fairlimit.WithPrefix(c.prefix))
	add(hasGuard, fairlimit.WithGuard(c.guard))
	add(hasMaxWait, fairlimit.WithMaxWait(c.maxWait))
	add(hasMaxQueued, fairlimit.WithMaxQueued(c.maxQueued))
	add(hasReplicas, fairlimit.WithReplicas(c.replicas))
	for _, q := range c.furtherQuotas() {
		opts = append(opts, fairlimit.WithExtraQuota(q))
	}
	add(hasFallback, fairlimit.WithFallback(second))
	add(hasFailOpen, fairlimit.WithFallback(fairlimit.FailOpen))
	add(onFair, fairlimit.WithEngine(fair.New))
	if c.given(onWindow) {
		var of []window.Option
		if c.given(perClient) {
			of = append(of, window.PerClient(c.prefix))
		}
		if c.given(hasKeepAlive) {
			of = append(of, window.KeepAlive(c.keepAlive))
		}
		opts = append(opts, fairlimit.WithEngine(window.With(of...)))
	}
	return opts
}

// most is how many permits may go at one moment.
func (c combination) most() int {
	most := c.quota.Permits
	for _, q := range append(c.furtherQuotas(), c.quota) {
		if most = min(most, q.Permits); q.Burst > 0 {
			most = min(most, q.Burst)
		}
	}
	return most
}

// FuzzOptions makes limiters of anything. Either New gives an error that the
// documentation tells of, or a limiter that keeps its quota. Which error is up to
// TestNewRefusesWhatMakesNoSense.
//
//	go test -fuzz FuzzOptions .
func FuzzOptions(f *testing.F) {
	add := func(c combination) {
		f.Add(c.name, c.prefix, c.quota.Permits, int64(c.quota.Per), c.quota.Burst, c.extras, c.extra.Permits,
			int64(c.extra.Per), c.extra.Burst,
			int64(c.guard), int64(c.maxWait), int64(c.keepAlive), c.maxQueued, c.replicas, c.has)
	}
	plain := combination{
		name: "n", quota: fairlimit.PerSecond(3), extra: fairlimit.PerMinute(20), maxQueued: 1, replicas: 1,
	}
	for option := uint16(1); option <= perClient; option <<= 1 {
		c := plain
		c.has = option
		add(c)
		c.has |= onWindow
		add(c)
		c.has |= perClient
		c.prefix, c.guard, c.maxWait, c.maxQueued, c.replicas, c.keepAlive = "p", -1, -1, -1, 1001, -1
		add(c)
	}
	for _, q := range []fairlimit.Quota{
		{},
		{Permits: 1},
		{Permits: -1, Per: 1},
		{Permits: 1, Per: 1},
		{Permits: 5, Per: time.Second, Burst: 1},
		{Permits: 5, Per: time.Second, Burst: 5},
		{Permits: 5, Per: time.Second, Burst: 6},
		{Permits: 1000, Per: 10 * time.Microsecond, Burst: 1},
		{Permits: 1_000_000_000, Per: time.Second},
		{Permits: 1_000_000_001, Per: time.Hour},
		{Permits: 3, Per: 10 * 365 * 24 * time.Hour},
		{Permits: math.MaxInt, Per: math.MaxInt64, Burst: math.MaxInt},
		{Permits: 7, Per: 1234567 * time.Nanosecond, Burst: 3},
	} {
		c := plain
		c.quota = q
		add(c)
		c.quota, c.extra, c.extras = plain.quota, q, 2
		add(c)
		c.quota, c.has, c.guard = q, hasGuard, 50*time.Millisecond
		add(c)
	}
	add(combination{
		name: strings.Repeat("{}\x00ü", 300), prefix: "}{", quota: fairlimit.Every(time.Minute),
		has: hasPrefix | hasGuard, guard: math.MaxInt64,
	})
	add(combination{
		name: "many", quota: fairlimit.PerSecond(5), extra: fairlimit.PerMinute(5), extras: 8,
		has: hasMaxWait, maxWait: 1,
	})

	f.Fuzz(func(t *testing.T, name, prefix string, permits int, per int64, burst int, extras uint8, extraPermits int,
		extraPer int64, extraBurst int,
		guard, maxWait, keepAlive int64, maxQueued, replicas int, has uint16,
	) {
		c := combination{
			name: name, prefix: prefix, quota: fairlimit.Quota{Permits: permits, Per: time.Duration(per), Burst: burst},
			extra:  fairlimit.Quota{Permits: extraPermits, Per: time.Duration(extraPer), Burst: extraBurst},
			extras: extras,
			guard:  time.Duration(guard), maxWait: time.Duration(maxWait), keepAlive: time.Duration(keepAlive),
			maxQueued: maxQueued, replicas: replicas, has: has,
		}
		redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) { c.check(t, rdb) })
	})
}

func (c combination) check(t *testing.T, rdb *redis.Client) {
	var second likeALimiter
	l, err := fairlimit.New(rdb, c.name, c.quota, c.options(&second)...)
	if err != nil {
		require.True(t, slices.ContainsFunc([]error{
			fairlimit.ErrEmptyName, fairlimit.ErrInvalidQuota, fairlimit.ErrInvalidOption, fairlimit.ErrUnsupported,
			window.ErrInvalidArgument,
		}, func(documented error) bool { return errors.Is(err, documented) }), "%+v: %v", c, err)
		require.Nil(t, l)
		return
	}
	if c.given(hasReplicas) {
		c.checkWithoutReplicas(t, l, &second)
		return
	}
	_, queues := l.(fairlimit.Reserver)
	require.Equal(t, !c.given(onWindow), queues)
	most := c.most()
	require.Equal(t, fairlimit.Status{Available: most}, status(t, l), "%+v: idle", c)

	began := time.Now()
	went := []time.Time{began}
	require.NoError(t, l.Wait(t.Context()), "%+v", c)
	require.Zero(t, time.Since(began), "%+v: it was idle", c)
	require.Equal(t, most-1, status(t, l).Available, "%+v", c)
	for range 5 {
		ok, err := l.Allow(t.Context())
		require.NoError(t, err, "%+v", c)
		require.Equal(t, len(went) < most, ok, "%+v: after %d", c, len(went))
		if ok {
			went = append(went, time.Now())
		}
	}
	for range 7 {
		err := l.Wait(t.Context())
		var refused *fairlimit.RefusedError
		if errors.As(err, &refused) {
			require.True(t, c.given(hasMaxWait) && c.maxWait > 0 && refused.Wait > c.maxWait, "%+v: %v", c, err)
			break
		}
		require.NoError(t, err, "%+v", c)
		went = append(went, time.Now())
		require.LessOrEqual(t, status(t, l).Available, most, "%+v", c)
	}
	for _, q := range append(c.furtherQuotas(), c.quota) {
		for i := range went[min(q.Permits, len(went)):] {
			require.GreaterOrEqual(t, went[i+q.Permits].Sub(went[i]), q.Per,
				"%+v: %d in a window: %v", c, q.Permits+1, went)
		}
	}
	if c.given(hasGuard) && c.quota.Permits < len(went) {
		require.GreaterOrEqual(t, went[c.quota.Permits].Sub(went[0]), c.quota.Per+c.guard, "%+v", c)
	}
	require.Zero(t, second.permits.Load(), "%+v: Redis answered", c)
}

// checkWithoutReplicas is for a server without replicas: only the fallback lets
// anybody go.
func (c combination) checkWithoutReplicas(t *testing.T, l fairlimit.Limiter, second *likeALimiter) {
	err := l.Wait(t.Context())
	if c.given(hasFallback) || c.given(hasFailOpen) {
		require.NoError(t, err, "%+v", c)
		require.Equal(t, !c.given(hasFailOpen), second.permits.Load() == 1, "%+v", c)
		return
	}
	require.Error(t, err, "%+v", c)
	ok, err := l.Allow(t.Context())
	require.Error(t, err, "%+v", c)
	require.False(t, ok)
}

// thrifty is an engine whose grants are on too few replicas, and that may refuse
// to take them back.
type thrifty struct {
	*stub
	refuses error
	most    int // callers in one question
	returns int
}

const refusedPermits = 7

func (e *thrifty) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	e.most = max(e.most, len(requests))
	time.Sleep(time.Second)
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i] = granted(0, r.N)
		if r.N == refusedPermits {
			answers[i] = refused(time.Hour)
		}
	}
	return answers, fmt.Errorf("%w: of some", fairlimit.ErrNotReplicated)
}

func (e *thrifty) GiveBack(ctx context.Context, grants []engine.Grant) error {
	e.returns++
	return errors.Join(e.stub.GiveBack(ctx, grants), e.refuses)
}

func TestOnlyGrantsThatAreOnNoReplicaAreGivenBack(t *testing.T) {
	for what, refuses := range map[string]error{"the permits were given back": nil, "pass unused": assert.AnError} {
		synctest.Test(t, func(t *testing.T) {
			e := &thrifty{stub: &stub{queues: true}, refuses: refuses}
			build := func(engine.Config) (engine.Engine, error) { return e, nil }
			l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(9), fairlimit.WithEngine(build),
				fairlimit.WithReplicas(1))
			require.NoError(t, err)
			require.ErrorAs(t, l.WaitN(t.Context(), refusedPermits), new(*fairlimit.RefusedError))
			assert.Zero(t, e.returns, "there is nothing to give back")
			var callers sync.WaitGroup
			for _, n := range []int{1, 2, refusedPermits} { // the first goes alone, the others together
				callers.Go(func() {
					err := l.WaitN(t.Context(), n)
					if n == refusedPermits {
						assert.ErrorAs(t, err, new(*fairlimit.RefusedError))
						return
					}
					assert.ErrorIs(t, err, fairlimit.ErrNotReplicated)
					assert.ErrorContains(t, err, what)
				})
				synctest.Wait()
			}
			callers.Wait()
			assert.Equal(t, 2, e.most)
			assert.Len(t, e.givenBack(), 2)
			assert.True(t, e.givenBack()[0].Unused)
		})
	}
}
