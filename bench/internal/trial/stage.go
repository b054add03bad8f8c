package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/fleet"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// stage is the run as an incident sees it.
type stage struct {
	*fleet.Fleet
	redis *backend.Backend
}

var _ scenario.Stage = stage{}

func (s stage) RestartRedis(ctx context.Context, away time.Duration) error {
	return s.redis.Restart(ctx, away)
}

// Incident is what happened to the run, and when.
type Incident struct {
	AtMS float64 `json:"at_ms"` // of the run; when it was over
	What string  `json:"what"`
}

// befall lets the scenario's incidents happen at their times, until ctx ends.
func (t Trial) befall(ctx context.Context, begin time.Duration, stage scenario.Stage) (happened []Incident, err error) {
	for _, incident := range t.Scenario.Incidents {
		at := begin + time.Duration(incident.At*float64(t.Load.Duration))
		select {
		case <-time.After(at - monotime.Now()):
		case <-ctx.Done():
			return happened, err
		}
		if failed := incident.Do(ctx, stage); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s, or should have: %w", incident.What, failed))
			continue
		}
		happened = append(happened, Incident{AtMS: metrics.Milliseconds(monotime.Now() - begin), What: incident.What})
	}
	return happened, err
}
