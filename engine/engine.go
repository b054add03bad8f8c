// Package engine is the contract between a limiter and the engine that decides
// for it.
//
// An engine answers questions. It does not wait, does not combine callers and
// does not start goroutines: the limiter in front does that for every engine.
// To add an engine, write a [Builder] and its scripts under lua, and run
// package enginetest on it.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Forever is the MaxWait of a request that accepts any turn.
const Forever time.Duration = math.MaxInt64

var (
	// ErrExceedsQuota says that a request asks for more permits than the quota
	// can ever grant at once.
	ErrExceedsQuota = errors.New("fairlimit: more permits than the quota can ever grant at once")

	// ErrOutcomeUnknown says that a question may have reached Redis, but the
	// answer did not arrive. What it asked for was done once or not at all.
	ErrOutcomeUnknown = errors.New(
		"fairlimit: outcome unknown: the call may have reached Redis, its answer did not arrive")

	// ErrFull says that the queue is longer than the engine can count. Nothing
	// was consumed.
	ErrFull = errors.New("fairlimit: the queue is full")

	// ErrUnreachable says that there was no connection to Redis. Nothing was
	// sent, so nothing was consumed.
	ErrUnreachable = errors.New("fairlimit: Redis was not reached")

	// ErrUnsupported says that the engine cannot honour an option, a quota or a
	// name.
	ErrUnsupported = errors.New("fairlimit: not supported by this engine")

	// ErrUnknownUnit says that a request names a unit that no quota counts.
	ErrUnknownUnit = errors.New("fairlimit: unknown unit")

	// ErrNotReplicated says that fewer replicas than [Config] asks for had the
	// grants when the time to wait for them was over.
	ErrNotReplicated = errors.New("fairlimit: not on enough replicas")

	// ErrNoQuota says that a limiter without a quota was asked for permits, and
	// that no quota is stored either.
	ErrNoQuota = errors.New("fairlimit: no quota")

	// ErrState says that a key holds something that the engine did not write or
	// cannot read. Nothing was granted and nothing was changed.
	ErrState = errors.New("fairlimit: the key holds no readable state (Reset clears it)")
)

// Quota is at most Permits in any window of length Per, and at most Burst of
// them at one moment; Burst 0 means Permits. The limiter has checked the fields:
// Permits ≥ 1, Per > 0, 0 ≤ Burst ≤ Permits.
type Quota struct {
	Permits int
	Per     time.Duration
	Burst   int
}

// Config is what a limiter was made with. If an engine cannot honour a part of
// it, it returns an error that matches [ErrUnsupported].
type Config struct {
	Client   redis.UniversalClient // never nil
	Name     string                // never empty
	Prefix   *string               // nil: the engine's own
	Quota    Quota                 // zero only for those who never take, see ErrNoQuota
	Extra    []Quota               // further quotas that must hold as well
	Units    []Unit                // further units, by name, for a [Counter]
	Guard    time.Duration         // how much longer every Per is to be taken, ≥ 0
	OwnGuard bool                  // no Guard was given: the engine takes its own, if it has one
	Replicas int                   // how many must have a grant before it counts, ≥ 0; see Take

	// Stored lets the quotas that are stored beside the queue take the place of
	// Quota and Extra, if there are any: see [Steerer].
	Stored bool

	// Heard, if it is not nil, is called with the news that an answer brings,
	// before the answer itself is returned. It must not call the engine.
	Heard func(*News)
}

// Builder makes the engine of one limiter. It does no I/O.
type Builder func(Config) (Engine, error)

// Request asks for N permits in one turn that starts at most MaxWait from now.
// A MaxWait of 0 means now or not at all.
type Request struct {
	N       int     // calls, 0 only with Amounts
	Amounts Amounts // of further units, see [Counter]
	MaxWait time.Duration
	Flow    *Flow // whose share it counts for, nil for nobody's; see [Sharer]

	// Cost is how many permits it counts for in that share, 0 for N: see
	// [Counter].
	Cost int
}

// InShare is how many permits a request counts for in the share of its flow.
func (r *Request) InShare() int { return cmp.Or(r.Cost, r.N) }

// Answer is what became of a request.
//
// Granted: the caller may use the permits after Wait.
//
// Refused, which is neither granted nor an error: nothing was consumed. If Wait
// is longer than the request's MaxWait, the refusal is final. If it is shorter,
// the caller may ask again after it. No later request of the same question for as
// many permits or more would go sooner, in whatever flow.
//
// Left: the request goes over the share of its flow. It may be asked again when
// the flow holds less. If Wait is not 0 the flow's ceiling has no room so soon,
// or its pause is not over: Paused is not 0 then. It may ask again after Wait.
//
// Err: this request could not be decided. The others were.
type Answer struct {
	Granted bool
	Left    bool
	Wait    time.Duration
	Comes   int64         // when Wait is over, by the server's clock: see [News.Comes]
	Paused  time.Duration // what of Wait is a pause of the queue
	Grant   Grant         // what to give back, if Granted
	Share   int           // how many permits the flow may hold ahead; 0 without a flow
	Ceiling bool          // if it is refused: by the flow's ceiling, not by the queue
	Err     error
}

// Grant names permits that were granted, in the engine's own terms.
type Grant struct {
	ID string // which queue, or which entry
	At int64  // which moment, in the engine's unit
	N  int

	Flow    string  // empty for none
	Ceiling bool    // it counts for the ceiling of its flow
	Amounts Amounts // of further units

	// Made is which question granted it. If a server has lost a part of its
	// history, Made tells whether the grant belongs to that part.
	Made string

	// Settles says that the turn was taken, and what it used: see [Counter].
	Settles bool

	// Unused says that nobody has gone with a grant that is given back. Its
	// permits are then free even if its moment has passed.
	Unused bool
}

// NoClient reports whether rdb is nil, or holds a nil pointer, which would
// panic at its first use.
func NoClient(rdb redis.UniversalClient) bool {
	v := reflect.ValueOf(rdb)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Status is the state of the limiter: see its Status.
type Status struct {
	Available int
	Queued    int
	Delay     time.Duration
	Paused    time.Duration
	Units     map[string]UnitStatus // nil without further units
}

// Engine decides. Many goroutines may call its methods at once. No method sends
// a question twice, unless an answer proved that the first had no effect. If
// the effect is open, the error matches [ErrOutcomeUnknown].
type Engine interface {
	// Queues reports whether a grant may lie in the future. A refusal by such
	// an engine is always final.
	Queues() bool

	// Fits returns an error if a request for n ≥ 1 permits could never be
	// granted, and nil otherwise. It does no I/O.
	Fits(n int) error

	// Take decides the requests in order, in one question. It answers at least
	// the first. It may leave later ones for the next call, so that one call
	// never holds up the server. Answers[i] belongs to requests[i], and
	// len(answers) ≤ len(requests). An error that matches [ErrNotReplicated]
	// comes with the answers: the caller of Take then gives back what they
	// grant.
	Take(ctx context.Context, requests []Request) (answers []Answer, err error)

	// GiveBack returns permits that their callers will not use. It is called at
	// most once for each grant. A grant that can no longer be given back is
	// left as it is, without an error. If an error does not match
	// [ErrOutcomeUnknown], none of the grants was given back.
	GiveBack(ctx context.Context, grants []Grant) error

	// Status reads the state. It writes only what the engine knows and the
	// server has lost.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted.
	Reset(ctx context.Context) error
}

// GiveBackInParts gives back many grants, at most so many in one call of
// giveBack. If a later call fails, it is open which of the grants were given
// back. So the error matches [ErrOutcomeUnknown], and nobody gives them back a
// second time.
func GiveBackInParts(grants []Grant, most int, giveBack func([]Grant) error) error {
	done := 0
	for part := range slices.Chunk(grants, most) {
		if err := giveBack(part); err != nil && done > 0 {
			return fmt.Errorf("%w: of %d grants %d were given back: %w", ErrOutcomeUnknown, len(grants), done, err)
		} else if err != nil {
			return err
		}
		done += len(part)
	}
	return nil
}
