package window

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/timeout"
	"github.com/fairlimit/fairlimit/lua"
)

// mostHeld is how many permits can be held at once, since no rate is higher. The
// scripts count exactly up to it. A number near 2⁶³ comes back negative.
const mostHeld = 1 << 53

// Admin sets up and looks after one limiter as Redisson's RRateLimiter does.
// Make one with [Open]; the zero value is of no use. Its methods may be called
// by many goroutines at once. Each is one script run, which is sent once.
//
// Every method returns when ctx ends, whatever the client's timeouts are, and
// after five seconds at the latest.
//
// Errors match [ErrInvalidArgument], [ErrNotInitialized], [engine.ErrState] if
// a key holds what cannot be read, and [engine.ErrOutcomeUnknown] if the answer
// did not arrive. If ctx has ended, they match ctx's error as well. Their texts
// name the limiter.
type Admin struct {
	place
	name string
}

// Open returns the administration of the limiter of this name. It does no I/O.
// The name is the whole key: if a limiter has a prefix, that is part of it.
// With [PerClient] it sees that client's permits if the rate is per client. No
// other option is for Open.
//
// Errors match [ErrInvalidArgument], or [engine.ErrUnsupported] for a name whose
// keys would not share a hash slot on a Cluster or Ring.
func Open(rdb redis.UniversalClient, name string, opts ...Option) (*Admin, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: empty name", ErrInvalidArgument)
	}
	a, err := open(rdb, name, collect(opts))
	return a, naming.Of(name, err)
}

func open(rdb redis.UniversalClient, name string, o options) (*Admin, error) {
	switch {
	case engine.IsNil(rdb):
		return nil, fmt.Errorf("%w: no client", ErrInvalidArgument)
	case o.keepAlive != 0 || o.retryTick != 0:
		return nil, fmt.Errorf("%w: KeepAlive and RetryTick are not for Open", ErrInvalidArgument)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	k, err := keysOf(rdb, name, o.client())
	if err != nil {
		return nil, err
	}
	return &Admin{place{rdb, k}, name}, nil
}

// TrySetRate writes the rate if there is none, and reports whether it did. Old
// versions of Redisson did not write the keepAliveTime. If there is only such a
// part of a rate, TrySetRate adds what is missing, leaves the rest, and reports
// whether the mode was missing.
func (a *Admin) TrySetRate(ctx context.Context, rate Rate) (bool, error) {
	return a.write(ctx, "try", rate)
}

// SetRate writes the rate, whatever there was. It forgets the grants to all
// together and those to this client. If the rate is per client, grants to other
// clients stay and count.
func (a *Admin) SetRate(ctx context.Context, rate Rate) error {
	_, err := a.write(ctx, "set", rate)
	return err
}

// UpdateRate changes the rate and reports whether there was one to change. If
// there was none, it writes nothing.
//
// Without keepState it does what [Admin.SetRate] does. With keepState the
// grants of the last rate.Per still count. After a change to fewer Permits than
// they hold, nobody is granted anything until enough of them have left the
// window. A longer Per cannot know of grants that had left the shorter one. A
// change of Mode forgets all grants. It takes about 0.2 ms of the server's time
// for each thousand grants that are kept.
//
// Callers that sleep do not hear of the change before they ask again.
func (a *Admin) UpdateRate(ctx context.Context, rate Rate, keepState bool) (bool, error) {
	if keepState {
		return a.write(ctx, "keep", rate)
	}
	return a.write(ctx, "update", rate)
}

// write decodes what the script returns for the rate.
func (a *Admin) write(ctx context.Context, op string, rate Rate) (done bool, err error) {
	defer a.named(&err)
	if err := rate.check(); err != nil {
		return false, err
	}
	args := append([]any{op}, rate.words()...)
	return happened(a.run(ctx, ruleScript, args...))
}

// Config returns the rate. Without one the error matches [ErrNotInitialized].
func (a *Admin) Config(ctx context.Context) (Rate, error) {
	s, err := a.read(ctx)
	return s.rate, err
}

// AvailablePermits returns how many permits could be taken now, at least 0. It
// changes nothing. Without a rate the error matches [ErrNotInitialized].
func (a *Admin) AvailablePermits(ctx context.Context) (int, error) {
	s, err := a.read(ctx)
	return s.left, err
}

func (a *Admin) read(ctx context.Context) (s state, err error) {
	defer a.named(&err)
	numbers, err := a.run(ctx, readScript, "", "", "")
	if s, err = stateOf(numbers, engine.News{}, err); err == nil && !s.found {
		err = ErrNotInitialized
	}
	return s, err
}

// Release gives back n permits that were taken and not used, whoever took them.
// It takes them out of the oldest grants in the set. If fewer are there, the
// rest is ignored; an n of 0 does nothing.
//
// Release a permit within Per of taking it. Then no window gets more than the
// rate. A later release frees nobody else's permits until somebody's question has
// removed the grants that have left the window. After that it does, and the
// window of those permits may get n too many: nothing in Redis tells then whose
// they are.
//
// Callers that sleep do not hear of it. It takes the server about 1 ms for each
// thousand grants. If n is below 0, the error matches [ErrInvalidArgument].
// Without a rate it matches [ErrNotInitialized], unless n is 0.
func (a *Admin) Release(ctx context.Context, n int) (err error) {
	defer a.named(&err)
	switch {
	case n < 0:
		return fmt.Errorf("%w: %d permits to release, want at least 0", ErrInvalidArgument, n)
	case n == 0:
		return nil
	}
	done, err := a.run(ctx, releaseScript, min(int64(n), mostHeld))
	if err == nil && done[0] < 0 {
		err = ErrNotInitialized
	}
	return err
}

// Delete deletes the rate and the grants, to all together and to this client,
// and reports whether there was anything.
func (a *Admin) Delete(ctx context.Context) (found bool, err error) {
	defer a.named(&err)
	return happened(a.run(ctx, forgetScript, ""))
}

// run is that of the place, which ends in time.
func (a *Admin) run(ctx context.Context, script *lua.Script, args ...any) ([]int64, error) {
	if ctx == nil {
		return nil, fmt.Errorf("%w: nil ctx", ErrInvalidArgument)
	}
	if ctx.Err() != nil {
		return nil, ctxerr.Ended(ctx, "nothing was sent")
	}
	return timeout.Call(ctx, timeout.Of(a.client), func(ctx context.Context) ([]int64, error) {
		numbers, _, err := a.place.run(ctx, script, args...)
		return numbers, err
	})
}

// happened tells whether there was anything.
func happened(numbers []int64, err error) (bool, error) { return err == nil && numbers[0] > 0, err }

// named says in the error of a method whose it is.
func (a *Admin) named(err *error) { *err = naming.Of(a.name, *err) }
