package main

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// A rehearsal takes this part of the time that an engine gets, within these
// bounds.
const (
	rehearsalPart  = 8
	rehearsalLeast = 300 * time.Millisecond
	rehearsalMost  = time.Second
)

// rehearsed is the round with a guard that follows from what the machine does.
// In the rehearsal as many processes and callers as in the round ask Redis,
// sleep and call the upstream, but the clock alone says when they go. So the
// spread of their delays is the machine's. The guard is more than that.
func (r round) rehearsed(ctx context.Context, on bed, display *run.Progress) (round, error) {
	trying := r
	trying.scenario = scenario.Scenario{
		Name: "steady", Callers: r.scenario.Callers, Behave: r.scenario.Behave,
	}
	trying.load.Duration = min(rehearsalMost, max(rehearsalLeast, r.load.Duration/rehearsalPart))
	result, err := on.run(ctx, trying, engines.Clockwork, display)
	if err != nil {
		return r, err
	}
	run.Judge([]*run.Result{result})
	spread := 0.0
	if seen := result.Figures.SpreadMS; seen != nil {
		spread = *seen
	}
	own := scenario.Load{Quota: r.load.Quota}.Guarded(time.Duration(spread * float64(time.Millisecond))).Guard
	r.load.Guard = max(r.load.Guard, own+r.scenario.HeldUp())
	return r, nil
}
