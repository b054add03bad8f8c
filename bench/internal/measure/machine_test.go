package measure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func stall(from, to int) Stall { return Stall{time.Duration(from) * ms, time.Duration(to) * ms} }

// went is a call that was let through at one moment and arrived at another.
func went(client, called, ended, arrived int) Call {
	c := grant(client, called, arrived)
	c.Ended = time.Duration(ended) * ms
	return c
}

// judge is the figures of calls, with order from 10 ms on.
func judge(log Log) Figures {
	log.End, log.Callers = time.Second, []int{1, 1}
	return Of(log, Rule{Limits: Limits{Permits: 2, Per: 100 * ms}, Guard: 10 * ms, Apart: 10 * ms})
}

func TestAStallThatExplainsAnInversionTakesTheBlame(t *testing.T) {
	late := []Call{went(0, 0, 230, 231), went(1, 25, 201, 202)} // the second arrived 29 ms before
	for name, c := range map[string]struct {
		log      Log
		machines int
	}{
		"nothing stalled":         {Log{Machine: Machine{Clients: [][]Stall{nil, nil}}}, 0},
		"nobody looked":           {Log{}, 0},
		"its process stalled":     {Log{Machine: Machine{Clients: [][]Stall{{stall(99, 229)}, nil}}}, 1},
		"several together":        {Log{Machine: Machine{Clients: [][]Stall{{stall(9, 19), stall(50, 65)}, nil}}}, 1},
		"too short a stall":       {Log{Machine: Machine{Clients: [][]Stall{{stall(99, 109)}, nil}}}, 0},
		"another process stalled": {Log{Machine: Machine{Clients: [][]Stall{nil, {stall(99, 229)}}}}, 0},
		"Redis did":               {Log{Machine: Machine{Clients: [][]Stall{nil, nil}, Redis: []Stall{stall(2, 39)}}}, 1},
		"it stalled afterwards":   {Log{Machine: Machine{Clients: [][]Stall{{stall(231, 400)}, nil}}}, 0},
		"a turn was missed":       {Log{Missed: [][]time.Duration{{100 * ms}, nil}}, 1},
		"a turn was missed later": {Log{Missed: [][]time.Duration{{300 * ms}, nil}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.log.Calls = late
			f := judge(c.log)
			require.Equal(t, c.machines, f.MachineInversions)
			require.Equal(t, 1-c.machines, f.Inversions)
			require.Equal(t, 1-c.machines, f.MaxOvertake)
		})
	}
	f := judge(Log{Calls: []Call{went(0, 0, 101, 231), went(1, 20, 201, 202)}})
	require.Equal(t, 1, f.MachineInversions, "the way to the upstream is no engine's work")
}

func TestA429BelongsToWhoeverMadeTheCallLate(t *testing.T) {
	// Two in 100 ms are allowed. The third is turned away because the first two
	// were late.
	calls := []Call{went(0, 0, 60, 61), went(1, 0, 60, 61), went(1, 0, 121, 122)}
	calls[2].Rejected = true
	f := judge(Log{Calls: calls, Machine: Machine{Clients: [][]Stall{nil, nil}}})
	require.Equal(t, 1, f.UpstreamRejections)
	require.Zero(t, f.MachineRejections)
	stalled := []Stall{stall(1, 60)}
	f = judge(Log{Calls: calls, Machine: Machine{Clients: [][]Stall{stalled, stalled[:0]}, Here: nil}})
	require.Zero(t, f.UpstreamRejections)
	require.Equal(t, 1, f.MachineRejections)

	// A millisecond too early at the upstream, for delays that any machine has.
	close := []Call{went(0, 0, 3, 4), went(1, 0, 3, 4), went(1, 100, 102, 103)}
	close[2].Rejected = true
	require.Equal(t, 1, judge(Log{Calls: close}).UpstreamRejections)
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
		from, to, want := rng.IntN(100), rng.IntN(101), 0
		for at := from; at < to; at++ {
			if stalled[at] {
				want++
			}
		}
		got := newTimeline(stalls).within(time.Duration(from)*ms, time.Duration(to)*ms)
		require.Equal(t, time.Duration(want)*ms, got, "%v", stalls)
	}
}

func TestTheWorstStallIsOneThatNobodyCaused(t *testing.T) {
	m := Machine{Clients: [][]Stall{{stall(0, 20)}, {stall(100, 900)}}, Here: []Stall{stall(5, 15)}}
	require.Equal(t, 800*ms, m.Worst(nil))
	require.Equal(t, 20*ms, m.Worst(map[int]bool{1: true}), "the second was put to sleep")
}
