// Package measure turns the log of a run into figures. It does nothing else: no
// clock, no files, no processes.
package measure

import "time"

// Log is what happened in one run. All times are on one clock.
type Log struct {
	Begin, End time.Duration
	Callers    []int // how many callers each client has; len(Callers) clients in all
	Calls      []Call
	Machine    Machine
	Told       []Told // by client
}

// Span is some time, From included and To not.
type Span struct{ From, To time.Duration }

// Told is what a limiter noted of the turns of its process.
type Told struct {
	Turns    []Turn          `json:"turns,omitempty"`    // that were granted
	Returned []int           `json:"returned,omitempty"` // which of them nobody went with, counted from the first of all
	Missed   []time.Duration `json:"missed,omitempty"`   // when the process woke too late for a turn

	Strange   int `json:"strange,omitempty"`    // turns that were given back, but not held
	Backwards int `json:"backwards,omitempty"`  // turns behind a later one in the same answer
	GivenBack int `json:"given_back,omitempty"` // permits
	Lost      int `json:"lost,omitempty"`       // permits at most: their answer was lost, or giving them back failed
}

// Used are the turns that somebody went with, or still waits for.
func (t Told) Used() (used []Turn) {
	returned := map[int]bool{}
	for _, i := range t.Returned {
		returned[i] = true
	}
	for i, turn := range t.Turns {
		if !returned[i] {
			used = append(used, turn)
		}
	}
	return used
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
	Tokens  *Tokens       `json:"tokens,omitempty"`
	Error   string        `json:"error,omitempty"`

	Reached  bool          `json:"reached,omitempty"`  // the upstream saw it
	Arrived  time.Duration `json:"arrived,omitempty"`  // when it did
	Rejected bool          `json:"rejected,omitempty"` // and answered 429
}

// Turn is what the limiter was told about a turn: the question that won it and
// the wait that was the answer.
type Turn struct {
	Permits int           `json:"permits"`
	Input   int           `json:"input,omitempty"`
	Output  int           `json:"output,omitempty"` // that was reserved
	Sent    time.Duration `json:"sent"`
	Replied time.Duration `json:"replied"`
	Wait    time.Duration `json:"wait"`

	// Slot is the turn's, and Decided when the script ran, in µs of the queue's
	// clock; 0 for engines that have no slots.
	Slot    int64 `json:"slot,omitempty"`
	Decided int64 `json:"decided,omitempty"`
}

// atBest is the earliest that the turn can have come.
func (t *Turn) atBest() time.Duration { return t.Sent + t.Wait }

// Due is when the turn came, at the latest.
func (t *Turn) Due() time.Duration { return t.Replied + t.Wait }

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

	// Blur is the part of Apart that is the machine's. A call that goes late by
	// less counts as one that the machine made late.
	Blur time.Duration

	// Queues says that the engine promises turns in the future, so that a
	// return may be early or late.
	Queues bool
}

// period is how long the guarded quota takes to hand out its permits once.
func (r Rule) period() time.Duration { return r.Per + r.Guard }
