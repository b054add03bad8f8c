package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// quiet is a machine with two clients that did nothing.
var quiet = Machine{Stalls: make([][]Stall, 2), Missed: make([][]time.Duration, 2)}

// grant is a call of one permit that reached the upstream; times are in
// milliseconds.
func grant(client int, called, arrived int) Call {
	at := time.Duration(arrived) * ms
	return Call{
		Client: client, Permits: 1, Called: time.Duration(called) * ms, Ended: at,
		Outcome: Granted, Reached: true, Arrived: at,
	}
}

// stuck is a call that the end of the run found waiting.
func stuck(client int, called, end int) Call {
	return Call{
		Client: client, Permits: 1, Called: time.Duration(called) * ms, Ended: time.Duration(end) * ms,
		Outcome: Waiting,
	}
}

func TestInversionsAreThoseWhoWaitedAndWerePassed(t *testing.T) {
	none := func(Call) (time.Duration, bool) { return 0, false }
	left := Call{Called: 0, Ended: 400 * ms, Outcome: Left}
	for name, c := range map[string]struct {
		calls       []Call
		pairs, most int
	}{
		"two pass one, and one of them another": {
			[]Call{grant(0, 0, 400), grant(0, 50, 350), grant(0, 100, 300), grant(0, 120, 380)}, 4, 3,
		},
		"called too close":             {[]Call{grant(0, 0, 400), grant(0, 9, 300)}, 0, 0},
		"arrived too close":            {[]Call{grant(0, 0, 400), grant(0, 20, 391)}, 0, 0},
		"did not wait":                 {[]Call{grant(0, 0, 400), grant(0, 20, 29)}, 0, 0},
		"who left was not passed":      {[]Call{left, grant(0, 100, 300)}, 0, 0},
		"who waits at the end was":     {[]Call{stuck(0, 0, 600), grant(0, 100, 300)}, 1, 1},
		"who waits passes nobody":      {[]Call{grant(0, 0, 400), stuck(0, 20, 100)}, 0, 0},
		"the last of three passes two": {[]Call{grant(0, 0, 400), grant(0, 20, 410), grant(0, 40, 300)}, 2, 1},
	} {
		pairs, most := overtaking(c.calls, 10*ms, none)
		require.Equal(t, c.pairs, pairs, name)
		require.Equal(t, c.most, most, name)
	}
}

func TestMaxInWindowIsHalfOpen(t *testing.T) {
	calls := []Call{grant(0, 0, 0), grant(0, 0, 400), grant(0, 0, 1000), grant(0, 0, 1399)}
	require.Equal(t, 3, maxInWindow(calls, time.Second), "400, 1000 and 1399; the one at 0 left at 1000")
	require.Equal(t, 1, maxInWindow(calls, 399*ms))
	require.Equal(t, 2, maxInWindow(calls, 400*ms))

	calls[2].Permits = 5
	calls[2].Rejected = true
	require.Equal(t, 7, maxInWindow(calls, time.Second), "what was rejected had come all the same")
	require.Zero(t, maxInWindow(nil, time.Second))
}

func TestJainCountsWhatAClientGotForEachOfItsCallers(t *testing.T) {
	for _, c := range []struct {
		callers, permits [3]int
		want             float64
	}{
		{[3]int{1, 1, 1}, [3]int{10, 10, 10}, 1},
		{[3]int{1, 1, 1}, [3]int{10, 0, 0}, 1.0 / 3},
		{[3]int{1, 50, 2}, [3]int{10, 500, 20}, 1},
		{[3]int{1, 1, 1}, [3]int{}, 1},
	} {
		var got []Share
		for i := range c.callers {
			got = append(got, Share{Callers: c.callers[i], Permits: c.permits[i]})
		}
		index, _ := jain(got)
		require.InDelta(t, c.want, index, 1e-9)
	}
}

func TestLongestStarved(t *testing.T) {
	starved := func(calls ...Call) time.Duration { return longestStarved(calls) }
	require.Equal(t, 300*ms, starved(grant(0, 0, 300), grant(0, 0, 500)), "from the call to the first grant")
	require.Equal(t, 400*ms, starved(grant(0, 0, 300), grant(0, 0, 700)), "from grant to grant")
	require.Equal(t, 100*ms, starved(grant(0, 0, 100), grant(0, 5000, 5100)),
		"a client that does not ask does not starve")
	require.Equal(t, 900*ms, starved(grant(0, 0, 50), grant(0, 60, 110), stuck(1, 100, 1000)),
		"nor is one fed by another's grants")
	require.Equal(t, 700*ms, starved(grant(0, 0, 300), stuck(0, 200, 1000)), "up to the end of the run")
}

func TestUtilization(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 4, Per: time.Second}, Guard: 10 * ms}
	utilized := func(end int, calls ...Call) float64 {
		log := Log{Callers: []int{1}, Calls: calls, End: time.Duration(end) * ms}
		return float64(utilization(log, arrivals(calls), rule))
	}
	bursts := func(periods, each, period int) (calls []Call) {
		for p := range periods {
			for range each {
				calls = append(calls, grant(0, 0, p*period))
			}
		}
		return calls
	}
	require.InDelta(t, 1, utilized(10_000, bursts(10, 4, 1010)...), 1e-9)
	require.InDelta(t, 1, utilized(10_000, bursts(40, 1, 1010/4)...), 1e-2, "however the permits lie within their period")
	require.InDelta(t, 0.5, utilized(20_000, append(bursts(10, 4, 2020), stuck(0, 0, 20_000))...), 0.05)
	require.InDelta(t, 0.5, utilized(21_000, append(bursts(10, 4, 1010), stuck(0, 0, 21_000))...), 0.06,
		"to fall silent is to waste")
}

func TestFiguresOfAKnownLog(t *testing.T) {
	left := Call{Client: 1, Permits: 1, Called: 0, Ended: 5 * ms, Outcome: Left}
	refused := Call{Client: 1, Permits: 1, Called: 0, Ended: 5 * ms, Outcome: Refused}
	rejected := grant(0, 0, 2500)
	rejected.Rejected = true
	log := Log{End: 3000 * ms, Callers: []int{1, 1}, Machine: quiet, Calls: []Call{
		grant(0, 0, 2000), rejected, left, refused, grant(1, 100, 1000),
	}}

	f := Of(log, Rule{Limits: Limits{Permits: 1, Per: time.Second}, Apart: 10 * ms})
	require.Equal(t, 3, f.Grants)
	require.Equal(t, 3, f.Permits)
	require.Equal(t, 1, f.Refused)
	require.Equal(t, 1, f.Left)
	require.Equal(t, 2, f.Inversions)
	require.Equal(t, 1, f.MaxOvertake)
	require.Equal(t, 1, f.UpstreamRejections)
	require.Equal(t, 2, f.MaxInWindow)
	require.InDelta(t, 2, *f.ShareMaxOverMin, 1e-9)
	require.Equal(t, MS(2000*ms), f.LongestStarvedMS)
	require.InDelta(t, 0, float64(f.SmallestShare), 1e-9, "from two windows after the first grant on")
	require.Equal(t, []Share{{Callers: 1, Grants: 2, Permits: 2}, {Callers: 1, Grants: 1, Permits: 1}}, f.Shares)
}

func TestALedgerIsStrict(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 2, Per: time.Second}, func() time.Duration { return now })
	for _, a := range []struct {
		at, permits int
		admitted    bool
	}{
		{0, 1, true},
		{600, 1, true},
		{601, 1, false},
		{999, 1, false},
		{1000, 1, true}, // half open: the first leaves exactly one second later
		{1599, 1, false},
		{1600, 1, true},
		{2600, 2, true},
		{2601, 1, false},
	} {
		now = time.Duration(a.at) * ms
		require.Equal(t, a.admitted, !ledger.Arrive(Call{Permits: a.permits}).Rejected, a.at)
	}
	ledger.Change(3)
	require.Equal(t, `"default";q=3;w=1`, ledger.Policy())
	require.False(t, ledger.Arrive(Call{Permits: 1}).Rejected)
	require.Len(t, ledger.Arrivals(), 10, "it writes down what it rejected")
}

// Three wait when the quota becomes wider, and one still waits at the end.
func TestAPhaseIsWhatWentFromAChangeOn(t *testing.T) {
	rejected := grant(0, 900, 1500)
	rejected.Rejected = true
	log := Log{
		End: 5 * time.Second, Callers: []int{1, 1}, Told: []bool{true, false}, Machine: quiet,
		Calls: []Call{
			grant(0, 0, 100), grant(1, 0, 1200), grant(0, 200, 1300), rejected, grant(0, 950, 2400),
			grant(0, 1100, 2500), stuck(0, 2700, 5000),
		},
	}
	of := Limits{Permits: 1, Per: 100 * ms, Changes: []Change{{At: time.Second, Permits: 4}, {3 * time.Second, 2}}}
	all := Of(log, Rule{Limits: of}).Phases
	require.Len(t, all, 3)
	last := MS(1400 * ms)
	require.Equal(t, Phase{
		FromMS: MS(time.Second), Permits: 4, First: 0, LastMS: &last, MaxInWindow: 1, Rejections: 1,
		WaitMS: Quantiles{P50: MS(1100 * ms), P99: MS(1450 * ms), Max: MS(1450 * ms)},
	}, all[1], "without the client that did not live to tell")
	require.Nil(t, all[2].LastMS)
	require.Equal(t, 2, all[2].Permits)
	require.Equal(t, 1, all[0].First)
	require.Nil(t, Of(log, Rule{Limits: Limits{Permits: 1, Per: time.Second}}).Phases)
}

// writing is a call that reserved and wrote so much output, in ten seconds.
func writing(called, arrived, reserved, output int) Call {
	c := grant(0, called, arrived)
	c.Tokens = &Tokens{Input: 1, Reserved: reserved, Output: output, Takes: 10 * time.Second}
	return c
}

func TestOutputCountsAsFarAsItIsWritten(t *testing.T) {
	var now time.Duration
	limits := Limits{Permits: 100, Per: time.Minute, Input: 3, Output: 1000}
	ledger := NewLedger(limits, func() time.Duration { return now })
	for _, a := range []struct {
		at, output int
		rejected   bool
	}{
		{0, 1000, false},
		{9_999, 1000, false}, // 999 are written
		{10_000, 1000, true},
		{59_999, 1000, true},
		{80_000, 1, false}, // all have left the window
		{80_001, 1, false},
		{80_002, 1, false},
		{80_003, 1, true}, // there is no room for input
	} {
		now = time.Duration(a.at) * ms
		require.Equal(t, a.rejected, ledger.Arrive(writing(a.at, a.at, 0, a.output)).Rejected, a.at)
	}
}

func TestAWindowMightHoldWhatItsOwnCallsWroteBeyondTheirEstimates(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 100, Per: time.Minute, Input: 100, Output: 1000}}
	turnedAway := writing(0, 65_000, 500, 5000)
	turnedAway.Rejected = true
	log := Log{End: 121 * time.Second, Calls: []Call{
		writing(0, 1000, 100, 900), // before the fullest window
		writing(0, 61_001, 400, 500), turnedAway, writing(69_000, 80_000, 300, 350), writing(0, 90_000, 300, 200),
	}}
	o := outputOf(log.Calls, rule)
	require.InDelta(t, 1.05, float64(o.Fullest), 1e-9)
	require.InDelta(t, 1.15, float64(o.AtMost), 1e-9)
	require.InDelta(t, 1.05, float64(usedOutput(log, log.Calls, rule)), 1e-9, "from the second window on")
	require.Nil(t, outputOf(log.Calls, Rule{}))
}
