package run

import (
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

const (
	// orderly is the least distance at which the order of two events says
	// something, on any machine.
	orderly = 10 * time.Millisecond

	// However long a machine stalls, it blurs the order by no more than a tenth
	// of the quota's window, or by 50 ms if that is more. Longer stalls count
	// for the calls that they hit, one by one.
	blurShare = 10
	blurAny   = 50 * time.Millisecond
)

// Judge works out the figures of one scenario's results. All engines are held
// to the same rule: events closer than the machine's longest stall have no order,
// within bounds. What the scenario holds up on purpose comes on top.
func Judge(results []*Result) {
	worst := time.Duration(0)
	for _, r := range results {
		worst = max(worst, r.WorstStall)
	}
	for _, r := range results {
		blur := blurred(worst, r.Trial.Load)
		r.Apart = blur + r.Trial.Scenario.HeldUp()
		r.Figures = measure.Of(r.Log, measure.Rule{
			Permits: r.Trial.Load.Quota.Permits, Per: r.Trial.Load.Quota.Per,
			Ceiling: ceiling(r.Trial.Load), Guard: r.Given.Guard,
			Input: r.Trial.Load.Input, Output: r.Trial.Load.Output,
			Apart: r.Apart, Blur: blur, Queues: r.Trial.Engine.Queues,
		})
		r.Figures.FewWaitAloneMS = r.Modest
	}
}

// blurred is the distance under which the machine mixes up the order by itself.
func blurred(worst time.Duration, l scenario.Load) time.Duration {
	const whole = time.Millisecond
	return max(orderly, min((worst+whole-1).Truncate(whole), max(l.Quota.Per/blurShare, blurAny)))
}
