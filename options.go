package fairlimit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/duration"
)

// Option changes the limiter that [New] makes. If its value is out of range, New
// returns an error that matches [ErrInvalidOption].
type Option func(*options)

type options struct {
	build   engine.Builder
	prefix  *string
	maxWait time.Duration // 0: any
	extra   []engine.Quota
	units   []engine.Unit  // by name, once all options are known
	guard   *time.Duration // nil: the engine's own
	flow    string         // its id, empty without one
	weight  int
	retry   bool
	stored  bool
	trace   *Trace // never nil

	err error // the first that an option met
}

// collect applies the options over the defaults.
func collect(opts []Option) (*options, error) {
	o := &options{build: fair.New, trace: &Trace{}}
	for _, opt := range opts {
		if opt == nil {
			o.refuse("nil option")
			break
		}
		opt(o)
	}
	slices.SortFunc(o.units, func(a, b engine.Unit) int { return strings.Compare(a.Name, b.Name) })
	return o, o.err
}

// refuse makes New fail with an error that matches [ErrInvalidOption].
func (o *options) refuse(format string, args ...any) {
	o.fail(fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(format, args...)))
}

func (o *options) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// length refuses a duration below 0, or one whose unit was forgotten.
func (o *options) length(option string, d time.Duration) {
	if d < 0 {
		o.refuse("%s: %v is negative", option, d)
	} else if err := duration.Check(d); err != nil {
		o.refuse("%s: %v", option, err)
	}
}

// WithEngine chooses the engine that decides: fair.New, which is the default,
// window.New, or window.With(...).
func WithEngine(b engine.Builder) Option {
	return func(o *options) {
		if b == nil {
			o.refuse("WithEngine: nil engine")
		}
		o.build = b
	}
}

// WithPrefix puts p in front of the key. The default is "fairlimit:" for fair,
// and nothing for window. P may be empty.
func WithPrefix(p string) Option {
	return func(o *options) { o.prefix = &p }
}

// WithMaxWait refuses every turn that comes later than d after the call, even if
// the caller's ctx allows it. 0, the default, means no limit.
func WithMaxWait(d time.Duration) Option {
	return func(o *options) {
		o.length("WithMaxWait", d)
		o.maxWait = d
	}
}

// WithExtraQuota adds a quota that must hold as well, such as 20 per second and
// 100 per 2 minutes. It may be given several times.
func WithExtraQuota(q Quota) Option {
	return func(o *options) {
		if err := q.checkOf("WithExtraQuota: "); err != nil {
			o.fail(err)
		}
		o.extra = append(o.extra, engine.Quota(q))
	}
}

// WithGuard lengthens the Per of every quota by d. The default is a twentieth of
// the shortest Per, 250 ms at most. It costs at most one permit in 21. The engine
// window has none.
//
// A turn is on time on Redis's clock. The call that it allows reaches the
// upstream later, by a delay that varies: timers, replies, the network. So calls
// can bunch on the way. If these delays differ by at most d, the upstream sees
// at most Permits in any window of length Per. The price is throughput: it
// becomes Per/(Per+d) of what it was.
//
// A guard may be longer than Per: one permit every 20 ms, with a guard of 60 ms,
// becomes one every 80 ms.
//
// A caller that wakes more than d/2 after its turn, and more than a millisecond,
// does not go: the other half is for the way to the upstream. It gives the turn back
// and asks again, first in the line of its Limiter. After ten such turns in a row it
// gets [ErrMissed]. On a busy machine callers can be late by some milliseconds: with
// a Per below 100 ms give a guard of your own. With a guard of 0 every turn is taken,
// however late.
//
// The window of a Burst, Per × Burst ÷ Permits, is lengthened only in
// proportion. If the upstream counts bursts as well, add a quota for them with
// [WithExtraQuota].
func WithGuard(d time.Duration) Option {
	return func(o *options) {
		o.length("WithGuard", d)
		o.guard = &d
	}
}

// WithStoredQuota makes the limiter use the quotas that [Queue.SetQuotas] has
// stored, in place of its own. They lie beside the queue, in the key
// <prefix>{name}:quota. If none are stored, its own quotas hold, also after Redis
// has lost them. Redis runs one GET more for each question. After a change each
// process sends one question more.
//
// The key holds text that a person can read and write: "20/1s 100/2m burst 10";
// see [Quota.String]. If the text is not a quota, nobody goes: the error matches
// [ErrState]. The quotas of units stand behind semicolons: "60/1m; tokens
// 20000/1m". Those of [WithUnit] hold for units that the text does not name.
func WithStoredQuota() Option {
	return func(o *options) { o.stored = true }
}

// WithRetry makes callers wait while Redis is away, instead of failing. Wait,
// WaitN, [Reservation.Wait] and ReserveN stay in line, in order, until their ctx
// ends or [WithMaxWait] is over. A caller that has neither waits for as long as it
// takes.
//
// Redis is away if it cannot be reached, if it does not answer, if the
// connection breaks, or if it says LOADING, READONLY, MASTERDOWN, CLUSTERDOWN
// or TRYAGAIN. Every other error is returned at once, such as [ErrState],
// [ErrFull], NOPERM, a certificate that is not trusted, and a client that was
// closed. Allow and AllowN do not wait for Redis to come back. Status, Reset,
// Pause, SetQuotas and Cancel are sent once.
//
// The limiter asks for all its callers together, after 50 ms first, then after
// twice as long each time, up to 1 s. It reads the status first, which consumes
// nothing, and asks for turns once that is answered.
//
// If the caller's time is over while Redis is away, the error matches the ctx's
// error (for WithMaxWait, context.DeadlineExceeded) and the failure, such as
// [ErrUnreachable]. It is not a [*RefusedError]. If it matches
// [ErrOutcomeUnknown], permits may have been consumed.
//
// The price: if an answer is lost, what it granted passes unused, and its
// callers take later turns. No permit is used twice. Go-redis logs that it cannot
// connect: see redis.SetLogger.
func WithRetry() Option {
	return func(o *options) { o.retry = true }
}
