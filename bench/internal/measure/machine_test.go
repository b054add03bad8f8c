package measure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turn is a call of a client that was asked and answered within a millisecond,
// had its turn at a slot, went at once or later, and arrived.
func turn(client, called, slot, went, arrived int) Call {
	c := grant(client, called, arrived)
	c.Ended = time.Duration(went) * ms
	c.Turn = &Turn{
		Permits: 1,
		Sent:    time.Duration(called) * ms,
		Replied: time.Duration(called+1) * ms,
		Wait:    time.Duration(slot-called-1) * ms,
		Slot:    int64(slot) * 1000, Decided: int64(called) * 1000,
	}
	return c
}

func stall(from, to int) Stall { return Stall{time.Duration(from) * ms, time.Duration(to) * ms} }

// judge is the figures of calls on a machine, with order from 10 ms on.
func judge(m Machine, calls ...Call) Figures {
	rule := Rule{Limits: Limits{Permits: 2, Per: 100 * ms}, Guard: 10 * ms, Apart: 10 * ms, Blur: 10 * ms, Queues: true}
	return Of(Log{End: time.Second, Callers: []int{1, 1}, Calls: calls, Machine: m}, rule)
}

func TestAStallThatExplainsAnInversionTakesTheBlame(t *testing.T) {
	// The first was to go at 100, and went at 230, after the second.
	late := []Call{turn(0, 0, 100, 230, 231), turn(1, 20, 200, 201, 202)}
	one := []Stall{stall(99, 229)}
	several := []Stall{stall(99, 150), stall(120, 160), stall(170, 230)}
	for name, c := range map[string]struct {
		machine           Machine
		engines, machine2 int
	}{
		"nothing stalled":         {Machine{Clients: [][]Stall{nil, nil}}, 1, 0},
		"nobody looked":           {Machine{}, 1, 0},
		"its process stalled":     {Machine{Clients: [][]Stall{one, nil}}, 0, 1},
		"too short a stall":       {Machine{Clients: [][]Stall{{stall(99, 109)}, nil}}, 1, 0},
		"several":                 {Machine{Clients: [][]Stall{several, nil}}, 0, 1},
		"another process stalled": {Machine{Clients: [][]Stall{nil, one}, Here: one}, 1, 0},
		"it stalled earlier":      {Machine{Clients: [][]Stall{{stall(2, 99)}, nil}}, 1, 0},
		"it stalled afterwards":   {Machine{Clients: [][]Stall{{stall(231, 400)}, nil}}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := judge(c.machine, late...)
			require.Equal(t, c.engines, f.Inversions)
			require.Equal(t, c.engines, f.MaxOvertake)
			require.Equal(t, c.machine2, f.MachineInversions)
			require.Zero(t, *f.PromisedInversions, "the turns were in order")
		})
	}
}

func TestWhoeverGoesLaterSinceATurnWasMissedWasPassedByTheMachine(t *testing.T) {
	inversions := func(missed int) (engines, machines int) {
		f := Of(Log{
			End: time.Second, Callers: []int{1, 1},
			Calls: []Call{turn(0, 0, 230, 230, 231), turn(1, 20, 200, 201, 202)},
			Told:  []Told{{Missed: []time.Duration{time.Duration(missed) * ms}}, {}},
		}, Rule{Limits: Limits{Permits: 2, Per: 100 * ms}, Apart: 10 * ms})
		require.Equal(t, 1, f.MissedTurns)
		return f.Inversions, f.MachineInversions
	}
	for missed, machine := range map[int]int{100: 1, 300: 0} {
		engines, machines := inversions(missed)
		require.Equal(t, machine, machines, missed)
		require.Equal(t, 1-machine, engines, missed)
	}
}

func TestTheWayToTheUpstreamIsNoEnginesWork(t *testing.T) {
	f := judge(Machine{}, turn(0, 0, 100, 101, 231), turn(1, 20, 200, 201, 202))
	require.Zero(t, f.Inversions)
	require.Equal(t, 1, f.MachineInversions)
}

func TestAQuestionThatWasHeldUpIsLateForItsPlace(t *testing.T) {
	asked := turn(0, 0, 200, 201, 202)
	asked.Turn.Sent, asked.Turn.Replied, asked.Turn.Wait = 40*ms, 41*ms, 159*ms
	calls := []Call{asked, turn(1, 20, 100, 101, 102)}
	require.Equal(t, 1, judge(Machine{Clients: [][]Stall{nil, nil}}, calls...).Inversions)
	require.Zero(t, judge(Machine{Clients: [][]Stall{{stall(2, 39)}, nil}}, calls...).Inversions)
	require.Zero(t, judge(Machine{Clients: [][]Stall{nil, nil}, Here: []Stall{stall(2, 39)}}, calls...).Inversions,
		"the embedded Redis stood still")
	require.Zero(t, judge(Machine{Clients: [][]Stall{nil, nil}, Redis: []Stall{stall(2, 39)}}, calls...).Inversions,
		"another Redis did")
}

func TestTurnsInTheWrongOrderAreBrokenPromisesOnAnyMachine(t *testing.T) {
	everything := []Stall{stall(0, 1000)}
	machine := Machine{Clients: [][]Stall{everything, everything}, Here: everything}
	f := judge(machine, turn(0, 0, 200, 201, 202), turn(1, 20, 100, 101, 102))
	require.Equal(t, 1, *f.PromisedInversions)
	f = judge(machine, turn(0, 0, 100, 201, 202), turn(1, 20, 101, 102, 103))
	require.Zero(t, *f.PromisedInversions)
}

func TestTurnsOverTheQuotaAreBrokenPromisesOnAnyMachine(t *testing.T) {
	excess := func(third Call) int {
		return *judge(Machine{}, turn(0, 0, 100, 0, 1), turn(0, 0, 105, 0, 1), third).PromisedExcess
	}
	require.Zero(t, excess(turn(0, 0, 210, 0, 1)))
	require.Equal(t, 1, excess(turn(0, 0, 203, 0, 1)))
}

func TestA429BelongsToWhoeverMadeTheCallLate(t *testing.T) {
	// Two in 100 ms are allowed. The third is on time, and turned away because
	// the first was late.
	calls := []Call{turn(0, 0, 0, 60, 61), turn(1, 0, 1, 60, 61), turn(1, 0, 120, 121, 122)}
	calls[2].Rejected = true
	f := judge(Machine{Clients: [][]Stall{nil, nil}}, calls...)
	require.Equal(t, 1, f.UpstreamRejections)
	require.Zero(t, f.MachineRejections)
	stalled := []Stall{stall(1, 60)}
	f = judge(Machine{Clients: [][]Stall{stalled, stalled}}, calls...)
	require.Zero(t, f.UpstreamRejections)
	require.Equal(t, 1, f.MachineRejections)

	// A millisecond too early at the upstream, for delays that any machine has.
	close := []Call{turn(0, 0, 0, 3, 4), turn(1, 0, 0, 3, 4), turn(1, 0, 101, 102, 103)}
	close[2].Rejected = true
	require.Equal(t, 1, judge(Machine{Clients: [][]Stall{nil, nil}}, close...).UpstreamRejections)

	early := []Call{turn(0, 0, 0, 1, 1), turn(1, 0, 0, 1, 1), turn(1, 0, 50, 51, 52)}
	early[2].Rejected = true
	everything := []Stall{stall(0, 1000)}
	require.Equal(t, 1, judge(Machine{Clients: [][]Stall{everything, everything}}, early...).UpstreamRejections,
		"three turns in a window are too many, whatever stalls")
}

func TestATimelineCountsEveryMomentOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 200 {
		var stalls []Stall
		stalled := make([]bool, 101)
		for range rng.IntN(8) {
			from := rng.IntN(100)
			to := from + rng.IntN(100-from) + 1
			stalls = append(stalls, stall(from, to))
			for at := from; at < to; at++ {
				stalled[at] = true
			}
		}
		line := newTimeline(stalls)
		from := rng.IntN(100)
		to := rng.IntN(101)
		want := 0
		for at := from; at < to; at++ {
			if stalled[at] {
				want++
			}
		}
		got := line.within(time.Duration(from)*ms, time.Duration(to)*ms)
		require.Equal(t, time.Duration(want)*ms, got, "%v", stalls)
	}
}

func TestTheWorstStallIsOneThatNobodyCaused(t *testing.T) {
	m := Machine{Clients: [][]Stall{{stall(0, 20)}, {stall(100, 900)}}, Here: []Stall{stall(5, 15)}}
	require.Equal(t, 800*ms, m.Worst(nil))
	require.Equal(t, 20*ms, m.Worst(map[int]bool{1: true}), "the second was put to sleep")
	require.Zero(t, Machine{}.Worst(nil))
}
