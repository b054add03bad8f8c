package window

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/duration"
)

// Option changes what [With] builds or [Open] opens.
type Option func(*options)

type options struct {
	id        string
	perClient bool
	keepAlive time.Duration
	retryTick time.Duration
	hasNil    bool
}

// With is [New] with options, as in
//
//	fairlimit.WithEngine(window.With(window.PerClient(id)))
//
// If an option is out of range, the limiter's construction fails with an error
// that matches [ErrInvalidArgument].
func With(opts ...Option) engine.Builder {
	return func(cfg engine.Config) (engine.Engine, error) { return build(cfg, collect(opts)) }
}

// PerClient gives each client the whole rate for itself. The id names this
// client and must not be empty. All limiters of one name and one id are one
// client. Redisson uses a random UUID in lower case for each of its instances.
//
// If a rate is in Redis already, its mode wins. If that is per client and there
// is no PerClient, this process is a client with a random id.
func PerClient(id string) Option {
	return func(o *options) { o.id, o.perClient = id, true }
}

// KeepAlive lets the keys expire d after the last use, which forgets the rate
// as well. d is whole milliseconds and not shorter than the quota's Per. 0, the
// default, keeps them for ever.
func KeepAlive(d time.Duration) Option {
	return func(o *options) { o.keepAlive = d }
}

// RetryTick makes a refused caller ask again as late as one of Redisson's does:
// at the next tick of a timer, at least 3 ms after its permits are free. The
// timer ticks every d, and all callers of this limiter share it. See "Sharing with
// Redisson" in the package documentation. Redisson's timer ticks every 100 ms,
// unless its timeout or its retry interval is not a multiple of that.
//
// It costs d/2 + 3 ms a refusal on average. A caller whose longest wait ends
// before the tick is refused at once. d is 0 to 24 hours; 0, the default, asks
// again as soon as permits are free.
func RetryTick(d time.Duration) Option {
	return func(o *options) { o.retryTick = d }
}

func collect(opts []Option) options {
	var o options
	for _, opt := range opts {
		if opt == nil {
			o.hasNil = true
			continue
		}
		opt(&o)
	}
	return o
}

func (o options) check() error {
	switch {
	case o.hasNil:
		return fmt.Errorf("%w: nil option", ErrInvalidArgument)
	case o.perClient && o.id == "":
		return fmt.Errorf("%w: PerClient with an empty id", ErrInvalidArgument)
	case duration.Check(o.keepAlive) != nil:
		return fmt.Errorf("%w: KeepAlive is %w", ErrInvalidArgument, duration.Check(o.keepAlive))
	case duration.Check(o.retryTick) != nil:
		return fmt.Errorf("%w: RetryTick is %w", ErrInvalidArgument, duration.Check(o.retryTick))
	case o.retryTick < 0 || o.retryTick > mostTick:
		return fmt.Errorf("%w: RetryTick is %v, want 0 to %v", ErrInvalidArgument, o.retryTick, mostTick)
	}
	return nil
}

// client is the id that stands in the keys.
func (o options) client() string {
	if o.perClient {
		return o.id
	}
	return thisProcess()
}

// thisProcess is a random UUID (RFC 9562, version 4), the same for the life of
// the process.
var thisProcess = sync.OnceValue(func() string {
	high, low := rand.Uint64()&^0xf000|0x4000, rand.Uint64()&^(3<<62)|1<<63
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
})
