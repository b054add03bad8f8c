// Package engine is the contract between a limiter and the engine that decides
// for it.
//
// An engine answers questions. It does not wait, does not combine callers and
// starts no goroutines: the limiter in front does that for every engine. To add
// an engine, write a [Builder] and its scripts under lua, and run package
// enginetest on it.
package engine

import (
	"context"
	"math"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Forever is the MaxWait of a request that accepts any turn.
	Forever time.Duration = math.MaxInt64

	// MostRequests is how many requests, or returns, one question has at most.
	MostRequests = 256

	// Within is how long it takes at most until everybody who sleeps has heard of
	// a pause, a resume, a reset or a requeue.
	Within = time.Second
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
	Client redis.UniversalClient // never nil
	Name   string                // never empty
	Prefix *string               // nil: the engine's own
	Quota  Quota                 // zero only for those who never take, see [ErrNoQuota]
	Extra  []Quota               // further quotas that must hold as well
	Units  []Unit                // what is counted besides calls, by name
	Guard  *time.Duration        // how much longer every Per is taken; nil: the engine's own
	Stored bool                  // stored quotas take the place of Quota and Extra: see [Queue]
}

// Builder makes the engine of one limiter. It does no I/O.
type Builder func(Config) (Engine, error)

// Request asks for permits in one turn that comes at most MaxWait from now. A
// MaxWait of 0 means now or not at all.
type Request struct {
	N       int     // calls, 0 only with Amounts
	Amounts Amounts // of further units
	MaxWait time.Duration
	WasVoid bool // its turn was made void by a requeue: it goes before others
}

// Verdict is what became of a request.
type Verdict int

const (
	Refused Verdict = iota // the turn would come later than MaxWait; nothing was consumed
	Granted
	NotYet // the request may be asked again after Wait, and nobody behind it goes before
)

// Answer is what became of a request. If Err is not nil, this request could not
// be decided, and the others were.
type Answer struct {
	Verdict Verdict
	Wait    time.Duration // from the arrival of the answer until the turn, or until it may ask again
	Turn    Turn          // what was granted
	Err     error
}

// Turn is permission to use permits from its slot on.
type Turn struct {
	Queue   int64   // the id of the queue that granted it
	Slot    int64   // a label on the queue's clock, in microseconds
	Entry   string  // how an engine without a queue names it
	N       int     // calls
	Amounts Amounts // of further units
}

// Return says how much of a turn counts no more. Below 0 it is a debt: the turn
// used more than it had.
type Return struct {
	Turn    Turn
	N       int
	Amounts Amounts
}

// IsAll reports whether nothing of the turn counts any more.
func (r *Return) IsAll() bool { return r.N == r.Turn.N && r.Amounts == r.Turn.Amounts }

// Status is the state of the limiter: see its Status.
type Status struct {
	Available int
	Queued    int
	Delay     time.Duration
	Paused    time.Duration
	Units     map[string]UnitStatus // nil without further units
}

// UnitStatus is the state of one further unit.
type UnitStatus struct {
	Available int // how much a turn could take right now without waiting
	Queued    int // how much is granted for the future
}

// Engine decides. Many goroutines may call its methods at once. No method sends
// a question twice, unless an answer proved that the first had no effect. If the
// effect is open, the error matches [ErrOutcomeUnknown].
type Engine interface {
	// Fits returns an error if such a request could never be granted. An engine
	// whose quotas may have changed in Redis says so in the answer instead. It
	// does no I/O.
	Fits(n int, amounts Amounts) error

	// Take decides at most [MostRequests] requests in order, in one question.
	Take(ctx context.Context, requests []Request) ([]Answer, News, error)

	// GiveBack takes back what turns do not use, at most [MostRequests]. What can
	// no longer be given back is left as it is, without an error.
	GiveBack(ctx context.Context, returns []Return) error

	// Status reads the state. It writes nothing.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted.
	Reset(ctx context.Context) (News, error)
}

// Queue is an [Engine] that grants turns ahead. A turn comes when the queue's
// clock shows its slot.
type Queue interface {
	Engine

	// Look reads the news. It costs less than any other question.
	Look(ctx context.Context) (News, error)

	// Pause lets the queue's clock stand still for d from now, or for longer if
	// it does already. Resume ends that.
	Pause(ctx context.Context, d time.Duration) (News, error)
	Resume(ctx context.Context) (News, error)

	// Requeue makes all turns void except those that are due [Within] now. What has
	// gone stays counted.
	Requeue(ctx context.Context) (News, error)

	// Quotas reads the quotas that hold, and whether they are stored.
	Quotas(ctx context.Context) (quotas []Quota, stored bool, err error)

	// SetQuotas stores quotas, or forgets them if there are none. If that changes
	// what is stored, it is a Requeue as well.
	SetQuotas(ctx context.Context, quotas []Quota) (News, error)

	// LearnQuotas is SetQuotas for one caller in each stretch of that length, over
	// all limiters of the name. For others it does nothing, and tells no news.
	LearnQuotas(ctx context.Context, quotas []Quota, every time.Duration) (News, error)

	// Flow is this engine for the callers of a flow: any text, and a weight of at
	// least 1.
	Flow(id string, weight int) Queue

	// Units are the further units, as far as they are known. It does no I/O.
	Units() []string
}

// News is what an answer says of the queue as a whole. Engines that keep no queue
// set Sent and Arrived alone.
type News struct {
	Sent, Arrived time.Time // when the question went, and when the answer came

	Queue    int64         // its id, 0 if there is none: turns come as they were told
	Void     int64         // turns of an older Queue with a Slot after Void are void; 0: none are
	Offset   int64         // the server's time less the queue's clock, in microseconds
	Now      int64         // the server's time at the answer, in microseconds
	Paused   time.Duration // how much longer the clock stands still
	Guard    time.Duration // by how much the windows of this limiter are longer than its quotas
	Restored bool          // what the server had lost counts again
}

// Comes is when a slot comes by this process's clock. It is late by the time that
// the answer took on its way, and never early.
func (n *News) Comes(slot int64) time.Time {
	return n.Arrived.Add(time.Duration(slot+n.Offset-n.Now) * time.Microsecond)
}

// Stands reports whether a turn was not made void.
func (n *News) Stands(t Turn) bool { return n.Void == 0 || t.Queue >= n.Queue || t.Slot <= n.Void }

// IsNil reports whether x is nil, or holds a nil pointer, which would panic at its
// first use.
func IsNil(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
