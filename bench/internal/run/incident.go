package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// Incident is what happened to the run, and when.
type Incident struct {
	AtMS measure.MS `json:"at_ms"` // of the run; when that was over
	What string     `json:"what"`
}

// befall lets the scenario's incidents happen at their times, until ctx ends. It
// is no fault if one is under way then.
func (t Trial) befall(
	ctx context.Context, begin time.Duration, ledger *measure.Ledger, clients *Fleet,
) (happened []Incident, err error) {
	for _, incident := range t.Scenario.Incidents {
		at := begin + time.Duration(incident.At*float64(t.Load.Duration))
		if clock.Sleep(ctx, at-measure.Now()) != nil {
			return happened, err
		}
		if incident.Phase > 0 {
			ledger.Change(incident.Permits(t.Load))
		}
		what, failed := t.happen(ctx, incident, clients)
		switch {
		case failed == nil:
			happened = append(happened, Incident{measure.MS(measure.Now() - begin), what})
		case ctx.Err() == nil:
			err = errors.Join(err, fmt.Errorf("%s, or should have: %w", what, failed))
		}
	}
	return happened, err
}

// happen does it, and says what was done.
func (t Trial) happen(ctx context.Context, i scenario.Incident, clients *Fleet) (what string, err error) {
	load := t.Load
	load.Quota.Permits = i.Permits(t.Load)
	load.Quota.Burst = min(load.Quota.Burst, load.Quota.Permits)
	setup := engines.Setup{Load: t.Engine.Given(load), Redis: t.Backend.Client, Name: t.Name}
	switch what = string(i.What); i.What {
	case scenario.Kill:
		err = clients.clients[0].kill()
	case scenario.Suspend:
		err = clients.clients[0].signal("STOP")
	case scenario.Resume:
		err = clients.clients[0].signal("CONT")
	case scenario.Restart:
		t.Backend.Process.Kill()
		_ = clock.Sleep(ctx, scenario.RedisAway)
		t.Backend.Process.Restart()
	case scenario.Rescue:
		return t.steer(t.Engine.Rescue, ctx, setup, clients)
	case scenario.Change:
		return t.steer(t.Engine.Change, ctx, setup, clients)
	}
	return what, err
}

// steer does what can be done about an engine from outside. Users of one that
// cannot be steered restart their processes.
func (t Trial) steer(
	by engines.Steer, ctx context.Context, s engines.Setup, clients *Fleet,
) (what string, err error) {
	if by != nil {
		return by(ctx, s)
	}
	clients.renew(s.Load)
	return "the clients were restarted", nil
}
