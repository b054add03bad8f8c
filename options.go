package fairlimit

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

// Option changes what [New] makes.
type Option func(*options) error

type options struct {
	build    engine.Builder
	prefix   *string
	maxWait  time.Duration
	extra    []engine.Quota
	guard    time.Duration
	held     *held
	fallback Fallback
	replicas int
}

func (o *options) engine(rdb redis.UniversalClient, name string, quota Quota) (engine.Engine, error) {
	if o.replicas > 0 {
		if err := canReplicate(rdb); err != nil {
			return nil, err
		}
	}
	e, err := o.build(engine.Config{
		Client: rdb, Name: name, Prefix: o.prefix, Quota: engine.Quota(quota), Extra: o.extra, Guard: o.guard, Replicas: o.replicas,
	})
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, fmt.Errorf("%w: WithEngine: the builder made no engine", ErrInvalidOption)
	case o.replicas > 0:
		return replicated{e}, nil
	}
	return e, nil
}

// WithEngine chooses who decides: fair.New, which is the default, window.New, or window.With(...).
func WithEngine(b engine.Builder) Option {
	return func(o *options) error {
		if b == nil {
			return fmt.Errorf("%w: WithEngine: nil engine", ErrInvalidOption)
		}
		o.build = b
		return nil
	}
}

// WithPrefix puts p in front of the key. The default is "fairlimit:" for fair and nothing for window; p may be empty.
func WithPrefix(p string) Option {
	return func(o *options) error {
		o.prefix = &p
		return nil
	}
}

// WithMaxWait refuses every turn that lies further than d ahead, whatever the caller's ctx allows. 0, the default, is no limit.
func WithMaxWait(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return fmt.Errorf("%w: WithMaxWait: %v is negative", ErrInvalidOption, d)
		}
		o.maxWait = engine.Forever
		if d > 0 {
			o.maxWait = d
		}
		return nil
	}
}

// WithExtraQuota adds a quota that must hold as well, such as 20 per second and 100 per 2 minutes. It may be given several times.
func WithExtraQuota(q Quota) Option {
	return func(o *options) error {
		if err := q.check(); err != nil {
			return fmt.Errorf("WithExtraQuota: %w", err)
		}
		o.extra = append(o.extra, engine.Quota(q))
		return nil
	}
}

// WithGuard lengthens Per, of every quota given, by d. A turn is on time on Redis's clock, but the call it allows reaches the upstream later by
// a delay that varies (timers, replies, the network), so calls can bunch on the way. If the spread of those delays stays under d, the upstream
// sees at most Permits in any window of length Per. It costs throughput: × Per/(Per+d). 0, the default, is no guard.
func WithGuard(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return fmt.Errorf("%w: WithGuard: %v is negative", ErrInvalidOption, d)
		}
		o.guard = d
		return nil
	}
}
