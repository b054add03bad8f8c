package window

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Option changes what [With] builds or [Open] opens.
type Option func(*options)

type options struct {
	id        string
	perClient bool
	keepAlive time.Duration
	hasNil    bool
}

// With is [New] with options: fairlimit.WithEngine(window.With(window.PerClient(id))). An option out of range makes the limiter's construction
// fail with an error that matches [ErrInvalidArgument].
func With(opts ...Option) engine.Builder {
	return func(cfg engine.Config) (engine.Engine, error) { return build(cfg, collect(opts)) }
}

// PerClient gives each client the whole rate for itself; id names this client and must not be empty. All limiters of one name that have one id are
// one client. Redisson uses a random UUID in lower case for each of its instances.
//
// Where the rate in Redis is already there, its mode wins. If it is per client and there is no PerClient, this process is a client with a random id.
func PerClient(id string) Option {
	return func(o *options) { o.id, o.perClient = id, true }
}

// KeepAlive lets the keys expire d after the last use, which also forgets the rate. It counts in whole milliseconds and must not be shorter than the
// quota's Per. 0, the default, keeps them for ever.
func KeepAlive(d time.Duration) Option {
	return func(o *options) { o.keepAlive = d }
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
	if o.hasNil {
		return fmt.Errorf("%w: nil option", ErrInvalidArgument)
	}
	if o.perClient && o.id == "" {
		return fmt.Errorf("%w: PerClient with an empty id", ErrInvalidArgument)
	}
	return nil
}

func (o options) client() string {
	if o.perClient {
		return o.id
	}
	return thisProcess()
}

// thisProcess is a random UUID (RFC 9562, version 4), the same for the life of the process.
var thisProcess = sync.OnceValue(func() string {
	high, low := rand.Uint64()&^0xf000|0x4000, rand.Uint64()&^(3<<62)|1<<63
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
})
