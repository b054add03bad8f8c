package fair

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Everywhere(t, func(t *testing.T, server redistest.Kind) { enginetest.Run(t, New, server) })
}

// The promises of fair, as far as its scripts keep them. Each test is named after one.
// Who sleeps, goes and hears is the front's: see fair_test.go at the root.

func TestStrict(t *testing.T) {
	r := newRig(t)
	l := r.limiter(engine.Quota{Permits: 6, Per: second, Burst: 2}, each(20, 10*second))
	windows := append(model.Windows(6, 1e6, 2), model.Windows(20, 10e6, 0)...)
	random := rand.New(rand.NewPCG(1, 2))
	var slots []int64
	for range 60 {
		r.pass(time.Duration(random.Int64N(int64(400 * ms))))
		n := 1 + random.IntN(2)
		for slot := l.take(n).Turn.Slot; n > 0; n-- {
			slots = append(slots, slot)
		}
	}
	require.NoError(t, model.Strict(windows, slots))
}

func TestEarliest(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(2, second), each(3, 10*second))
	require.Equal(t, []time.Duration{0, 0, second, 10 * second, 10 * second, 11 * second}, l.takes(6))
	r.pass(40 * second)
	require.Equal(t, []time.Duration{0, 0, second}, l.takes(3))
}

func TestFIFO(t *testing.T) {
	r := newRig(t)
	a, b := r.limiter(each(3, second)), r.limiter(each(3, second))
	first := a.take(2)
	require.Equal(t, second, a.take(2).Wait)
	a.back(first)
	require.Equal(t, second, b.take(1).Wait, "a permit is free now, but others asked before")
}

func TestGivenBackAtTheTailShortensTheQueue(t *testing.T) {
	l := newRig(t).limiter(each(1, second))
	l.takes(3)
	l.back(l.take(1), l.take(1))
	require.Equal(t, 3*second, l.take(1).Wait)
}

func TestGivenBackBeforeOthersMakesRoomBehindThem(t *testing.T) {
	l := newRig(t).limiter(each(3, second))
	first := l.take(2)
	l.takes(2)
	l.back(first)
	require.Equal(t, []time.Duration{second, second, 2 * second}, l.takes(3), "nobody's slot moves")
}

func TestGivenBackTwiceOrTooLateFreesNothingElse(t *testing.T) {
	r := newRig(t)
	l := r.limiter(engine.Quota{Permits: 1000, Per: second, Burst: 2})
	first := l.take(1)
	l.take(1)
	l.back(first, first, first)
	require.Equal(t, 2, l.status().Available)

	first = l.take(2)
	l.crowd()
	l.crowd()
	r.pass(1100 * ms)
	for range 5 { // the first cells count no more, and go
		l.crowd()
	}
	before := r.mini.Dump()
	l.back(first)
	require.Equal(t, before, r.mini.Dump())
}

func TestGivenBackByAFlowMakesRoomInItsShare(t *testing.T) {
	l := newRig(t).limiter(each(1, 10*second))
	one, other := l.flow("one", 1), l.flow("other", 1)
	other.take(1)
	held := one.take(1)
	answers, _ := one.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, engine.NotYet, answers[0].Verdict)
	one.back(held)
	require.Equal(t, 10*second, one.take(1).Wait)
}

func TestInAShareATurnCountsByTheUnitOfWhichItTakesMost(t *testing.T) {
	l := newRig(t).counts(each(10, second), each(1000, second))
	request := engine.Request{N: 1, Amounts: "tokens=500", MaxWait: engine.Forever} // as 5 calls
	answers, _ := l.flow("one", 1).ask(slices.Repeat([]engine.Request{request}, 5)...)
	require.Equal(t, engine.Granted, answers[3].Verdict)
	require.Equal(t, engine.NotYet, answers[4].Verdict, "20 may lie ahead")
}

func TestTurnsOfSeveralFlowsStandApartUntilOneIsIdle(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(20, second))
	one, other := l.flow("one", 1), l.flow("other", 1)
	require.Equal(t, []time.Duration{0, 0}, one.takes(2))
	require.InDelta(t, 50*ms, other.take(1).Wait, float64(ms))
	r.pass(second)
	require.Equal(t, []time.Duration{0, 0}, other.takes(2))
}

// It is booked at the tail, and one larger than the quota is paid as one quota.
func TestADebtIsPaidByWhoAsksLater(t *testing.T) {
	l := newRig(t).limiter(each(4, second))
	l.owes(l.take(1), 2)
	require.Equal(t, []time.Duration{0, second}, l.takes(2))
	l.owes(l.take(1), 100)
	require.Equal(t, 2*second, l.take(1).Wait)
}

func TestARefusalConsumesAndWritesNothing(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, second))
	l.take(1)
	before := r.mini.Dump()
	answers, _ := l.ask(engine.Request{N: 1, MaxWait: second - ms})
	require.Equal(t, engine.Refused, answers[0].Verdict)
	require.Equal(t, second, answers[0].Wait)
	require.Equal(t, before, r.mini.Dump())
	answers, _ = l.ask(engine.Request{N: 1, MaxWait: second})
	require.Equal(t, engine.Granted, answers[0].Verdict)
}

func TestUnitsCountInLogsOfTheirOwn(t *testing.T) {
	l := newRig(t).counts(each(2, second), each(100, 10*second))
	wait := func(tokens int) time.Duration {
		amounts := engine.AmountsOf(map[string]int{"tokens": tokens})
		answers, _ := l.ask(engine.Request{N: 1, Amounts: amounts, MaxWait: engine.Forever})
		return answers[0].Wait
	}
	require.Zero(t, wait(90))
	require.Zero(t, wait(10))
	require.Equal(t, 10*second, wait(1))
	require.Equal(t, 10*second, wait(0), "in order")
	require.Equal(t, engine.UnitStatus{Available: 0, Queued: 1}, l.status().Units["tokens"])
}

// Whoever sleeps looks. Of pauses the longest counts.
func TestHeard(t *testing.T) {
	r, a, b := pair(t)
	a.take(1)
	waiting := a.take(1)
	r.pass(500 * ms)
	require.Equal(t, time.Hour, b.pause(time.Hour).Paused)
	b.pause(second)
	require.Equal(t, engine.Status{Queued: 1, Delay: time.Hour + 1500*ms, Paused: time.Hour}, a.status())
	require.Equal(t, time.Hour+500*ms, comes(a.look(), waiting.Turn))
	r.pass(time.Minute)
	b.resume()
	require.Equal(t, 500*ms, comes(a.look(), waiting.Turn))
	b.requeue()
	require.True(t, pointer(a.look()).Stands(waiting.Turn), "it is due soon")
	b.reset()
	require.Equal(t, engine.Status{Available: 1}, a.status())
}

func TestHeardAPauseOfAnEmptyQueue(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, second))
	l.pause(time.Minute)
	require.Equal(t, []string{queueKey}, r.mini.Keys())
	r.pass(30 * second)
	require.Equal(t, engine.Status{Delay: 30 * second, Paused: 30 * second}, l.status())
}

func TestRequeueKeepsTheOrderAndCountsWhatHasGone(t *testing.T) {
	r := newRig(t)
	a, b := r.limiter(each(2, 4*second)), r.limiter(each(2, 4*second))
	gone, waiting := a.take(2), a.take(1)
	r.pass(second)
	b.requeue()
	require.True(t, pointer(a.look()).Stands(gone.Turn), "it is due")
	require.False(t, pointer(a.look()).Stands(waiting.Turn))
	answers, _ := b.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, engine.NotYet, answers[0].Verdict, "whoever waited asks before others")
	require.Equal(t, engine.Within, answers[0].Wait)
	r.pass(500 * ms)
	require.Equal(t, 2500*ms, a.again().Wait, "what has gone counts")
	r.pass(500 * ms)
	require.Equal(t, 2*second, b.take(1).Wait)
}

func pointer(n engine.News) *engine.News { return &n }

func TestRequeueFreesTheSharesOfFlows(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, 10*second))
	one, other := l.flow("one", 1), l.flow("other", 1)
	other.take(1)
	one.take(1)
	r.pass(ms)
	l.requeue()
	require.Equal(t, 10*second-ms, one.again().Wait)
}

func TestHealingWhatWasLostCountsOnceWhoKnowsAsks(t *testing.T) {
	r, a, b := pair(t)
	a.takes(10)
	r.lose()
	require.Zero(t, b.take(1).Wait, "nobody has said so yet")
	answers, news := a.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.True(t, news.Restored)
	require.Equal(t, 10*second, answers[0].Wait)
	require.Equal(t, 11*second, b.take(1).Wait)
}

func TestHealingAPauseAndARequeue(t *testing.T) {
	r, a, b := pair(t)
	waiting := []engine.Answer{b.take(1), b.take(1), b.take(1)}
	r.pass(ms)
	a.requeue()
	a.pause(time.Minute)
	r.lose()
	require.Equal(t, engine.NotYet, a.verdict())
	news := b.look()
	require.Equal(t, time.Minute, news.Paused)
	require.False(t, news.Stands(waiting[2].Turn))
}

func TestHealingARequeueThatAnOldCopyLacks(t *testing.T) {
	r, a, b := pair(t)
	b.takes(2)
	waiting := b.take(1)
	old, err := r.mini.Get(queueKey)
	require.NoError(t, err)
	r.pass(ms)
	a.requeue()
	require.NoError(t, r.mini.Set(queueKey, old))
	require.True(t, pointer(b.look()).Stands(waiting.Turn))
	require.Equal(t, engine.NotYet, a.verdict())
	require.False(t, pointer(b.look()).Stands(waiting.Turn))
}

// A requeue that found no queue holds as well.
func TestHealingWhoSleepsHearsOfARequeueAfterALoss(t *testing.T) {
	r, a, b := pair(t)
	a.take(1)
	a.take(1)
	waiting := a.take(1)
	r.lose()
	r.pass(ms)
	b.requeue()
	r.pass(500 * ms)
	require.False(t, pointer(a.look()).Stands(waiting.Turn))
}

func TestHealingAPauseBehindANewQueue(t *testing.T) {
	r, a, b := pair(t)
	a.pause(time.Minute)
	r.lose()
	r.pass(ms)
	require.Zero(t, b.take(1).Wait)
	require.GreaterOrEqual(t, a.take(1).Wait, time.Minute-ms)
	require.Equal(t, time.Minute-ms, b.status().Paused)
}

// So turns of the older queue can still be given back.
func TestHealingGoesOnAsTheOlderQueue(t *testing.T) {
	r, a, b := pair(t)
	a.takes(4)
	last := a.take(1)
	r.lose()
	r.pass(ms)
	b.take(1)
	a.take(1)
	require.Equal(t, last.Turn.Queue, b.look().Queue)
}

// One of the two keys was evicted. Without the log all counts at the newest slot.
func TestHealingAHeadOrALogAlone(t *testing.T) {
	for key, want := range map[string][]time.Duration{
		queueKey:            {0, 0, 10 * second},
		queueKey + ":calls": {5 * second, 15 * second, 15 * second},
	} {
		r := newRig(t)
		r.limiter(each(2, 10*second)).takes(2)
		r.pass(5 * second)
		require.True(t, r.mini.Del(key))
		require.Equal(t, want, r.limiter(each(2, 10*second)).takes(3), key)
	}
}

// How late the slots are then, package verify measures.
func TestBounded(t *testing.T) {
	r := newRig(t)
	l := r.limiter(engine.Quota{Permits: 1000, Per: second, Burst: 1})
	for range 5 {
		l.crowd()
		require.LessOrEqual(t, r.cells(), int64(512))
	}
}

func TestBoundedAllKeysExpire(t *testing.T) {
	for name, client := range map[string]func(*limiter){
		"turns":      func(l *limiter) { l.takes(10) },
		"given back": func(l *limiter) { l.takes(3); l.back(l.take(1)) },
		"a flow":     func(l *limiter) { l.flow("f", 1).takes(2) },
		"a pause":    func(l *limiter) { l.pause(time.Minute) },
		"a refusal":  func(l *limiter) { l.pause(time.Minute); l.flow("f", 1).verdict() },
		"a resume":   func(l *limiter) { l.resume() },
		"a requeue":  func(l *limiter) { l.takes(2); l.requeue() },
		"a reset":    func(l *limiter) { l.takes(2); l.reset() },
	} {
		r := newRig(t)
		l := r.limiter(each(1, second))
		client(l)
		for _, key := range r.mini.Client.Keys(ctx, "*").Val() {
			require.Positive(t, r.mini.Client.PTTL(ctx, key).Val(), "%s: %s", name, key)
		}
		r.pass(2 * time.Hour)
		require.Empty(t, r.mini.Client.Keys(ctx, "*").Val(), name)
		_, news := l.ask(engine.Request{N: 1})
		require.False(t, news.Restored, "%s: nothing was lost", name)
	}
}

// Each limiter is held to its own quotas, counted over the turns of all.
func TestDifferentQuotasOnOneNameKeepEachTheirOwn(t *testing.T) {
	r := newRig(t)
	wide, narrow := r.limiter(each(10, second)), r.limiter(each(2, second))
	wide.takes(3)
	require.Equal(t, second, narrow.take(1).Wait)
	require.Equal(t, second, wide.take(5).Wait, "in order")
}

func TestTheSameStoredQuotasRequeueNobody(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, time.Minute))
	l.take(1)
	waiting := l.take(1)
	stores := func() engine.News {
		r.pass(ms)
		return l.news(l.SetQuotas(ctx, []engine.Quota{each(1, time.Minute)}))
	}
	first := stores()
	require.False(t, first.Stands(waiting.Turn))
	require.Equal(t, first.Queue, stores().Queue)
}
