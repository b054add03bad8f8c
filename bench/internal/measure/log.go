// Package metrics turns the log of a run into figures. It does nothing else: no
// clock, no files, no processes.
package measure

import "time"

// Log is what happened in one run. All times are on one clock.
type Log struct {
	Begin, End time.Duration
	Callers    []int // how many callers each client has; len(Callers) clients in all
	Calls      []Call
	Machine    Machine // nothing in virtual time
	Misses     Misses
	Happened
}

// Happened is what happened to the upstream, if anything did. What is 0 did not
// happen.
type Happened struct {
	Within time.Duration // how soon those asleep were to hear of it
	Closed Span          // the upstream turned everybody away
	Paused time.Duration // when the first pause was recorded
}

// Span is some time, From included and To not.
type Span struct{ From, To time.Duration }

// Misses are the turns that a limiter did not take because its process woke too
// late for them.
type Misses struct {
	Turns int `json:"turns,omitempty"`

	// Groundless are those of them that could still have been taken, by the
	// answers and the clock alone.
	Groundless int `json:"groundless,omitempty"`
}

// And is both.
func (m Misses) And(more Misses) Misses {
	return Misses{m.Turns + more.Turns, m.Groundless + more.Groundless}
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
	Turn    *Turn         `json:"turn,omitempty"` // nil where nothing is known of it
	Error   string        `json:"error,omitempty"`

	Reached  bool          `json:"reached,omitempty"`  // the upstream saw it
	Arrived  time.Duration `json:"arrived,omitempty"`  // when it did
	Rejected bool          `json:"rejected,omitempty"` // and answered 429
	Closed   bool          `json:"closed,omitempty"`   // since it was closed to all
}

// Turn is what the limiter was told about the turn that a granted call took:
// the question that won it and the wait that was the answer. It may have been
// another caller's, after a turn was missed.
type Turn struct {
	First   time.Duration `json:"first"` // the first answer of all, which may have been to wait and ask again
	Sent    time.Duration `json:"sent"`
	Replied time.Duration `json:"replied"`
	Wait    time.Duration `json:"wait"`

	// Later is by how much newer answers put it off: the queue was paused, say.
	// If the turn is unknown, it may be less than 0.
	Later time.Duration `json:"later,omitempty"`

	// Unknown says that the call took another caller's turn, and that which is
	// not known. So its question and answer say nothing of order.
	Unknown bool `json:"unknown,omitempty"`

	// Promised, if a turn of its process was missed meanwhile, is when its first
	// turn was to come at the latest. Else it is 0.
	Promised time.Duration `json:"promised,omitempty"`
}

// Due is when the turn came, at the latest.
func (t *Turn) Due() time.Duration { return t.Replied + t.Wait + t.Later }

// Gone is when the call stopped waiting: as the upstream saw it, if it did.
func (c Call) Gone() time.Duration {
	if c.Reached {
		return c.Arrived
	}
	return c.Ended
}

// Rule is what the calls are held against.
type Rule struct {
	Permits int
	Per     time.Duration
	Guard   time.Duration // what the engine was given

	// Apart is how far apart two calls, and two arrivals, must be for their
	// order to count: less than that, the machine mixes them up.
	Apart time.Duration

	// Blur is the part of Apart that is the machine's. A call that goes late by
	// less counts as one that the machine made late.
	Blur time.Duration

	// Queues says that the engine promises turns in the future, so that a
	// return may be early or late.
	Queues bool
}

// period is how long the guarded quota takes to hand out its permits once.
func (r Rule) period() time.Duration { return r.Per + r.Guard }
