package measure

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func stall(from, to int) []Stall { return []Stall{{time.Duration(from) * ms, time.Duration(to) * ms}} }

// judge is the figures of calls, with order from 10 ms on.
func judge(m Machine, calls ...Call) Figures {
	if m.Stalls == nil {
		m.Stalls = quiet.Stalls
	}
	if m.Missed == nil {
		m.Missed = quiet.Missed
	}
	log := Log{End: time.Second, Callers: []int{1, 1}, Calls: calls, Machine: m}
	return Of(log, Rule{Limits: Limits{Permits: 2, Per: 100 * ms}, Guard: 10 * ms, Apart: 10 * ms})
}

func TestAStallThatExplainsAnInversionTakesTheBlame(t *testing.T) {
	for name, c := range map[string]struct {
		machine  Machine
		machines int
	}{
		"nothing stalled":         {Machine{}, 0},
		"its process stalled":     {Machine{Stalls: [][]Stall{stall(99, 229), nil}}, 1},
		"several together":        {Machine{Stalls: [][]Stall{slices.Concat(stall(9, 19), stall(50, 65)), nil}}, 1},
		"both at once count once": {Machine{Stalls: [][]Stall{slices.Concat(stall(50, 62), stall(51, 63)), nil}}, 0},
		"too short a stall":       {Machine{Stalls: [][]Stall{stall(99, 109), nil}}, 0},
		"another process stalled": {Machine{Stalls: [][]Stall{nil, stall(99, 229)}}, 0},
		"it stalled afterwards":   {Machine{Stalls: [][]Stall{stall(231, 400), nil}}, 0},
		"a turn was missed":       {Machine{Missed: [][]time.Duration{{100 * ms}, nil}}, 1},
		"a turn was missed later": {Machine{Missed: [][]time.Duration{{300 * ms}, nil}}, 0},
	} {
		f := judge(c.machine, grant(0, 0, 231), grant(1, 25, 202)) // the second arrived 29 ms before
		require.Equal(t, c.machines, f.MachineInversions, name)
		require.Equal(t, 1-c.machines, f.Inversions, name)
		require.Equal(t, 1-c.machines, f.MaxOvertake, name)
	}
}

func TestA429BelongsToWhoeverMadeTheCallLate(t *testing.T) {
	// Two in 100 ms are allowed. The third is turned away because the first two
	// were late.
	calls := []Call{grant(0, 0, 61), grant(0, 0, 61), grant(1, 0, 122)}
	calls[2].Rejected = true
	require.Equal(t, 1, judge(Machine{}, calls...).UpstreamRejections)
	f := judge(Machine{Stalls: [][]Stall{stall(1, 60), nil}}, calls...)
	require.Zero(t, f.UpstreamRejections)
	require.Equal(t, 1, f.MachineRejections)
}

func TestTheWorstStallIsOneThatNobodyCaused(t *testing.T) {
	m := Machine{Stalls: [][]Stall{stall(100, 900), stall(0, 20)}}
	require.Equal(t, 800*ms, m.Worst(false))
	require.Equal(t, 20*ms, m.Worst(true), "the first was put to sleep")
}
