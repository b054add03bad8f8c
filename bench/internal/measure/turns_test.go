package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhoWentFirstTookTheFirstTurn(t *testing.T) {
	due := func(at, permits int) Turn { return *turn(0, 0, at, at, at).with(permits).Turn }
	log := Log{
		Callers: []int{3, 1},
		Calls: []Call{
			turn(0, 0, 0, 210, 211).untold(), turn(0, 1, 0, 110, 111).untold(), // who called first went last
			turn(0, 2, 0, 150, 151).with(2).untold(), turn(1, 3, 0, 110, 111).untold(), stuck(0, 4, 1000),
		},
		Told: []Told{{Turns: []Turn{due(200, 1), due(50, 1), due(100, 1), due(140, 2), due(300, 1)}, Returned: []int{1}}, {}},
	}
	calls := WithTurns(log)
	for i, at := range []int{200, 100, 140} {
		require.Equal(t, ms*time.Duration(at), calls[i].Turn.Due(), i)
	}
	require.Nil(t, calls[3].Turn, "another process's limiter told of nothing")
	require.Nil(t, calls[4].Turn, "it still waits")
}

// TestAnAnswerThatWasHeldUpMakesNobodyEarly has the first turn answered after
// the second.
func TestAnAnswerThatWasHeldUpMakesNobodyEarly(t *testing.T) {
	first, second := turn(0, 0, 100, 110, 111), turn(0, 0, 105, 120, 121)
	first.Turn.Sent, first.Turn.Replied, first.Turn.Wait = 0, 100*ms, 100*ms
	second.Turn.Sent, second.Turn.Replied, second.Turn.Wait = 50*ms, 51*ms, 65*ms
	log := Log{
		Callers: []int{2}, Calls: []Call{first.untold(), second.untold()},
		Told: []Told{{Turns: []Turn{*first.Turn, *second.Turn}}},
	}
	_, early := punctuality(WithTurns(log))
	require.Zero(t, early)
}

func (c Call) untold() Call {
	c.Turn = nil
	return c
}

func (c Call) with(permits int) Call {
	c.Permits, c.Turn.Permits = permits, permits
	return c
}

// writing is a call that reserved and wrote so much output, in ten seconds.
func writing(called, arrived, reserved, output, settled int) Call {
	c := grant(0, called, arrived)
	c.Tokens = &Tokens{
		Input: 1, Reserved: reserved, Output: output, Takes: 10 * time.Second,
		Settled: time.Duration(settled) * ms,
	}
	return c
}

var tokensRule = Rule{Limits: Limits{Permits: 100, Per: time.Minute, Input: 100, Output: 1000}, Queues: true}

func TestOutputCountsAsFarAsItIsWritten(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 100, Per: time.Minute}, func() time.Duration { return now })
	ledger.Input, ledger.Output = 3, 1000
	rejected := func(at int) bool {
		now = time.Duration(at) * ms
		return ledger.Arrive(writing(at, at, 0, 1000, 0)).Rejected
	}
	require.False(t, rejected(0))
	require.False(t, rejected(9_999), "999 are written")
	require.True(t, rejected(10_000), "there is no room for output")
	require.True(t, rejected(59_999))
	require.False(t, rejected(80_000), "all have left the window")

	ledger.Output = 1_000_000
	require.False(t, rejected(80_001))
	require.False(t, rejected(80_002))
	require.True(t, rejected(80_003), "there is no room for input")
}

func TestAWindowMightHoldWhatItsOwnCallsWroteBeyondTheirEstimates(t *testing.T) {
	turnedAway := writing(0, 30_000, 500, 5000, 0)
	turnedAway.Rejected = true
	calls := []Call{
		writing(0, 1, 100, 900, 0), // before the fullest window
		writing(0, 60_001, 400, 500, 70_001), turnedAway,
		writing(69_000, 80_000, 300, 350, 90_000), // asked before the first was settled
		writing(71_000, 90_000, 300, 200, 0),
		writing(69_000, 100_000, 0, 1, 0),
	}
	o := outputOf(arrivals(calls), tokensRule)
	require.InDelta(t, 1.051, float64(o.Fullest), 1e-9)
	require.InDelta(t, 1.151, float64(o.AtMost), 1e-9)
	require.InDelta(t, 0.151, float64(o.Unknown), 1e-9)

	calls[1].Tokens.Settled = 69_000 * ms
	o = outputOf(arrivals(calls), tokensRule)
	require.InDelta(t, 0.051, float64(o.Unknown), 1e-9, "the last call waited for the first")
	require.Nil(t, outputOf(arrivals(calls), Rule{Limits: Limits{Permits: 1, Per: time.Minute}}))
}

func TestOutputUsedIsOfWhatIsAllowedFromTheSecondWindowOn(t *testing.T) {
	log := Log{End: 180 * time.Second, Calls: []Call{
		writing(0, 0, 0, 700, 0), writing(0, 60_000, 0, 800, 0), writing(0, 120_000, 0, 600, 0),
	}}
	require.InDelta(t, 0.7, float64(usedOutput(log, arrivals(log.Calls), tokensRule)), 1e-9)
	require.Zero(t, usedOutput(Log{}, nil, tokensRule))
}

// A limiter that books more than the quota breaks its promise, but not one whose
// calls write more than they reserved.
func TestAWindowOfTurnsHoldsNoMoreOfAnyUnitThanItsQuota(t *testing.T) {
	windows := func(reserved, output, input int) int {
		var calls []Call
		for i := range 2 {
			c := writing(i, i, reserved, output, 0)
			c.Tokens.Input = input
			c.Turn = &Turn{Permits: 1}
			calls = append(calls, c)
		}
		return tokensRule.excess(taken(calls))
	}
	require.Zero(t, windows(500, 900, 50))
	require.Equal(t, 1, windows(501, 900, 50), "1,002 of output were booked")
	require.Zero(t, windows(900, 500, 50), "the rest is given back")
	require.Equal(t, 1, windows(500, 500, 51), "102 of input")
}

func TestTurnsAreMatchedByWhatTheyHold(t *testing.T) {
	turn := func(output int) Turn { return Turn{Permits: 1, Input: 1, Output: output} }
	calls := WithTurns(Log{
		Callers: []int{1}, Calls: []Call{writing(0, 1, 7, 1, 0), writing(0, 2, 5, 1, 0)},
		Told: []Told{{Turns: []Turn{turn(5), turn(7)}}},
	})
	require.Equal(t, 7, calls[0].Turn.Output)
	require.Equal(t, 5, calls[1].Turn.Output)
}
