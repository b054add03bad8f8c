package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

func TestOrderCountsFromTheLongestStallOn(t *testing.T) {
	for name, c := range map[string]struct {
		stalls   []time.Duration // one an engine
		scenario string
		want     time.Duration
	}{
		"a quiet machine": {[]time.Duration{0, 900 * time.Microsecond}, "steady", 10 * time.Millisecond},
		"one that stalls": {
			[]time.Duration{30200 * time.Microsecond, 4 * time.Millisecond}, "steady", 31 * time.Millisecond,
		},
		"one that hardly moves":    {[]time.Duration{4 * time.Second}, "steady", 100 * time.Millisecond},
		"what is held up, on top":  {[]time.Duration{12 * time.Millisecond}, "laggy", 212 * time.Millisecond},
		"held up, a quiet machine": {[]time.Duration{0}, "laggy", 210 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			behaviour, known := scenario.Named(c.scenario)
			require.True(t, known)
			var results []*Result
			for _, worst := range c.stalls {
				results = append(results, &Result{
					Trial: Trial{Scenario: behaviour, Load: scenario.Default}, WorstStall: worst,
				})
			}
			Judge(results)
			for _, r := range results {
				require.Equal(t, c.want, r.Apart, "all engines are held to one rule")
			}
		})
	}
}
