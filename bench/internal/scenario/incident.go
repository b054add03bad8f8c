package scenario

import (
	"context"
	"time"
)

// Incident is something that happens while the callers go on as if it did not.
type Incident struct {
	At   float64 // the part of the run that is over by then
	What string  // as the report tells it
	Do   func(ctx context.Context, stage Stage) error
}

// Stage is what an incident can happen to.
type Stage interface {
	Clients() int
	Kill(client int) error    // at once, with nothing put in order
	Suspend(client int) error // the process stands still, and time goes on
	Resume(client int) error

	// RestartRedis ends the server with all that it holds, and starts an empty
	// one in its place after a while.
	RestartRedis(ctx context.Context, away time.Duration) error

	Load() Load

	// CloseUpstream lets it answer 429 for so long, with Retry-After, whoever
	// calls.
	CloseUpstream(d time.Duration)

	// Reset resets the limiter, if the engine has a way to. The upstream counts
	// again, and anew, once Load().Within is over.
	Reset(ctx context.Context) error

	// SetQuota changes the quota: once for all, or in each process where there
	// is no other way. The upstream follows: at once if the new one is wider,
	// else once Load().Within is over, and then it counts anew.
	SetQuota(ctx context.Context, q Quota, wider bool) error
}

// Breaks reports whether something happens in the scenario that only real
// processes and servers can go through.
func (s Scenario) Breaks() bool { return len(s.Incidents) > 0 }

// Harmful reports whether calls may fail and clients may end in the scenario,
// although nothing is wrong with the measurement.
func (s Scenario) Harmful() bool { return s.Breaks() && !s.Steers }

// lastClient is the one that incidents happen to, so that the first, which
// scenarios may treat differently, is spared.
func lastClient(stage Stage) int { return stage.Clients() - 1 }
