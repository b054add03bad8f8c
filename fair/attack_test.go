package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// What once broke it: each is what happened, and no more.

func TestAGrantIsNotJoinedToARefusalOfTheSameSlot(t *testing.T) {
	t.Parallel()
	l := newRig(t).limiter(each(2, second))
	l.takes(2)
	answers, _ := l.ask(engine.Request{N: 1, MaxWait: engine.Forever}, engine.Request{N: 1})
	require.Equal(t, engine.Granted, answers[0].Verdict)
	require.Equal(t, engine.Refused, answers[1].Verdict)
	require.Equal(t, answers[0].Wait, answers[1].Wait)
}

// Nor to one of an equal request.
func TestEqualRequestsAreGrantedAsFarAsTheyGo(t *testing.T) {
	t.Parallel()
	l := newRig(t).limiter(each(1, second))
	request := engine.Request{N: 1, MaxWait: second}
	answers, _ := l.ask(request, request, request)
	require.Equal(t, engine.Granted, answers[1].Verdict)
	require.Equal(t, engine.Refused, answers[2].Verdict)
}

// Who was told last of what was given back since must not take the queue for lost:
// 28 s of wait in an empty queue.
func TestAHeadLivesAsLongAsItWasGoingTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b, c := r.limiter(each(1, second)), r.limiter(each(1, second)), r.limiter(each(1, second))
	var turns []engine.Answer
	for range 29 {
		turns = append(turns, a.take(1))
	}
	a.back(append(turns, c.take(1))...)
	r.pass(5 * second)
	require.Zero(t, b.take(1).Wait)
	require.Equal(t, second, c.take(1).Wait)
}

func TestAHeadOutlivesAReset(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.limiter(each(1, second)), r.limiter(each(1, second))
	a.takes(30)
	r.pass(ms)
	b.reset()
	r.pass(5 * second)
	require.Zero(t, a.take(1).Wait)
}

func TestTheLastTurnGivenBackLeavesATTL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, second))
	turn := l.take(1)
	r.pass(2*second - ms)
	l.back(turn)
	require.NotEqual(t, time.Duration(-1), r.mini.Client.PTTL(ctx, queueKey).Val())
	require.Zero(t, l.take(1).Wait)
}

// A look and a refusal may have seen an old copy.
func TestOnlyAQuestionThatWroteIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.limiter(each(1, second)), r.limiter(each(1, second))
	a.takes(10)
	r.lose()
	b.take(1)
	a.look()
	a.status()
	require.Equal(t, 10*second, a.take(1).Wait)
}

func TestNewsTellOfAPauseToWhoIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.limiter(each(1, second)), r.limiter(each(1, second))
	a.take(1)
	waiting := a.take(1)
	b.pause(time.Minute)
	_, news := a.ask(engine.Request{N: 1})
	require.Equal(t, time.Minute+second, comes(news, waiting.Turn))
}

// The server's clock is an hour behind when somebody asks who was told before.
func TestALossAndAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, second))
	l.takes(5)
	r.lose()
	r.pass(-time.Hour)
	require.Equal(t, 5*second, l.take(1).Wait)
}

func TestAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, second))
	turns := []engine.Answer{l.take(1), l.take(1)}
	r.pass(-time.Hour)
	require.Equal(t, second, comes(l.look(), turns[1].Turn))
	require.Equal(t, 2*second, l.take(1).Wait)
}

// Ten limiters that begin a new queue book what is missing, not themselves in full.
func TestWhatIsMissingIsTheDifferenceOfTotals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all []*limiter
	for range 10 {
		all = append(all, r.limiter(each(5, 5*second)))
		all[len(all)-1].take(1)
	}
	r.lose()
	newest := time.Duration(0)
	for _, l := range all {
		r.pass(ms)
		newest = l.take(1).Wait
	}
	require.LessOrEqual(t, newest, 15*second)
}

// A queue of one permit, requeued every few seconds, moves.
func TestARequeueKeepsOnePermitLessOfTheFirstCell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, 10*second))
	l.take(1)
	l.take(1)
	for _, wait := range []time.Duration{6 * second, 2 * second} {
		r.pass(3 * second)
		l.requeue()
		r.pass(engine.Within)
		require.Equal(t, wait, l.again().Wait)
	}
}

func TestWhatAFirstRequeueMadeVoidStaysVoid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, 300*ms))
	l.takes(4)
	waiting := l.take(1) // in 1.2 s
	r.pass(ms)
	require.False(t, pointer(l.requeue()).Stands(waiting.Turn))
	r.pass(500 * ms)
	require.False(t, pointer(l.requeue()).Stands(waiting.Turn))
}

// What stands within the second requeue's second is counted.
func TestASecondRequeueLeavesWhatIsDueSoon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1, 600*ms))
	l.takes(3)
	r.pass(ms)
	l.requeue()
	r.pass(500 * ms)
	soon := l.again() // in 0.7 s
	news := l.requeue()
	require.Equal(t, 699*ms, comes(news, soon.Turn))
	require.GreaterOrEqual(t, l.again().Wait, 1099*ms)
}

func TestADebtOfAnEmptyLogIsBookedAtTheTail(t *testing.T) {
	t.Parallel()
	cfg := configOf(each(1, second))
	cfg.Units = []engine.Unit{{Name: "tokens", Quotas: []engine.Quota{each(10, 20*second)}}}
	l := newRig(t).limiterOf(cfg)
	turn := l.take(1)
	debt := engine.Return{Turn: turn.Turn, Amounts: "tokens=-10"}
	require.NoError(t, l.GiveBack(ctx, []engine.Return{debt}))
	answers, _ := l.ask(engine.Request{N: 1, Amounts: "tokens=1", MaxWait: engine.Forever})
	require.Equal(t, 20*second, answers[0].Wait)
}

// Small requests of its own line do not overtake one that has no room yet.
func TestAFlowWithoutRoomHoldsAllBehind(t *testing.T) {
	t.Parallel()
	l := newRig(t).limiter(each(8, second)).flow("f", 1)
	l.take(8)
	l.take(8)
	l.take(6) // 14 lie ahead, and 16 may
	answers, _ := l.ask(engine.Request{N: 6, MaxWait: engine.Forever}, engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, engine.NotYet, answers[0].Verdict)
	require.Equal(t, engine.NotYet, answers[1].Verdict)
	require.Equal(t, second, answers[0].Wait)
}

func TestWhoMayAskLaterHasThatMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.limiter(each(1, 4*second)), r.limiter(each(1, 4*second))
	a.takes(2)
	r.pass(ms)
	a.requeue()
	answers, _ := b.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, engine.NotYet, answers[0].Verdict)
	again := a.again()
	r.pass(answers[0].Wait)
	require.Equal(t, again.Wait-answers[0].Wait+4*second, b.take(1).Wait)
}

func TestWhatWasRestoredIsWrittenIfNothingElseIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.limiter(each(1, second)), r.limiter(each(1, second))
	a.takes(10)
	r.lose()
	require.Equal(t, engine.Refused, a.verdict())
	require.Equal(t, 10*second, b.take(1).Wait)
}

// A second's window, next to that of a minute, was thinned to cells a second apart.
func TestThinningLeavesShortWindowsAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.limiter(each(1000, time.Minute), each(20, second))
	cells := func() int64 { return r.mini.Client.ZCard(ctx, queueKey+":calls").Val() }
	for before := int64(0); cells() >= before; {
		before = cells()
		r.pass(80 * ms)
		l.take(1)
	}
	r.pass(600 * ms)
	for range 12 { // 6 were in the last second
		require.LessOrEqual(t, l.take(1).Wait, 80*ms)
	}
}

// A queue that others began after a loss went on as the older one, whose slots meant
// other times since it had been paused: turns went early by the pause.
func TestTurnsOfALostQueueThatWasPausedDoNotComeEarly(t *testing.T) {
	r := newRig(t)
	knows, other := r.limiter(each(1, second)), r.limiter(each(1, second))
	knows.take(1)
	_, err := knows.Pause(ctx, 3*second)
	require.NoError(t, err)
	r.pass(3 * second)
	turn := knows.take(1)
	due := r.now.Add(turn.Wait)
	r.lose()
	other.take(1)
	_, news, err := knows.Take(ctx, []engine.Request{{N: 1, MaxWait: engine.Forever}})
	require.NoError(t, err)
	if news.Queue == turn.Turn.Queue {
		require.False(t, news.Comes(turn.Turn.Slot).Before(news.Arrived.Add(due.Sub(r.now))))
	}
}

// An old copy of the head lacked a pause that was over, and turns went early by it.
func TestAnEndedPauseThatAnOldCopyLacksMovesNoTurn(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, 10*second))
	l.take(1)
	head, err := r.mini.Get(queueKey)
	require.NoError(t, err)
	_, err = l.Pause(ctx, 3*second)
	require.NoError(t, err)
	r.pass(4 * second)
	turn := l.take(1)
	require.NoError(t, r.mini.Set(queueKey, head))
	_, news, err := l.Take(ctx, []engine.Request{{N: 1, MaxWait: engine.Forever}})
	require.NoError(t, err)
	require.Equal(t, turn.Wait, news.Comes(turn.Turn.Slot).Sub(news.Arrived))
}
