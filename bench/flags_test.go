package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// planned is what the flags ask for, a line for each scenario.
func planned(t *testing.T, args string) (lines []string) {
	t.Helper()
	p, err := parse(strings.Fields(args), io.Discard)
	require.NoError(t, err)
	for _, r := range p.rounds {
		line := fmt.Sprintf("%s %v guard %v %dx%d %v seed %d:",
			r.scenario.Name, r.load.Quota, r.load.Guard, r.load.Clients, r.load.Callers, r.load.Duration, r.load.Seed)
		for _, e := range r.engines {
			line += " " + e.Name
		}
		lines = append(lines, line)
	}
	return lines
}

func TestAFlagComesBeforeWhatTheScenarioWants(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "steady 20/1s guard 50ms 4x8 12s seed 1: fair window",
		"-scenario greedy -clients 3": "greedy 20/1s burst 1 guard 50ms 3x1 12s seed 1: fair window",
		"-quota 4/2s -seed 3":         "steady 4/2s guard 100ms 4x8 12s seed 3: fair window",
		"-guard 10ms":                 "steady 20/1s guard 10ms 4x8 12s seed 1: fair window",
		"-scenario laggy":             "laggy 20/1s guard 250ms 4x8 12s seed 1: fair window",
		"-scenario laggy -guard 0":    "laggy 20/1s guard 0s 4x8 12s seed 1: fair window",
		"-scenario few-3-every -engines fair -duration 9s": "few-3-every 1/50ms guard 10ms 2x3 9s seed 1: fair",
	} {
		require.Equal(t, []string{want}, planned(t, args), args)
	}
}

func TestOneNameMayStandForSeveral(t *testing.T) {
	require.Len(t, planned(t, "-scenario few,steady"), 7)
	all := planned(t, "-scenario all -engines all")
	require.Len(t, all, len(scenario.All))
	_, picked, _ := strings.Cut(all[0], ":")
	require.Len(t, strings.Fields(picked), len(engines.All)-3)
	require.Contains(t, planned(t, "-scenario killed -engines all")[0], "fair+requeue")
	require.Contains(t, all[len(all)-1], ": fair fair+flows redis_rate", "window counts no tokens")
}
