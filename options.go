package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

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
	trace     *Trace // never nil

	units      []engine.Unit // by name, once all options are known
	unitGuards map[string]time.Duration

	flow      string // its id, empty without one
	weight    int
	flowQuota *Quota // its ceiling, nil for none
	lookAhead int    // 0: the engine chooses

	pauseWithin time.Duration
	maxLateness *time.Duration // nil: see lateness
	steers      bool           // one of the two asks for what only a queue can do

	err error // the first that an option met
}

// collect applies the options over the defaults.
func collect(opts []Option) (*options, error) {
	o := &options{build: fair.New, maxWait: engine.Forever, pauseWithin: defaultPauseWithin, trace: &Trace{}}
	for _, opt := range opts {
		if opt == nil {
			o.refuse("nil option")
			break
		}
		opt(o)
	}
	if o.flowQuota != nil && o.flow == "" {
		o.refuse("WithFlowQuota without WithFlow has no effect")
	}
	if o.retry && o.fallback != nil {
		o.refuse("WithRetry and WithFallback: callers either wait for Redis or go elsewhere")
	}
	o.finishUnits()
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

const mostReplicas = 1000

// WithReplicas lets a turn count only once n replicas have it. They are replicas
// of the Redis that holds the key, and n is 1 to 1000. Without this option, a
// failover to a replica that lagged behind forgets the newest turns, and as many
// can be granted again.
//
// The script and WAIT go out in one pipeline on one connection. WAIT waits for
// half a second, or half of the client's ReadTimeout if that is less. If fewer
// than n replicas have the turns by then, nobody goes: the callers that were
// granted turns get [ErrNotReplicated], and their permits are given back at
// once. Refusals write nothing, and remain refusals. From then on fair waits for n
// replicas before it asks for a turn, and all callers get that error until they are
// there.
//
// It costs one more command in the same round trip, and the delay of
// replication: a turn that is due at once comes later by that, which the guard
// has to cover. Status, Reset and returned permits do not wait for replicas. A
// turn is safe if every replica has it, or if the most advanced replica is
// promoted, as Sentinel and Cluster attempt.
//
// The client has to be a *redis.Client (also one under Sentinel), a
// *redis.ClusterClient or a *redis.Ring. For any other client the error of [New]
// matches [ErrUnsupported]. An ACL has to allow WAIT.
func WithReplicas(n int) Option {
	return func(o *options) {
		if n < 1 || n > mostReplicas {
			o.refuse("WithReplicas: %d, want 1 to %d", n, mostReplicas)
		}
		o.replicas = n
	}
}

// canReplicate tells apart the clients whose one connection to the one server
// of a key can be had.
func (o *options) canReplicate(rdb redis.UniversalClient) error {
	if o.replicas == 0 {
		return nil
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient, *redis.Ring:
		return nil
	}
	return fmt.Errorf("%w: WithReplicas with a %T", ErrUnsupported, rdb)
}

// replicated gives back what was granted and is not on enough replicas, before
// anybody learns of it.
type replicated struct{ engine.Engine }

func (r replicated) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := r.Engine.Take(ctx, requests)
	if !errors.Is(err, ErrNotReplicated) || len(answers) == 0 {
		return answers, err
	}
	var grants []engine.Grant
	for _, a := range answers {
		if a.Granted {
			a.Grant.Unused = true
			grants = append(grants, a.Grant)
		}
	}
	if len(grants) == 0 {
		return answers, nil
	}
	what := fmt.Errorf("%w; the permits were given back", err)
	if problem := r.GiveBack(ctx, grants); problem != nil {
		what = fmt.Errorf("%w; the permits pass unused, as giving them back failed: %v", err, problem)
	}
	for i := range answers {
		if answers[i].Granted {
			answers[i] = engine.Answer{Err: what}
		}
	}
	return answers, nil
}
