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

func TestMaxOverMin(t *testing.T) {
	require.InDelta(t, 2, *maxOverMin([]Share{{2, 1, 10}, {1, 1, 10}, {1, 1, 7}}), 1e-9)
	require.Nil(t, maxOverMin([]Share{{1, 9, 10}, {1, 9, 0}}))
	require.Nil(t, maxOverMin(nil))
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
	require.InDelta(t, 0.75, utilized(10_000, bursts(10, 3, 1010)...), 0.05)
	require.InDelta(t, 0.5, utilized(21_000, append(bursts(10, 4, 1010), stuck(0, 0, 21_000))...), 0.06,
		"to fall silent is to waste")
	require.Zero(t, utilized(10_000))
	require.InDelta(t, 0, utilized(10_000, grant(0, 0, 10), stuck(0, 0, 10_000)), 1e-3)

	lost := bursts(10, 4, 1010)
	lost = append(lost[:20], lost[22:]...) // as when two of those whose turn it was have died
	require.InDelta(t, 1-0.5/8, utilized(9090, lost...), 2e-3, "half of a quota in eight periods")

	idle := bursts(3, 4, 1010)
	for _, c := range bursts(3, 4, 1010) {
		c.Called += 20_000 * ms
		c.Arrived += 20_000 * ms
		idle = append(idle, c)
	}
	require.InDelta(t, 1, utilized(23_000, idle...), 1e-9,
		"nobody asked in between, and the first quota after it was due at once")
}

func TestPunctuality(t *testing.T) {
	call := func(ended, sent, replied, wait int) Call {
		c := grant(0, 0, ended)
		c.Turn = &Turn{
			Sent:    time.Duration(sent) * ms,
			Replied: time.Duration(replied) * ms,
			Wait:    time.Duration(wait) * ms,
		}
		return c
	}
	late, early := punctuality([]Call{
		call(115, 10, 12, 100), call(110, 10, 12, 100), call(109, 10, 12, 100), grant(0, 0, 1),
	})
	require.Equal(t, []time.Duration{3 * ms, -2 * ms, -3 * ms}, late)
	require.Equal(t, 1, early, "110 may still be right, 109 cannot")
}

func TestSpread(t *testing.T) {
	call := func(arrived, sent, replied int) Call {
		c := grant(0, 0, arrived)
		c.Turn = &Turn{Sent: time.Duration(sent) * ms, Replied: time.Duration(replied) * ms}
		return c
	}
	require.InDelta(t, 14, float64(*spread([]Call{call(3, 0, 2), call(120, 105, 110)})), 1e-9, "at most 15, at least 1")
	require.Nil(t, spread([]Call{grant(0, 0, 1)}))
}

func TestQuantilesAreByNearestRank(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(100-i)*ms)
	}
	require.Equal(t, Quantiles{P50: 50, P99: 99, Max: 100}, quantiles(d))
	require.Equal(t, Quantiles{P50: 1, P99: 1, Max: 1}, quantiles([]time.Duration{ms}))
	require.Zero(t, quantiles(nil))
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
	require.Nil(t, f.Early, "an engine without a queue promises no turn")

	require.Zero(t, *Of(log, Rule{Limits: Limits{Permits: 1, Per: time.Second}, Apart: 10 * ms, Queues: true}).Early)
}

func TestPermitsAreWhatIsSharedAndUsed(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 4, Per: time.Second}}
	var calls []Call
	for i := range 10 {
		c := grant(i%2, 0, i*1000)
		// The second client asks for three at a time, and its turn is three
		// quarters of a quota.
		c.Permits = 1 + 2*(i%2)
		calls = append(calls, c)
	}
	f := Of(Log{End: 10 * time.Second, Callers: []int{1, 1}, Calls: calls}, rule)
	require.Equal(t, 10, f.Grants)
	require.Equal(t, 20, f.Permits)
	require.Equal(t, 3, f.MaxInWindow)
	require.InDelta(t, 3, *f.ShareMaxOverMin, 1e-9)
	require.InDelta(t, 0.8, f.Jain, 1e-9)
	require.InDelta(t, 0.5, float64(f.Utilization), 0.01)
}

func TestTheFewWaitAsLongAsTheyStillDo(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 2, Per: 100 * ms}, Apart: 10 * ms}
	waiting := turn(1, 100, 900, 900, 900)
	waiting.Outcome, waiting.Reached, waiting.Ended = Waiting, false, time.Second
	log := Log{End: time.Second, Callers: []int{50, 1}, Calls: []Call{turn(0, 0, 10, 10, 11), waiting}}
	require.InDelta(t, 900, float64(*Of(log, rule).FewWaitMS), 1e-9)
	log.Callers = []int{1, 1}
	require.Nil(t, Of(log, rule).FewWaitMS)
	log.Callers = []int{0, 1}
	require.InDelta(t, 900, float64(*FewWait(log)), 1e-9, "a client without callers is none")
}

func TestWhatOneClientGetsOfAll(t *testing.T) {
	ceiling := fairlimit.Quota{Permits: 2, Per: 100 * ms}
	rule := Rule{Limits: Limits{Permits: 4, Per: time.Second, Ceiling: ceiling}, Apart: 10 * ms}
	log := Log{End: 4 * time.Second, Callers: []int{1, 1}, Calls: []Call{
		turn(0, 0, 10, 10, 10), turn(0, 0, 2050, 2050, 2050), turn(0, 0, 2109, 2109, 2109),
		turn(0, 0, 2149, 2149, 2149), turn(1, 0, 2020, 2020, 2020),
	}}
	f := Of(log, rule)
	require.Equal(t, 3, *f.MaxOfOne)
	require.InDelta(t, 0.25, float64(f.SmallestShare), 1e-9)
	rule.Ceiling = fairlimit.Quota{}
	require.Nil(t, Of(log, rule).MaxOfOne)
}

func TestACeilingBoundsWhatThoseWhoWaitMayUse(t *testing.T) {
	ceiling := fairlimit.Quota{Permits: 2, Per: 100 * ms}
	rule := Rule{Limits: Limits{Permits: 4, Per: 100 * ms, Ceiling: ceiling}, Apart: 10 * ms}
	log := Log{End: time.Second, Callers: []int{1, 1}}
	for at := 0; at < 1000; at += 50 { // 2 each 100 ms, all of one client
		log.Calls = append(log.Calls, turn(0, 0, at, at, at))
	}
	log.Calls = append(log.Calls, Call{Client: 0, Permits: 1, Outcome: Waiting, Ended: time.Second})
	require.InDelta(t, 1, float64(Of(log, rule).Utilization), 0.02)
	log.Calls = append(log.Calls, Call{Client: 1, Permits: 1, Outcome: Waiting, Ended: time.Second})
	require.InDelta(t, 0.5, float64(Of(log, rule).Utilization), 0.02, "the other one might have gone as well")
}

func TestTimeInWhichTheMachineStoodStillIsNotUnused(t *testing.T) {
	rule := Rule{Limits: Limits{Permits: 1, Per: 100 * ms}, Apart: 10 * ms}
	log := Log{End: time.Second, Callers: []int{1}}
	for at := 0; at < 500; at += 100 {
		log.Calls = append(log.Calls, turn(0, 0, at, at, at))
	}
	log.Calls = append(log.Calls, Call{Permits: 1, Outcome: Waiting, Ended: time.Second})
	require.InDelta(t, 4.0/9, float64(Of(log, rule).Utilization), 0.02)
	log.Machine.Here = []Stall{{From: 500 * ms, To: time.Second}}
	require.InDelta(t, 1, float64(Of(log, rule).Utilization), 0.02)
}

func TestALedgerIsStrictForAllAndForEachClient(t *testing.T) {
	type arrival struct{ at, client, permits int }
	ceiling := fairlimit.Quota{Permits: 2, Per: time.Second}
	for name, c := range map[string]struct {
		limits   Limits
		arrivals []arrival
		want     []bool
	}{
		"half open: an arrival leaves the window exactly one second later": {
			Limits{Permits: 2, Per: time.Second},
			[]arrival{{0, 0, 1}, {600, 0, 1}, {601, 0, 1}, {999, 0, 1}, {1000, 0, 1}, {1599, 0, 1}, {1600, 0, 1}},
			[]bool{true, true, false, false, true, false, true},
		},
		"permits count": {
			Limits{Permits: 5, Per: time.Second},
			[]arrival{{0, 0, 3}, {1, 0, 3}, {2, 0, 2}, {3, 0, 1}},
			[]bool{true, false, true, false},
		},
		"a ceiling": {
			Limits{Permits: 5, Per: time.Second, Ceiling: ceiling},
			[]arrival{
				{0, 0, 1}, {10, 0, 1}, {20, 0, 1}, {30, 1, 1}, {31, 1, 1}, {32, 1, 1}, // each client its own
				{40, 2, 1}, {50, 2, 1}, {999, 0, 1}, {1000, 0, 1}, // and all together
			},
			[]bool{true, true, false, true, true, false, true, false, false, true},
		},
	} {
		var now time.Duration
		ledger := NewLedger(c.limits, func() time.Duration { return now })
		var admitted []bool
		for _, a := range c.arrivals {
			now = time.Duration(a.at) * ms
			admitted = append(admitted, !ledger.Arrive(Call{Client: a.client, Permits: a.permits}).Rejected)
		}
		require.Equal(t, c.want, admitted, name)
		require.Len(t, ledger.Arrivals(), len(c.want), "it writes down what it rejected")
	}
}
