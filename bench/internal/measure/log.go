// Package measure turns the log of a run into figures. It does nothing else: no
// clock, no files, no processes.
package measure

import "time"

// Log is what happened in one run. All times are on one clock.
type Log struct {
	Begin, End time.Duration
	Callers    []int  // how many callers each client has; len(Callers) clients in all
	Calls      []Call // in the order in which they were made
	Told       []bool // by client: whether it lived to tell
	Machine    Machine
}

// Outcome is how a call ended.
type Outcome string

const (
	Granted Outcome = "granted"
	Refused Outcome = "refused" // the limiter said no
	Left    Outcome = "left"    // the caller went away of its own will
	Waiting Outcome = "waiting" // still waiting when the run ended
	Failed  Outcome = "failed"  // the limiter or the upstream could not be asked
)

// Call is one caller asking once.
type Call struct {
	Client  int           `json:"client"`
	Caller  int           `json:"caller"` // within its client
	Seq     int           `json:"seq"`    // within its caller, from 0
	Permits int           `json:"permits"`
	Called  time.Duration `json:"called"`
	Ended   time.Duration `json:"ended"` // the call returned; for Waiting, when the run ended
	Outcome Outcome       `json:"outcome"`
	Tokens  *Tokens       `json:"tokens,omitempty"`
	Error   string        `json:"error,omitempty"`

	Reached  bool          `json:"reached,omitempty"`  // the upstream saw it
	Arrived  time.Duration `json:"arrived,omitempty"`  // when it did
	Rejected bool          `json:"rejected,omitempty"` // and answered 429
}

// Gone is when the call stopped waiting: as the upstream saw it, if it did.
func (c Call) Gone() time.Duration {
	if c.Reached {
		return c.Arrived
	}
	return c.Ended
}

// Rule is what the calls are held against.
type Rule struct {
	Limits
	Guard time.Duration // what the engine was given

	// Apart is how far apart two calls, and two arrivals, must be for their
	// order to count: less than that, the machine mixes them up.
	Apart time.Duration
}

// period is how long the guarded quota takes to hand out its permits once.
func (r Rule) period() time.Duration { return r.Per + r.Guard }
