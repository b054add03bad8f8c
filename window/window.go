package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	mostAtOnce  = 128                        // requests and grants in one run of a script
	longest     = 100 * 365 * 24 * time.Hour // Per and keep-alive; LONGEST in lua/window
	mostPermits = int64(math.MaxUint32)      // what a grant can hold
)

// window is the engine of one limiter.
type window struct {
	place
	take   *lua.Script
	rate   Rate
	ticker ticker
}

var (
	_ engine.Engine  = (*window)(nil)
	_ engine.Builder = New
)

// New builds the engine of one limiter. It is an [engine.Builder] and does no
// I/O. All processes together share the quota; see [With] for other ways.
//
// The keys are those that Redisson uses for a limiter of this name. There is no
// prefix unless the limiter is given one.
//
// Errors match [engine.ErrUnsupported]. They come for a Burst other than
// Permits, further or stored quotas, units, a guard, a Per over 100 years or not
// of whole milliseconds, and more than 2³²−1 Permits. On a Cluster or Ring they
// also come for a name whose keys would not share a hash slot.
func New(cfg engine.Config) (engine.Engine, error) {
	return build(cfg, options{})
}

func build(cfg engine.Config, o options) (engine.Engine, error) {
	switch q := cfg.Quota; {
	case q.Burst != 0 && q.Burst != q.Permits:
		return nil, unsupported("Burst is %d, want 0 or Permits, which is %d: window has no bursts", q.Burst, q.Permits)
	case len(cfg.Extra) > 0:
		return nil, unsupported("window holds one quota, not %d further ones", len(cfg.Extra))
	case cfg.Guard != 0:
		return nil, unsupported("window has no guard")
	case len(cfg.Units) > 0:
		return nil, unsupported("window counts calls only, not %d further units", len(cfg.Units))
	case cfg.Stored:
		return nil, unsupported("window has no stored quotas but its rate")
	case q.Per < time.Millisecond:
		return nil, unsupported("Per is %v, want at least a millisecond", q.Per)
	case q.Per%time.Millisecond != 0:
		return nil, unsupported("Per is %v, want whole milliseconds", q.Per)
	case q.Per > longest:
		return nil, unsupported("Per is %v, want at most %v", q.Per, longest)
	case int64(q.Permits) > mostPermits:
		return nil, unsupported("Permits is %d, want at most %d", q.Permits, mostPermits)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	rate := Rate{Permits: cfg.Quota.Permits, Per: cfg.Quota.Per, KeepAlive: o.keepAlive}
	if o.perClient {
		rate.Mode = ModePerClient
	}
	if err := rate.check(); err != nil {
		return nil, err
	}
	name, called := cfg.Name, ""
	if cfg.Prefix != nil && *cfg.Prefix != "" {
		name = *cfg.Prefix + name
		called = name
	}
	k, err := keysOf(cfg.Client, name, o.client())
	if err != nil {
		return nil, err
	}
	return &window{
		place:  place{client: cfg.Client, keys: k, called: called},
		take:   takeScript.Confirmed(cfg.Replicas),
		rate:   rate,
		ticker: newTicker(o.retryTick),
	}, nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", engine.ErrUnsupported, fmt.Sprintf(format, args...))
}

// Queues is false: a grant is for now.
func (w *window) Queues() bool { return false }

// Fits knows what a grant can hold. Take knows the rate, which is in Redis and
// may be another than the quota.
func (w *window) Fits(n int) error {
	if int64(n) > mostPermits {
		return fmt.Errorf("%w: %d asked for, at most %d can be stored", engine.ErrExceedsQuota, n, mostPermits)
	}
	return nil
}

// Take asks again as long as grants that have left the window are in the way.
func (w *window) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	requests = requests[:min(len(requests), mostAtOnce)]
	args := append(make([]any, 0, 4+len(requests)), w.rate.words()...)
	grants := make([]string, 0, len(requests))
	for _, r := range requests {
		grants = append(grants, newGrant(r.N))
		args = append(args, grants[len(grants)-1])
	}
	for {
		reply, err := w.run(ctx, w.take, args...)
		if err != nil && !errors.Is(err, engine.ErrNotReplicated) {
			return nil, err
		}
		answers, again, problem := answers(reply, requests, grants)
		if !again {
			return w.late(answers), cmp.Or(problem, err)
		}
	}
}

// late puts the retries of refused callers off to the next tick.
func (w *window) late(answers []engine.Answer) []engine.Answer {
	if w.ticker.every == 0 {
		return answers
	}
	now := time.Now()
	for i := range answers {
		if a := &answers[i]; a.Wait > 0 {
			a.Wait = w.ticker.delay(a.Wait, now)
		}
	}
	return answers
}

// GiveBack leaves a grant as it is that has left the window, or of which
// somebody has released a part.
func (w *window) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return engine.GiveBackInParts(grants, mostAtOnce, func(part []engine.Grant) error {
		args := make([]any, 0, len(part))
		for _, g := range part {
			args = append(args, g.ID)
		}
		reply, err := w.run(ctx, backScript, args...)
		if err != nil {
			return err
		}
		_, err = number(reply)
		return err
	})
}

// Status assumes the limiter's own quota if there is no rate in Redis yet. Its
// Delay is until a permit is free, without what [RetryTick] adds. If more than
// 1000 grants are held and more than 1000 have left the window since the last
// question, each 1000 of the latter cost one more run.
func (w *window) Status(ctx context.Context) (engine.Status, error) {
	ask := func(args ...any) (any, error) { return w.run(ctx, readScript, args...) }
	s, _, err := read(ask, w.rate.words()[:3])
	return engine.Status{Available: s.left, Delay: s.delay}, err
}

// Reset forgets the grants to all together and those to this client. It leaves
// the rate, if it can be read, so that a peer that did not ask for the reset
// can go on.
func (w *window) Reset(ctx context.Context) error {
	_, err := w.run(ctx, forgetScript, "keep")
	return err
}
