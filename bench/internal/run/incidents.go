package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// stage is the run as an incident sees it.
type stage struct {
	*Fleet
	trial    Trial
	ledger   *measure.Ledger
	befallen map[int]bool // clients that something happened to
	asleep   map[int][]measure.Span
	seen     *measure.Happened
}

var _ scenario.Stage = stage{}

func (s stage) Kill(client int) error {
	s.befallen[client] = true
	return s.Fleet.Kill(client)
}

func (s stage) Suspend(client int) error {
	s.befallen[client] = true
	s.asleep[client] = append(s.asleep[client], measure.Span{From: measure.Now(), To: math.MaxInt64})
	return s.Fleet.Suspend(client)
}

func (s stage) Resume(client int) error {
	err := s.Fleet.Resume(client)
	spans := s.asleep[client]
	spans[len(spans)-1].To = measure.Now()
	return err
}

func (s stage) RestartRedis(ctx context.Context, away time.Duration) error {
	return s.trial.Backend.Restart(ctx, away)
}

func (s stage) Load() scenario.Load { return s.trial.Load }

func (s stage) CloseUpstream(d time.Duration) { s.seen.Closed = s.ledger.Close(d) }

// Reset lets the upstream look away until everybody has heard of it.
func (s stage) Reset(ctx context.Context) error {
	quota := s.trial.Load.Quota
	s.ledger.Change(measure.Unlimited, false)
	asked := measure.Now()
	at, err := s.Fleet.Do(ctx, 0, Deed{Reset: true})
	if err != nil {
		return err
	}
	s.seen.Reset = measure.Span{From: asked, To: at}
	s.heard(ctx, at)
	s.ledger.Change(quota.Permits, true)
	return nil
}

// SetQuota changes a wider quota at the upstream first, and a narrower one once
// everybody has heard of it.
func (s stage) SetQuota(ctx context.Context, q scenario.Quota, wider bool) error {
	if wider {
		s.ledger.Change(q.Permits, false)
	}
	at := measure.Now()
	for client := range s.Fleet.Clients() {
		done, err := s.Fleet.Do(ctx, client, Deed{Quota: &q})
		if err != nil {
			return err
		}
		at = done
		if s.trial.Engine.Tells {
			break
		}
	}
	s.seen.Quotas = append(s.seen.Quotas, at)
	if !wider {
		s.heard(ctx, at)
		s.ledger.Change(q.Permits, true)
	}
	return nil
}

// heard returns when those asleep have heard of what was done at a moment.
func (s stage) heard(ctx context.Context, at time.Duration) {
	select {
	case <-time.After(at + s.trial.Load.Within - measure.Now()):
	case <-ctx.Done():
	}
}

// Incident is what happened to the run, and when.
type Incident struct {
	AtMS float64 `json:"at_ms"` // of the run; when that was over
	What string  `json:"what"`
}

// befall lets the scenario's incidents happen at their times, until ctx ends. It
// is no fault if one is under way then.
func (t Trial) befall(ctx context.Context, begin time.Duration, stage scenario.Stage) (happened []Incident, err error) {
	for _, incident := range t.Scenario.Incidents {
		at := begin + time.Duration(incident.At*float64(t.Load.Duration))
		select {
		case <-time.After(at - measure.Now()):
		case <-ctx.Done():
			return happened, err
		}
		failed, what := incident.Do(ctx, stage), incident.What
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
