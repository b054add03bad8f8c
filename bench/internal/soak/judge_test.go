package soak

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// at are turns of one permit at the given slots, decided one after the other.
func at(slots ...int64) (told measure.Told) {
	for i, slot := range slots {
		told.Turns = append(told.Turns, measure.Turn{Decided: int64(i), Slot: slot, Permits: 1})
	}
	return told
}

func TestWindowsThatHoldTooMuchAndTurnsInTheWrongOrderAreCounted(t *testing.T) {
	type counts struct{ exceeded, across, overtaken int }
	returned := func(told measure.Told, which ...int) measure.Told { told.Returned = which; return told }
	for name, c := range map[string]struct {
		told   measure.Told
		losses []loss
		want   counts
	}{
		"half open: one leaves as another comes": {told: at(0, 99, 100, 199)},
		"three within a microsecond less":        {told: at(0, 50, 99), want: counts{exceeded: 1}},
		"each end counts once":                   {told: at(0, 50, 99, 99, 99), want: counts{exceeded: 1}},
		"two ends":                               {told: at(0, 1, 2, 3), want: counts{exceeded: 2}},
		"what went back does not count":          {told: returned(at(0, 1, 2), 1)},
		"a loss between the first and the last":  {told: at(0, 1, 2), losses: []loss{{1, 1}}, want: counts{across: 1}},
		"a loss before all of them":              {told: at(0, 1, 2), losses: []loss{{-9, -1}}, want: counts{exceeded: 1}},
		"a loss after all of them":               {told: at(0, 1, 2), losses: []loss{{3, 9}}, want: counts{exceeded: 1}},
		"far ahead of a window":                  {told: at(0, 1000, 1000, 1100), losses: []loss{{0, 9}}},

		"one before":                  {told: at(100, 300, 200, 300), want: counts{overtaken: 1}},
		"one before, far back":        {told: at(900, 100, 200), want: counts{overtaken: 2}},
		"before one that went back":   {told: returned(at(900, 800), 0)},
		"one that goes back, before":  {told: returned(at(900, 800), 1), want: counts{overtaken: 1}},
		"data were lost in between":   {told: at(900, 100), losses: []loss{{0, 1}}},
		"data were lost, before both": {told: at(900, 100), losses: []loss{{-3, -2}}, want: counts{overtaken: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			log := measure.Log{Callers: []int{1}, Told: []measure.Told{c.told}}
			got := broken([]model.Window{{Permits: 2, Length: 100}}, log, c.losses)
			require.Equal(t, c.want, counts{got[exceeded], got[acrossLoss], got[overtaken]})
		})
	}
	simultaneous := at(900, 800)
	simultaneous.Turns[1].Decided = 0
	log := measure.Log{Callers: []int{1}, Told: []measure.Told{simultaneous}}
	require.Zero(t, broken(nil, log, nil)[overtaken], "of one moment, in other answers")
}

func TestArrivalsAreMatchedWithTurns(t *testing.T) {
	const second = 1_000_000
	turn := func(slot int64, n int) measure.Turn { return measure.Turn{Slot: slot * second, Permits: n} }
	went := func(limiter, at, n int) measure.Call {
		return measure.Call{
			Client: limiter, Ended: time.Duration(at) * time.Second, Permits: n, Outcome: measure.Granted,
		}
	}
	type counts struct{ early, strangers, forgotten int }
	count := func(told measure.Told, calls ...measure.Call) counts {
		log := measure.Log{Callers: []int{1, 1, 1}, Calls: calls, Told: []measure.Told{
			told, {Turns: []measure.Turn{turn(10, 1)}}, {},
		}}
		got := broken(nil, log, nil)
		return counts{got[early], got[strangers], got[forgotten]}
	}
	told := measure.Told{
		Turns: []measure.Turn{turn(10, 1), turn(20, 1), turn(10, 2), turn(5, 1)}, Returned: []int{3},
		Strange: 2, Backwards: 3,
	}
	calls := []measure.Call{went(0, 21, 1), went(0, 11, 1), went(0, 9, 2), went(1, 12, 1)}
	require.Equal(t, counts{early: 1}, count(told, calls...), "the one of two permits")
	calls[2].Ended = 10*time.Second - tolerance
	require.Zero(t, count(told, calls...))
	require.Equal(t, counts{forgotten: 1}, count(told, calls[1:]...))
	require.Equal(t, counts{strangers: 1}, count(told, append(calls, went(2, 1, 1))...))
	all := broken(nil, measure.Log{Callers: []int{1}, Told: []measure.Told{told}}, nil)
	require.Equal(t, []int{2, 3}, []int{all[notHeld], all[overtaken]})
}

func TestACallThatComesBackLateIsStuckUnlessTheMachineStoodStill(t *testing.T) {
	stuckAfter := func(late time.Duration, stalled bool) int {
		n := newNotes()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, (&caller{notes: n}).do(ctx, func() error { time.Sleep(late); return nil }))
		r := Report{Counts: map[string]int{}}
		var stalls []measure.Stall
		if stalled {
			stalls = []measure.Stall{{To: measure.Now()}}
		}
		r.judge(names[0], n, nil, stalls)
		return r.Counts[stuck]
	}
	require.Zero(t, stuckAfter(0, false))
	require.Equal(t, 1, stuckAfter(2*overdue, false))
	require.Zero(t, stuckAfter(2*overdue, true))
}

// whim is an engine that grants everything at once, and gives nothing back.
type whim struct{ engine.Engine }

func (whim) Take(_ context.Context, requests []engine.Request) (answers []engine.Answer, err error) {
	for _, r := range requests {
		grant := engine.Grant{ID: "whim", At: time.Now().UnixMicro(), N: r.N}
		answers = append(answers, engine.Answer{Granted: true, Grant: grant})
	}
	return answers, nil
}

func (whim) GiveBack(context.Context, []engine.Grant) error { return nil }

func TestAnEngineThatGrantsEverythingIsFoundOut(t *testing.T) {
	_ = redistest.Standalone(t) // skips where there is no Redis
	build := func(c engine.Config) (engine.Engine, error) {
		e, err := fair.New(c)
		return whim{e}, err
	}
	r, err := Run{Duration: 500 * time.Millisecond, Seed: 3, Progress: io.Discard, build: build}.Do(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.Counts[exceeded])
	require.NotEmpty(t, r.Broken)
}

func TestErrorsAreNamed(t *testing.T) {
	for kind, err := range map[string]error{
		"let through":     nil,
		"refused":         &fairlimit.RefusedError{},
		"left: ctx ended": context.Canceled,
		"outcome unknown": fairlimit.ErrOutcomeUnknown,
		"unreachable":     fairlimit.ErrUnreachable,
		"too many queued": fairlimit.ErrTooManyQueued,
		"other":           fairlimit.ErrState,
	} {
		name, expected := kindOf(err)
		require.Equal(t, kind, name)
		require.Equal(t, kind != "other", expected, kind)
	}
}

func TestMain(m *testing.M) { redistest.Main(m) }
