package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Incident is what happened to the run, and when.
type Incident struct {
	AtMS measure.MS `json:"at_ms"` // of the run; when that was over
	What string     `json:"what"`
}

// befall lets the scenario's incidents happen at their times, until ctx ends. It
// is no fault if one is under way then.
func (t Trial) befall(
	ctx context.Context, begin time.Duration, do func(context.Context, scenario.Deed) error,
) (happened []Incident, err error) {
	for _, incident := range t.Scenario.Incidents {
		at := begin + time.Duration(incident.At*float64(t.Load.Duration))
		select {
		case <-time.After(at - measure.Now()):
		case <-ctx.Done():
			return happened, err
		}
		failed, what := do(ctx, incident.What), string(incident.What)
		switch {
		case failed != nil && ctx.Err() != nil:
			what = "the run ended, before " + what
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("%s, or should have: %w", what, failed))
			continue
		}
		happened = append(happened, Incident{AtMS: measure.Milliseconds(measure.Now() - begin), What: what})
	}
	return happened, err
}
