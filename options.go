package fairlimit

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/duration"
)

// Option changes the limiter that [New] makes. If its value is out of range, New
// returns an error that matches [ErrInvalidOption].
type Option func(*options)

type options struct {
	build     engine.Builder
	prefix    *string
	maxWait   time.Duration
	extra     []engine.Quota
	guard     time.Duration
	guarded   bool // WithGuard was given
	maxQueued int
	fallback  Fallback
	retry     bool
	replicas  int
	stored    bool
	trace     *Trace

	flow      *flowOption // nil without one
	flowQuota *Quota      // its ceiling, nil for none
	lookAhead int         // 0: the engine chooses

	pauseWithin time.Duration
	maxLateness *time.Duration // nil: see lateness
	steers      bool           // one of the two asks for what only a queue can do

	err error // the first that an option met
}

// collect applies the options over the defaults.
func collect(opts []Option) (*options, error) {
	o := &options{build: fair.New, maxWait: engine.Forever, pauseWithin: defaultPauseWithin}
	for _, opt := range opts {
		if opt == nil {
			o.refuse("nil option")
			break
		}
		opt(o)
	}
	if o.flowQuota != nil && o.flow == nil {
		o.refuse("WithFlowQuota without WithFlow has no effect")
	}
	if o.retry && o.fallback != nil {
		o.refuse("WithRetry and WithFallback: callers either wait for Redis or go elsewhere")
	}
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

// WithMaxWait refuses every turn that lies further than d ahead, even if the
// caller's ctx allows it. 0, the default, means no limit.
func WithMaxWait(d time.Duration) Option {
	return func(o *options) {
		o.length("WithMaxWait", d)
		o.maxWait = engine.Forever
		if d > 0 {
			o.maxWait = d
		}
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

// WithGuard lengthens the Per of every quota by d. The default is 50 ms, or a
// twentieth of the shortest Per if that is less. It costs at most one permit in
// 21. 0 means no guard. The engine window has none.
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
// The window of a Burst, Per × Burst ÷ Permits, is lengthened only in
// proportion. If the upstream counts bursts as well, add a quota for them with
// [WithExtraQuota].
func WithGuard(d time.Duration) Option {
	return func(o *options) {
		o.length("WithGuard", d)
		o.guard, o.guarded = d, true
	}
}
