package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// What once broke it: each is what happened, and no more.

func TestAGrantIsNotJoinedToARefusalOfTheSameSlot(t *testing.T) {
	l := newRig(t).limiter(each(2, second))
	l.takes(2)
	inTime := engine.Request{N: 1, MaxWait: second}
	answers, _ := l.ask(inTime, engine.Request{N: 1}, inTime, inTime)
	for i, want := range []engine.Verdict{engine.Granted, engine.Refused, engine.Granted, engine.Refused} {
		require.Equal(t, want, answers[i].Verdict, "a refusal, and equal requests as far as they go")
	}
	require.Equal(t, []time.Duration{second, second}, []time.Duration{answers[0].Wait, answers[1].Wait})
}

// Who was told last of what was given back since must not take the queue for lost:
// 28 s of wait in an empty queue.
func TestAHeadLivesAsLongAsItWasGoingTo(t *testing.T) {
	for what, shorten := range map[string]func(l *limiter, turns []engine.Answer){
		"returns": func(l *limiter, turns []engine.Answer) { l.back(turns...) },
		"a reset": func(l *limiter, _ []engine.Answer) { l.reset() },
	} {
		r := newRig(t)
		a, b, c := r.limiter(each(1, second)), r.limiter(each(1, second)), r.limiter(each(1, second))
		var turns []engine.Answer
		for range 29 {
			turns = append(turns, a.take(1))
		}
		turns = append(turns, c.take(1))
		r.pass(ms)
		shorten(a, turns)
		r.pass(5 * second)
		require.Zero(t, b.take(1).Wait, what)
		require.Equal(t, second, c.take(1).Wait, what)
	}
}

func TestTheLastTurnGivenBackLeavesATTL(t *testing.T) {
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
	r, a, b := pair(t)
	a.takes(10)
	r.lose()
	b.take(1)
	a.look()
	a.status()
	require.Equal(t, 10*second, a.take(1).Wait)
}

// The server's clock is an hour behind, of a queue that is there and of one that was
// lost meanwhile.
func TestAClockThatWasSetBack(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, second))
	turns := []engine.Answer{l.take(1), l.take(1)}
	r.pass(-time.Hour)
	require.Equal(t, second, comes(l.look(), turns[1].Turn))
	require.Equal(t, 2*second, l.take(1).Wait)
	r.lose()
	r.pass(-time.Hour)
	require.Equal(t, 3*second, l.take(1).Wait)
}

// Ten limiters that begin a new queue book what is missing, not themselves in full.
func TestWhatIsMissingIsTheDifferenceOfTotals(t *testing.T) {
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
	l := newRig(t).counts(each(1, second), each(10, 20*second))
	turn := l.take(1)
	debt := engine.Return{Turn: turn.Turn, Amounts: "tokens=-10"}
	require.NoError(t, l.GiveBack(ctx, []engine.Return{debt}))
	answers, _ := l.ask(engine.Request{N: 1, Amounts: "tokens=1", MaxWait: engine.Forever})
	require.Equal(t, 20*second, answers[0].Wait)
}

// Small requests of its own line do not overtake one that has no room yet.
func TestAFlowWithoutRoomHoldsAllBehind(t *testing.T) {
	l := newRig(t).limiter(each(8, second)).flow("f", 1)
	l.take(8)
	l.take(8)
	l.take(6) // 14 lie ahead, and 16 may
	answers, _ := l.ask(engine.Request{N: 6, MaxWait: engine.Forever}, engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, engine.NotYet, answers[0].Verdict)
	require.Equal(t, engine.NotYet, answers[1].Verdict)
	require.Equal(t, second, answers[0].Wait)
}

func TestWhatWasRestoredIsWrittenIfNothingElseIs(t *testing.T) {
	r, a, b := pair(t)
	a.takes(10)
	r.lose()
	require.Equal(t, engine.Refused, a.verdict())
	require.Equal(t, 10*second, b.take(1).Wait)
}

// A queue that others began after a loss went on as the older one, whose slots meant
// other times since it had been paused: turns went early by the pause.
func TestTurnsOfALostQueueThatWasPausedDoNotComeEarly(t *testing.T) {
	r := newRig(t)
	knows, other := r.limiter(each(2, second)), r.limiter(each(2, second))
	knows.take(2)
	knows.pause(3 * second)
	r.pass(3 * second)
	turn := knows.take(1)
	require.Equal(t, second, turn.Wait)
	r.lose()
	other.take(2)
	answers, news := knows.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, second, answers[0].Wait, "of three permits that it knows of, one is missing")
	require.Equal(t, 2*second, knows.take(1).Wait, "which counts when its turn comes")
	require.NotEqual(t, turn.Turn.Queue, news.Queue, "its slots would mean other times")
}

// An old copy of the head lacked a pause that was over, and turns went early by it.
func TestAnEndedPauseThatAnOldCopyLacksMovesNoTurn(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1, 10*second))
	l.take(1)
	head, err := r.mini.Get(queueKey)
	require.NoError(t, err)
	l.pause(3 * second)
	r.pass(4 * second)
	turn := l.take(1)
	require.NoError(t, r.mini.Set(queueKey, head))
	_, news := l.ask(engine.Request{N: 1, MaxWait: engine.Forever})
	require.Equal(t, turn.Wait, comes(news, turn.Turn))
}

// A second's window, next to that of a minute, was thinned to cells a second apart.
func TestThinningLeavesShortWindowsAsTheyAre(t *testing.T) {
	r := newRig(t)
	l := r.limiter(each(1000, time.Minute), engine.Quota{Permits: 20, Per: second, Burst: 1})
	for range 2 {
		l.crowd()
	}
	answers := l.crowd() // after 512 cells
	require.Less(t, r.cells(), int64(2*engine.MostRequests))
	require.Equal(t, 2*engine.MostRequests*50*ms, answers[0].Wait)
	require.Equal(t, 50*ms, l.take(1).Wait-answers[engine.MostRequests-1].Wait)
}

// Of an older release, or of words that are no numbers. Other foreign text is a case of
// enginetest.
func TestAHeadThatCannotBeReadIsAnErrorForAll(t *testing.T) {
	for _, head := range []string{"\x04\x00\x01\xff 12", "1 2 3 4 5 6 7 x calls"} {
		r := newRig(t)
		require.NoError(t, r.mini.Set(queueKey, head))
		l, before := r.limiter(each(1, second)), r.mini.Dump()
		_, _, take := l.Take(ctx, []engine.Request{{N: 1}})
		_, status := l.Status(ctx)
		_, look := l.Look(ctx)
		_, pause := l.Pause(ctx, second)
		_, resume := l.Resume(ctx)
		_, requeue := l.Requeue(ctx)
		for _, err := range []error{take, status, look, pause, resume, requeue} {
			require.ErrorIs(t, err, engine.ErrState, head)
		}
		require.Equal(t, before, r.mini.Dump())
		l.reset()
		require.Equal(t, engine.Granted, l.verdict())
	}
}
