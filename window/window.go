// Package window is the sliding-window limiter that Redisson's RRateLimiter keeps in Redis: as an engine for a limiter, and its administration.
// It reads and writes Redisson's keys, so Go and Java processes can share one limiter, whoever set it up, and while both run.
//
// At most Permits in any window of length Per, however it is placed in time; for every other quota, and for order, use package fair. There is no
// queue here: a refused caller sleeps until as many permits are free as it asked for and asks again, together with all others who do.
//
// # Who decides the rate
//
// The rate lives in Redis. An engine writes its quota there if there is none yet, as trySetRate does; a rate that is already there wins, even if
// it is another. To change it, use [Open] and [Admin.SetRate] or [Admin.UpdateRate].
//
// # What is strict
//
// The clock is the Redis server's. Grants are stored in whole milliseconds, rounded up, and count for at least Per from the microsecond in which
// they were made. The set of grants decides, and the number of permits left beside it is only kept up for Redisson's sake. So permits that an
// older Redisson releases without removing them from the set are not free for us until they have left the window. Three limits:
//
//   - Redisson uses the clock of its own machine. A Java process whose clock is behind has its grants forgotten early, and one whose clock is
//     ahead forgets those of others early: strict only as far as the Java side's clocks are right. A grant dated in the future counts as now.
//   - Where more than 1000 grants of several permits each are in one window, they are not added up each time. If Redisson lowers the rate then
//     and keeps the state, what it writes as left is believed, and for one window it may be too much.
//   - Where a caller has to wait for more than 1000 grants to leave, it is told to wait for the first 1000, and asks again.
//
// # Cost
//
// One script run a question, with up to 128 requests; typically under half a millisecond of the server's time, of which 0.2 ms are for counting 1000
// grants. Each 1000 grants that have left the window since the last question cost one more run.
package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	mostAtOnce  = 128                        // requests and grants in one run of a script
	longest     = 100 * 365 * 24 * time.Hour // Per and keep-alive; lua/window.lua counts on it
	mostPermits = int64(math.MaxUint32)      // what a grant can hold
)

type window struct {
	client redis.UniversalClient
	take   *lua.Script
	keys   keys
	rate   Rate
	ticker ticker
}

var (
	_ engine.Engine  = (*window)(nil)
	_ engine.Builder = New
)

// New builds the engine for one limiter; it is an [engine.Builder]. All processes together share the quota; see [With] for other ways.
//
// The keys are those that Redisson uses for a limiter of this name. There is no prefix unless the limiter is given one.
//
// Errors match [engine.ErrUnsupported]: a Burst other than Permits, further quotas, a guard, a Per that is not whole milliseconds or over 100 years,
// more than 2³²−1 Permits, and on a Cluster or Ring a name whose keys would not share a hash slot.
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
	name := cfg.Name
	if cfg.Prefix != nil {
		name = *cfg.Prefix + name
	}
	k, err := keysOf(cfg.Client, name, o.client())
	if err != nil {
		return nil, err
	}
	return &window{
		client: cfg.Client,
		take:   takeScript.Confirmed(cfg.Replicas),
		keys:   k,
		rate:   rate,
		ticker: newTicker(o.retryTick),
	}, nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", engine.ErrUnsupported, fmt.Sprintf(format, args...))
}

func (w *window) Queues() bool { return false }

// Fits knows only what a grant can hold: the rate in Redis may be another than the quota's. Take knows it.
func (w *window) Fits(n int) error {
	if int64(n) > mostPermits {
		return fmt.Errorf("%w: %d asked for, at most %d can be stored", engine.ErrExceedsQuota, n, mostPermits)
	}
	return nil
}

func (w *window) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	requests = requests[:min(len(requests), mostAtOnce)]
	args := append(make([]any, 0, 4+len(requests)), w.rate.words()...)
	grants := make([]string, 0, len(requests))
	for _, r := range requests {
		grants = append(grants, newGrant(r.N))
		args = append(args, grants[len(grants)-1])
	}
	for {
		reply, err := run(ctx, w.take, w.client, w.keys[:], args...)
		if err != nil && !errors.Is(err, engine.ErrNotReplicated) {
			return nil, err
		}
		answers, again, problem := answers(reply, requests, grants)
		if !again {
			return w.late(answers), cmp.Or(problem, err)
		}
	}
}

// late puts off what refused callers wait for, to the next tick.
func (w *window) late(answers []engine.Answer) []engine.Answer {
	now := time.Now()
	for i := range answers {
		if a := &answers[i]; a.Wait > 0 {
			a.Wait = w.ticker.delay(a.Wait, now)
		}
	}
	return answers
}

func (w *window) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return engine.GiveBackInParts(grants, mostAtOnce, func(part []engine.Grant) error {
		args := make([]any, 0, len(part))
		for _, g := range part {
			args = append(args, g.ID)
		}
		for {
			reply, err := run(ctx, backScript, w.client, w.keys[:], args...)
			if err != nil {
				return err
			}
			if found, err := number(reply); err != nil || found >= 0 {
				return err
			}
		}
	})
}

// Status assumes the limiter's own quota where there is no rate in Redis yet.
func (w *window) Status(ctx context.Context) (engine.Status, error) {
	s, _, err := read(ctx, w.client, w.keys, w.rate.words()[:3])
	return engine.Status{Available: s.left, Delay: s.delay}, err
}

// Reset leaves the rate as it is, if it is one, so that a peer that did not ask for the reset can go on. It forgets the grants to all together and, with per-client
// rates, those to this client.
func (w *window) Reset(ctx context.Context) error {
	_, err := run(ctx, forgetScript, w.client, w.keys[:], "keep")
	return err
}
