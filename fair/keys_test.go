package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// What Redis holds under other circumstances, and what it must not hold.

func TestStoredQuotasReplaceOthersAtTheNextQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := configOf(each(1, second))
	cfg.Stored = true
	a, b := r.limiterOf(cfg), r.limiterOf(cfg)
	require.Equal(t, []time.Duration{0, second}, a.takes(2))
	r.pass(10 * second)
	a.news(a.SetQuotas(ctx, []engine.Quota{each(3, second)}))
	r.pass(engine.Within + ms)
	require.Equal(t, []time.Duration{0, 0, 0, second}, b.takes(4))
	quotas, stored, err := a.Quotas(ctx)
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, []engine.Quota{each(3, second)}, quotas)

	r.pass(10 * second)
	a.news(a.SetQuotas(ctx, nil))
	r.pass(engine.Within + ms)
	require.Equal(t, []time.Duration{0, second}, b.takes(2))
}

func TestStoredQuotasLetWhoeverWaitsAskAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := configOf(each(1, time.Minute))
	cfg.Stored = true
	l := r.limiterOf(cfg)
	l.take(1)
	waiting := l.take(1)
	r.pass(ms)
	require.True(t, pointer(l.news(l.SetQuotas(ctx, []engine.Quota{each(1, time.Minute)}))).Void > 0)
	require.False(t, pointer(l.look()).Stands(waiting.Turn))
	id := l.look().Queue
	r.pass(ms)
	l.news(l.SetQuotas(ctx, []engine.Quota{each(1, time.Minute)}))
	require.Equal(t, id, l.look().Queue, "the same text changes nothing")
}

func TestOtherUnitsAreRefusedWithThoseOfTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := configOf(each(1, second))
	cfg.Units = []engine.Unit{{Name: "tokens", Quotas: []engine.Quota{each(1, second)}}}
	r.limiterOf(cfg).take(1)
	before := r.mini.Dump()
	_, _, err := r.limiter(each(1, second)).Take(ctx, []engine.Request{{N: 1}})
	require.ErrorIs(t, err, engine.ErrUnsupported)
	require.ErrorContains(t, err, "counts calls,tokens, this limiter calls")
	require.Equal(t, before, r.mini.Dump())
}

func TestOpenAdoptsTheUnits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := configOf(each(1, second))
	cfg.Units = []engine.Unit{{Name: "tokens", Quotas: []engine.Quota{each(1, second)}}}
	r.limiterOf(cfg).take(1)
	opened := r.limiter()
	require.Equal(t, time.Minute, opened.pause(time.Minute).Paused)
	require.Equal(t, []string{"tokens"}, opened.Units())
}

// A foreign key, and a head of an older format.
func TestWhatCannotBeReadGrantsNothingAndIsLeft(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*rig){
		"text":     func(r *rig) { r.mini.Set(queueKey, "hello") },
		"old head": func(r *rig) { r.mini.Set(queueKey, "fair5 1700000000000000 3 0 0 0 0 0 0") },
		"a hash":   func(r *rig) { r.mini.HSet(queueKey, "a", "b") },
		"other log": func(r *rig) {
			r.limiter(each(9, second)).take(1)
			r.mini.Client.Set(ctx, queueKey+":calls", "hello", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			write(r)
			before := r.mini.Dump()
			l := r.limiter(each(9, second))
			_, _, err := l.Take(ctx, []engine.Request{{N: 1}})
			require.ErrorIs(t, err, engine.ErrState)
			require.Equal(t, before, r.mini.Dump())
			l.reset()
			require.Zero(t, l.again().Wait, "a reset clears it")
		})
	}
}

func TestReadingCreatesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, second))
	l.status()
	l.look()
	l.resume()
	require.Empty(t, r.mini.Keys())

	f := l.flow("f", 1)
	f.takes(1)
	before := r.mini.Keys()
	require.Equal(t, engine.Refused, f.verdict())
	require.Equal(t, engine.Refused, l.flow("g", 1).verdict())
	l.status()
	l.look()
	require.Equal(t, before, r.mini.Keys())
}

func TestAHeadMayStandWithoutALog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(2, second))
	l.pause(2 * second)
	require.Equal(t, engine.Status{Available: 0, Delay: 2 * second, Paused: 2 * second}, l.status())
	require.Equal(t, engine.Refused, l.verdict())
	require.Equal(t, []string{queueKey}, r.mini.Keys())
	require.Equal(t, 2*second, l.take(1).Wait)
}

func TestOpeningLeavesTheStoredQuotas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limiter(each(1, second)).news(r.limiter(each(1, second)).SetQuotas(ctx, []engine.Quota{each(7, second)}))
	opened := r.limiter()
	quotas, stored, err := opened.Quotas(ctx)
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, []engine.Quota{each(7, second)}, quotas)
	opened.pause(second)
	opened.reset()
	require.True(t, r.mini.Exists(queueKey+":quota"))
}

func TestDifferentQuotasOnOneNameKeepEachTheirOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wide, narrow := r.limiter(each(10, second)), r.limiter(each(2, second))
	wide.takes(3)
	require.Equal(t, second, narrow.take(1).Wait)
	require.Equal(t, second, wide.take(5).Wait, "in order")
}
