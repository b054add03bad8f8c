package soak

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func at(slots ...int64) (turns []turn) {
	for i, slot := range slots {
		turns = append(turns, turn{run: int64(i), batch: int64(i), slot: slot, n: 1})
	}
	return turns
}

func TestAWindowThatHoldsTooMuchIsCounted(t *testing.T) {
	two := model.Window{Permits: 2, Length: 100}
	for name, c := range map[string]struct {
		turns          []turn
		losses         []loss
		outside, after int
	}{
		"half open: one leaves as another comes":   {turns: at(0, 99, 100, 199)},
		"three within a microsecond less":          {turns: at(0, 50, 99), outside: 1},
		"each end counts once":                     {turns: at(0, 50, 99, 99, 99), outside: 1},
		"two ends":                                 {turns: at(0, 1, 2, 3), outside: 2},
		"several permits":                          {turns: []turn{{slot: 1, n: 3}}, outside: 1},
		"what went back does not count":            {turns: []turn{{slot: 1, n: 2}, {slot: 1, n: 1, unused: true}}},
		"a loss between the first and the last":    {turns: at(0, 1, 2), losses: []loss{{1, 1}}, after: 1},
		"a loss before all of them":                {turns: at(0, 1, 2), losses: []loss{{-9, -1}}, outside: 1},
		"a loss after all of them":                 {turns: at(0, 1, 2), losses: []loss{{3, 9}}, outside: 1},
		"in any order":                             {turns: at(2, 0, 1), outside: 1},
		"granted early, but far ahead of a window": {turns: at(0, 1000, 1000, 1100), losses: []loss{{0, 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			outside, after := overfull(c.turns, two, c.losses)
			require.Equal(t, [2]int{c.outside, c.after}, [2]int{outside, after})
		})
	}
}

func TestATurnBeforeOneGrantedEarlierIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		turns  []turn
		losses []loss
		want   int
	}{
		"in order":             {turns: at(1, 1, 2, 3)},
		"one before":           {turns: at(1, 3, 2, 3), want: 1},
		"one before, far back": {turns: at(9, 1, 2), want: 2},
		"of one moment, in other answers": {turns: []turn{
			{run: 1, batch: 1, slot: 9, n: 1}, {run: 1, batch: 2, slot: 8, n: 1},
		}},
		"of one moment, then before both": {turns: []turn{
			{run: 1, batch: 1, slot: 9, n: 1}, {run: 1, batch: 2, slot: 7, n: 1}, {run: 2, batch: 3, slot: 8, n: 1},
		}, want: 1},
		"of one answer": {turns: []turn{{run: 1, slot: 9, n: 1}, {run: 1, slot: 8, n: 1}}, want: 1},
		"before one that went back": {turns: []turn{
			{run: 1, batch: 1, slot: 9, n: 1, unused: true}, {run: 2, batch: 2, slot: 8, n: 1},
		}},
		"one that goes back, before": {turns: []turn{
			{run: 1, batch: 1, slot: 9, n: 1}, {run: 2, batch: 2, slot: 8, n: 1, unused: true},
		}, want: 1},
		"data were lost in between":   {turns: at(9, 1), losses: []loss{{0, 1}}},
		"data were lost, before both": {turns: at(9, 1), losses: []loss{{-3, -2}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, overtakes(c.turns, c.losses)) })
	}
}

func TestArrivalsAreMatchedWithTurns(t *testing.T) {
	turns := []turn{
		{slot: 10, n: 1},
		{slot: 20, n: 1},
		{slot: 10, n: 2},
		{slot: 5, n: 1, unused: true},
		{limiter: 1, slot: 10, n: 1},
	}
	arrivals := []arrival{{0, 21, 1}, {0, 11, 1}, {0, 9, 2}, {1, 12, 1}}
	early, strangers, forgotten := match(turns, arrivals, 0)
	require.Equal(t, [3]int{1, 0, 0}, [3]int{early, strangers, forgotten}, "the one of two permits")
	early, _, _ = match(turns, arrivals, 1)
	require.Zero(t, early)
	_, strangers, forgotten = match(turns, arrivals[1:], 0)
	require.Equal(t, [2]int{0, 1}, [2]int{strangers, forgotten})
	_, strangers, forgotten = match(turns[1:], append(arrivals, arrival{2, 1, 1}), 0)
	require.Equal(t, [2]int{2, 0}, [2]int{strangers, forgotten})
}

func TestACallThatComesBackLateIsStuckUnlessTheMachineStoodStill(t *testing.T) {
	stuckAfter := func(late time.Duration, stalls ...measure.Stall) int {
		r := Report{Counts: map[string]int{}}
		r.judge(names[0], &notes{lateness: []measure.Span{{From: 0, To: late}}}, nil, stalls)
		return r.Counts[stuck]
	}
	require.Zero(t, stuckAfter(overdue))
	require.Equal(t, 1, stuckAfter(2*overdue))
	require.Zero(t, stuckAfter(2*overdue, measure.Stall{From: -time.Second, To: overdue}))
}

func TestALateReturnIsNoted(t *testing.T) {
	c := &caller{notes: &notes{}}
	for _, late := range []time.Duration{0, 2 * overdue} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, c.do(ctx, func() error { time.Sleep(late); return nil }))
	}
	require.Len(t, c.notes.lateness, 1)
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
	wrap := func(e engine.Engine) engine.Engine { return whim{e} }
	r, err := Run{Duration: 500 * time.Millisecond, Seed: 3, Progress: io.Discard, wrap: wrap}.Do(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.Counts[exceeded])
	require.NotEmpty(t, r.Broken)
}

// TestASmallSoakKeepsEveryPromise is the command's own run, only shorter.
func TestASmallSoakKeepsEveryPromise(t *testing.T) {
	_ = redistest.Standalone(t) // skips where there is no Redis
	var told strings.Builder
	r, err := Run{Duration: 4 * time.Second, Seed: 1, Progress: &told}.Do(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Broken)
	require.NotEmpty(t, told.String())
	require.NotEmpty(t, r.Faults)
	require.Positive(t, r.Counts[letThrough])
	t.Logf("%v, faults %v, outcomes %v", r.Counts, r.Faults, r.Outcomes)
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
