package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// closedAt is a log in which the upstream was closed from 100 to 400 ms, which
// was recorded at 110 and was to be heard of by 150.
func closedAt(calls ...Call) Log {
	return Log{
		End: time.Second, Callers: []int{1, 1}, Calls: calls, Machine: Machine{Clients: [][]Stall{nil, nil}},
		Happened: Happened{Within: 40 * ms, Closed: Span{100 * ms, 400 * ms}, Paused: 110 * ms},
	}
}

func into(c Call) Call {
	c.Rejected, c.Closed = true, true
	return c
}

func TestWhoeverShouldHaveHeardOfAPauseIsCounted(t *testing.T) {
	rule := Rule{Permits: 2, Per: 100 * ms, Guard: 10 * ms, Apart: 10 * ms, Blur: 10 * ms, Queues: true}
	log := closedAt(
		into(turn(0, 0, 105, 105, 106)), into(turn(1, 0, 149, 149, 150)), into(turn(0, 0, 170, 170, 171)),
		turn(1, 0, 420, 420, 421))
	f := Of(log, rule)
	require.Equal(t, 3, *f.ClosedCalls)
	require.Equal(t, 1, *f.UnheardCalls)
	require.InDelta(t, 21, *f.IdleMS, 1e-9)
	require.Zero(t, f.UpstreamRejections, "that is no quota")

	log.Machine.Clients[0] = []Stall{stall(140, 169)}
	f = Of(log, rule)
	require.Zero(t, *f.UnheardCalls)
	require.Equal(t, 1, f.MachineCalls, "its process stood still when it was to hear")

	late := closedAt(into(turn(0, 0, 145, 170, 171)))
	late.Machine.Clients[0] = []Stall{stall(145, 169)}
	require.Zero(t, *Of(late, rule).UnheardCalls, "it was to go before")
}

func TestWhoeverRunsIntoAClosedDoorPassesNobody(t *testing.T) {
	rule := Rule{Permits: 2, Per: 100 * ms, Apart: 10 * ms}
	held, passer := turn(0, 0, 420, 420, 421), turn(1, 50, 120, 120, 121)
	require.Equal(t, 1, Of(closedAt(held, passer), rule).Inversions)
	require.Zero(t, Of(closedAt(held, into(passer)), rule).Inversions)
}

func TestASleepThatIsNoExcuseIsNotTheMachines(t *testing.T) {
	calls := []Call{turn(0, 0, 0, 60, 61), turn(0, 0, 1, 60, 61), turn(1, 0, 120, 121, 122)}
	calls[2].Rejected = true
	stalled := []Stall{stall(1, 60)}
	machine := Machine{Clients: [][]Stall{stalled, stalled}}
	require.Zero(t, judge(machine, calls...).UpstreamRejections)
	machine.Asleep = map[int][]Span{0: {{2 * ms, 58 * ms}}}
	require.Equal(t, 1, judge(machine, calls...).UpstreamRejections)
}

func TestTheFewWaitAsLongAsTheyStillDo(t *testing.T) {
	rule := Rule{Permits: 2, Per: 100 * ms, Apart: 10 * ms}
	waiting := turn(1, 100, 900, 900, 900)
	waiting.Outcome, waiting.Reached, waiting.Ended = Waiting, false, time.Second
	log := Log{End: time.Second, Callers: []int{50, 1}, Calls: []Call{turn(0, 0, 10, 10, 11), waiting}}
	require.InDelta(t, 900, *Of(log, rule).FewWaitMS, 1e-9)
	require.Equal(t, [2]float64{1, 0}, *Of(log, rule).FewPermits)
	log.Callers = []int{1, 1}
	require.Nil(t, Of(log, rule).FewWaitMS)
	require.Nil(t, Of(log, rule).FewPermits)
}

func TestWhatTheMostCallersGotStandsBesideWhatTheFewestGot(t *testing.T) {
	log := Log{End: time.Second, Callers: []int{50, 1, 1}}
	for at, client := range []int{0, 0, 0, 0, 1, 2, 2} {
		log.Calls = append(log.Calls, turn(client, at, at+1, at+1, at+2))
	}
	require.Equal(t, [2]float64{4, 1.5}, *Of(log, Rule{Permits: 20, Per: 100 * ms, Apart: 10 * ms}).FewPermits)
}
