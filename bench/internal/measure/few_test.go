package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

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
