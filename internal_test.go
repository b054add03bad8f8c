package fairlimit

import (
	"context"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/breaker"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestATurnMayBeLateByHalfOfTheGuard(t *testing.T) {
	const guard, own = 100 * time.Millisecond, 7 * time.Millisecond
	for name, c := range map[string]struct {
		opts []Option
		most time.Duration
	}{
		"neither":            {nil, 25 * time.Millisecond},
		"no guard":           {[]Option{WithGuard(0)}, 0},
		"a guard":            {[]Option{WithGuard(guard)}, guard / 2},
		"its own":            {[]Option{WithMaxLateness(own)}, own},
		"its own beside one": {[]Option{WithMaxLateness(own), WithGuard(guard)}, own},
		"none beside one":    {[]Option{WithGuard(guard), WithMaxLateness(0)}, 0},
	} {
		o, err := collect(c.opts)
		require.NoError(t, err)
		assert.Equal(t, c.most, o.lateness(), name)
	}
}

func TestARefusalNamesTheNearestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for want, request := range map[string]*coalesce.Request{
			"an immediate turn":         {},
			"WithMaxWait (30s left)":    {MaxWait: 30 * time.Second, Deadline: in(time.Minute)},
			"ctx's deadline (in 5s)":    {MaxWait: 30 * time.Second, Deadline: in(5 * time.Second)},
			"ctx's deadline (12ms ago)": {MaxWait: 30 * time.Second, Deadline: in(-12 * time.Millisecond)},
		} {
			assert.Equal(t, want, limit(request))
		}
	})
}

// A caller may miss its turn, and line up again, after its MaxWait.
func TestWhoeverLinesUpAfterItsMaxWaitIsRefused(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		for name, opts := range map[string][]Option{"": nil, "retry": {WithRetry()}} {
			q, err := NewQueue(rdb, "late"+name, Every(time.Minute), opts...)
			require.NoError(t, err)
			require.NoError(t, q.Wait(t.Context()))
			w := q.newWait(t.Context(), 1, "", time.Second)
			time.Sleep(2 * time.Second)
			if err = q.ask(w); err == nil {
				err = q.waitOut(w)
			}
			require.ErrorAs(t, err, new(*RefusedError), name)
		}
	})
}

// What is in line when Redis fails is not asked for.
func TestAnOpenBreakerStopsAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opens := breaker.New(func(context.Context) error { return nil })
		opens.Begin(true)(assert.AnError)
		_, err := watched{nil, opens}.Take(t.Context(), nil) // there is no engine
		require.ErrorIs(t, err, ErrUnreachable)
		why, _ := (&fallback{breaker: opens}).ask(t.Context(), func() error { return nil })
		require.ErrorIs(t, why, ErrUnreachable, "nor does anybody line up")
	})
}

// A process that has many flows forgets those that nobody has any more.
func TestAFlowThatNobodyHasIsForgotten(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer redistest.Close(rdb)
	q, err := NewQueue(rdb, "flows", PerSecond(1))
	require.NoError(t, err)
	kept, err := q.Flow("kept", 1)
	require.NoError(t, err)
	_, err = q.Flow("dropped", 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		runtime.GC()
		q.flows.mu.Lock()
		defer q.flows.mu.Unlock()
		return len(q.flows.known) == 1
	}, 10*time.Second, 10*time.Millisecond)
	again, err := q.Flow("kept", 2)
	require.NoError(t, err)
	assert.Same(t, kept.flow, again.flow)
}

// A field that is added to Trace and not passed on fails here.
func TestBothTracesAreToldOfEachEvent(t *testing.T) {
	var told []string
	telling := func(who string) *Trace {
		trace := &Trace{}
		v := reflect.ValueOf(trace).Elem()
		for i := range v.NumField() {
			f, event := v.Field(i), who+v.Type().Field(i).Name
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
				told = append(told, event)
				return nil
			}))
		}
		return trace
	}
	for name, c := range map[string]struct {
		trace *Trace
		who   []string
	}{
		"both":         {telling("a ").and(telling("b ")), []string{"a ", "b "}},
		"three":        {telling("a ").and(telling("b ")).and(telling("c ")), []string{"a ", "b ", "c "}},
		"the first":    {telling("a ").and(nil), []string{"a "}},
		"one is empty": {(&Trace{}).and(telling("a ")).and(&Trace{}).and(telling("b ")), []string{"a ", "b "}},
	} {
		v := reflect.ValueOf(c.trace).Elem()
		for i := range v.NumField() {
			f, event := v.Field(i), v.Type().Field(i).Name
			require.False(t, f.IsNil(), "%s: %s", name, event)
			args := make([]reflect.Value, f.Type().NumIn())
			for j := range args {
				args[j] = reflect.Zero(f.Type().In(j))
			}
			var want []string
			for _, who := range c.who {
				want = append(want, who+event)
			}
			told = nil
			f.Call(args)
			assert.Equal(t, want, told, name)
		}
	}
}

// A trace that is given to two limiters, once beside another, stays as it is.
func TestATraceIsNotChanged(t *testing.T) {
	shared := &Trace{}
	_, err := collect([]Option{WithTrace(shared), WithTrace(&Trace{Lost: func() {}})})
	require.NoError(t, err)
	assert.Nil(t, shared.Lost)
}
