package measure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

const ms = time.Millisecond

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

// Some still wait at the end, who were passed, and some left, who were not.
func TestOvertakingIsWhatItsDefinitionSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var calls []Call
		for range rng.IntN(60) {
			called := rng.IntN(300)
			switch c := grant(0, called, called+rng.IntN(300)); rng.IntN(10) {
			case 0:
				calls = append(calls, stuck(0, called, 600))
			case 1:
				c.Reached, c.Outcome = false, Left
				calls = append(calls, c)
			default:
				calls = append(calls, c)
			}
		}
		wantPairs, wantMost := 0, 0
		for _, a := range calls {
			passers := 0
			for _, b := range calls {
				waited := b.Reached && b.Arrived-b.Called >= 10*ms
				if a.Outcome != Left && waited && a.Called+10*ms <= b.Called && b.Arrived+10*ms <= a.Gone() {
					passers++
				}
			}
			wantPairs += passers
			wantMost = max(wantMost, passers)
		}
		pairs, most := overtaking(calls, 10*ms, asSeen)
		require.Equal(t, wantPairs, pairs)
		require.Equal(t, wantMost, most)
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

func TestJain(t *testing.T) {
	per := func(callersAndPermits ...int) (got []Share) {
		for i := 0; i < len(callersAndPermits); i += 2 {
			got = append(got, Share{Callers: callersAndPermits[i], Permits: callersAndPermits[i+1]})
		}
		return got
	}
	require.InDelta(t, 1, jain(per(1, 10, 1, 10, 1, 10)), 1e-9)
	require.InDelta(t, 1.0/3, jain(per(1, 10, 1, 0, 1, 0)), 1e-9)
	require.InDelta(t, 0.9, jain(per(1, 1, 1, 2)), 1e-9)
	require.InDelta(t, 1, jain(per(1, 10, 50, 500)), 1e-9,
		"what a client got is divided by its callers")
	require.InDelta(t, 1, jain(per(1, 0, 1, 0)), 1e-9)
}

func TestLongestStarved(t *testing.T) {
	starved := func(clients int, calls ...Call) time.Duration {
		return longestStarved(Log{Callers: make([]int, clients), Calls: calls})
	}
	require.Equal(t, 300*ms, starved(1, grant(0, 0, 300), grant(0, 0, 500)), "from the call to the first grant")
	require.Equal(t, 400*ms, starved(1, grant(0, 0, 300), grant(0, 0, 700)), "from grant to grant")
	require.Equal(t, 100*ms, starved(1, grant(0, 0, 100), grant(0, 5000, 5100)),
		"a client that does not ask does not starve")
	require.Equal(t, 900*ms, starved(2, grant(0, 0, 50), grant(0, 60, 110), stuck(1, 100, 1000)),
		"nor is one fed by another's grants")
	require.Equal(t, 700*ms, starved(1, grant(0, 0, 300), stuck(0, 200, 1000)), "up to the end of the run")
	require.Equal(t, 100*ms, starved(1, Call{Ended: 100 * ms, Outcome: Failed}, grant(0, 150, 200)),
		"who fails no longer waits")
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
	var even []Call
	for i := range 40 {
		even = append(even, grant(0, 0, i*1010/4))
	}

	require.InDelta(t, 1, utilized(10_000, bursts(10, 4, 1010)...), 1e-9)
	require.InDelta(t, 1, utilized(10_000, even...), 1e-3, "however the permits lie within their period")
	require.InDelta(t, 1, utilized(9_800, bursts(10, 4, 1010)...), 1e-9, "wherever the run ends")
	require.InDelta(t, 0.5, utilized(20_000, append(bursts(10, 4, 2020), stuck(0, 0, 20_000))...), 0.05)
	require.InDelta(t, 0.5, utilized(21_000, append(bursts(10, 4, 1010), stuck(0, 0, 21_000))...), 0.06,
		"to fall silent is to waste")
	require.Zero(t, utilized(10_000))

	idle := bursts(3, 4, 1010)
	for _, c := range bursts(3, 4, 1010) {
		c.Called += 20_000 * ms
		c.Arrived += 20_000 * ms
		idle = append(idle, c)
	}
	require.InDelta(t, 1, utilized(23_000, idle...), 1e-9,
		"nobody asked in between, and the first quota after it was due at once")
}

func TestFiguresOfAKnownLog(t *testing.T) {
	left := Call{Client: 1, Permits: 1, Called: 0, Ended: 5 * ms, Outcome: Left}
	refused := Call{Client: 1, Permits: 1, Called: 0, Ended: 5 * ms, Outcome: Refused}
	rejected := grant(0, 0, 2500)
	rejected.Rejected = true
	log := Log{End: 3000 * ms, Callers: []int{1, 1}, Calls: []Call{
		grant(0, 0, 2000), grant(1, 100, 1000), rejected, left, refused,
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
	require.InDelta(t, 2000, float64(f.LongestStarvedMS), 1e-9)
	require.Equal(t, []Share{{Callers: 1, Grants: 2, Permits: 2}, {Callers: 1, Grants: 1, Permits: 1}}, f.Shares)
}

func TestWhatOneClientGetsOfAll(t *testing.T) {
	rule := Rule{
		Limits: Limits{Permits: 4, Per: time.Second}, Apart: 10 * ms,
		Ceiling: fairlimit.Quota{Permits: 2, Per: 100 * ms},
	}
	log := Log{End: 4 * time.Second, Callers: []int{1, 1}, Calls: []Call{
		grant(0, 0, 10), grant(0, 0, 2050), grant(0, 0, 2109), grant(0, 0, 2149), grant(1, 0, 2020),
	}}
	f := Of(log, rule)
	require.Equal(t, 3, *f.MaxOfOne)
	require.InDelta(t, 0.25, float64(f.SmallestShare), 1e-9)
	rule.Ceiling = fairlimit.Quota{}
	require.Nil(t, Of(log, rule).MaxOfOne)
}

func TestTimeInWhichTheMachineStoodStillIsNotUnused(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 1, Per: 100 * ms}, Apart: 10 * ms}
	log := Log{End: time.Second, Callers: []int{1}}
	for at := 0; at < 500; at += 100 {
		log.Calls = append(log.Calls, grant(0, 0, at))
	}
	log.Calls = append(log.Calls, Call{Permits: 1, Outcome: Waiting, Ended: time.Second})
	require.InDelta(t, 4.0/9, float64(Of(log, rule).Utilization), 0.02)
	log.Machine.Here = []Stall{{From: 500 * ms, To: time.Second}}
	require.InDelta(t, 1, float64(Of(log, rule).Utilization), 0.02)
}

func TestALedgerIsStrict(t *testing.T) {
	type arrival struct{ at, permits int }
	for name, c := range map[string]struct {
		permits  int
		arrivals []arrival
		want     []bool
	}{
		"half open: an arrival leaves the window exactly one second later": {
			2,
			[]arrival{{0, 1}, {600, 1}, {601, 1}, {999, 1}, {1000, 1}, {1599, 1}, {1600, 1}},
			[]bool{true, true, false, false, true, false, true},
		},
		"permits count": {
			5, []arrival{{0, 3}, {1, 3}, {2, 2}, {3, 1}}, []bool{true, false, true, false},
		},
	} {
		var now time.Duration
		ledger := NewLedger(Limits{Permits: c.permits, Per: time.Second}, func() time.Duration { return now })
		var admitted []bool
		for _, a := range c.arrivals {
			now = time.Duration(a.at) * ms
			admitted = append(admitted, !ledger.Arrive(Call{Permits: a.permits}).Rejected)
		}
		require.Equal(t, c.want, admitted, name)
		require.Len(t, ledger.Arrivals(), len(c.want), "it writes down what it rejected")
	}
}

// writing is a call that reserved and wrote so much output, in ten seconds.
func writing(called, arrived, reserved, output int) Call {
	c := grant(0, called, arrived)
	c.Tokens = &Tokens{Input: 1, Reserved: reserved, Output: output, Takes: 10 * time.Second}
	return c
}

func TestOutputCountsAsFarAsItIsWritten(t *testing.T) {
	var now time.Duration
	ledger := NewLedger(Limits{Permits: 100, Per: time.Minute}, func() time.Duration { return now })
	ledger.Input, ledger.Output = 3, 1000
	rejected := func(at int) bool {
		now = time.Duration(at) * ms
		return ledger.Arrive(writing(at, at, 0, 1000)).Rejected
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
	rule := Rule{Limits: Limits{Permits: 100, Per: time.Minute, Input: 100, Output: 1000}}
	turnedAway := writing(0, 30_000, 500, 5000)
	turnedAway.Rejected = true
	calls := []Call{
		writing(0, 1, 100, 900), // before the fullest window
		writing(0, 60_001, 400, 500), turnedAway, writing(69_000, 80_000, 300, 350), writing(0, 90_000, 300, 200),
	}
	o := outputOf(calls, rule)
	require.InDelta(t, 1.05, float64(o.Fullest), 1e-9)
	require.InDelta(t, 1.15, float64(o.AtMost), 1e-9)
	require.Nil(t, outputOf(calls, Rule{Limits: Limits{Permits: 1, Per: time.Minute}}))

	log := Log{End: 180 * time.Second, Calls: []Call{
		writing(0, 0, 0, 700), writing(0, 60_000, 0, 800), writing(0, 120_000, 0, 600),
	}}
	require.InDelta(t, 0.7, float64(usedOutput(log, log.Calls, rule)), 1e-9, "from the second window on")
}
