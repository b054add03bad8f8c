package window

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	longest     = 100 * 365 * 24 * time.Hour // Per and keep-alive; LONGEST in lua/window
	mostPermits = int64(math.MaxUint32)      // what a grant can hold
)

// window is the engine of one limiter.
type window struct {
	place
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
	rate := Rate{Permits: cfg.Quota.Permits, Per: cfg.Quota.Per, KeepAlive: o.keepAlive}
	if o.perClient {
		rate.Mode = ModePerClient
	}
	switch q, wrong := cfg.Quota, rate.wrong(); {
	case wrong != "":
		return nil, unsupported("%s", wrong)
	case q.Burst != 0 && q.Burst != q.Permits:
		return nil, unsupported("Burst is %d, want 0 or Permits, which is %d: window has no bursts", q.Burst, q.Permits)
	case len(cfg.Extra) > 0:
		return nil, unsupported("window holds one quota, not %d further ones", len(cfg.Extra))
	case cfg.Guard != nil && *cfg.Guard != 0:
		return nil, unsupported("window has no guard")
	case len(cfg.Units) > 0:
		return nil, unsupported("window counts calls only, not %d further units", len(cfg.Units))
	case cfg.Stored:
		return nil, unsupported("window has no stored quotas but its rate")
	}
	if err := o.check(); err != nil {
		return nil, err
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
	return &window{place{cfg.Client, k}, rate, ticker{time.Now(), o.retryTick}}, nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", engine.ErrUnsupported, fmt.Sprintf(format, args...))
}

// Fits knows what a grant can hold. Take knows the rate, which is in Redis and
// may be another than the quota.
func (w *window) Fits(n int, amounts engine.Amounts) error {
	switch {
	case amounts != "":
		return unsupported("window counts calls only, not %s", amounts)
	case int64(n) > mostPermits:
		return fmt.Errorf("%w: %d asked for, at most %d can be stored", engine.ErrExceedsQuota, n, mostPermits)
	}
	return nil
}

func (w *window) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	args := append(make([]any, 0, 4+len(requests)), w.rate.words()...)
	grants := make([]string, len(requests))
	for i, r := range requests {
		if err := w.Fits(r.N, r.Amounts); err != nil {
			return nil, engine.News{}, err
		}
		grants[i] = newGrant(r.N)
		args = append(args, grants[i])
	}
	numbers, news, err := w.run(ctx, takeScript, args...)
	switch {
	case err != nil:
		return nil, engine.News{}, err
	case len(numbers) != 1+len(requests):
		return nil, engine.News{}, unexpected(numbers)
	}
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		wait := time.Duration(numbers[1+i]) * time.Microsecond
		answers[i] = w.answer(r, grants[i], wait, numbers[0])
	}
	return answers, news, nil
}

// answer is that to a request for a grant. A wait below 0 says that it does not fit
// the rate.
func (w *window) answer(r engine.Request, grant string, wait time.Duration, rate int64) engine.Answer {
	switch {
	case wait < 0:
		return engine.Answer{Err: fmt.Errorf("%w: %d asked for, the rate is %d", engine.ErrExceedsQuota, r.N, rate)}
	case wait == 0:
		return engine.Answer{Verdict: engine.Granted, Turn: engine.Turn{Entry: grant, N: r.N}}
	}
	wait = w.ticker.delay(wait, time.Now())
	if wait <= r.MaxWait {
		return engine.Answer{Verdict: engine.NotYet, Wait: wait}
	}
	return engine.Answer{Verdict: engine.Refused, Wait: wait}
}

// GiveBack takes whole turns only. A turn stays as it is if only a part of it
// is given back, if it has left the window, or if somebody has released a part of
// it.
func (w *window) GiveBack(ctx context.Context, returns []engine.Return) error {
	var grants []any
	for _, r := range returns {
		if r.IsAll() {
			grants = append(grants, r.Turn.Entry)
		}
	}
	if len(grants) == 0 {
		return nil
	}
	_, _, err := w.run(ctx, backScript, grants...)
	return err
}

// Status assumes the limiter's own quota if there is no rate in Redis yet. Its
// Delay is until a permit is free, without what [RetryTick] adds.
func (w *window) Status(ctx context.Context) (engine.Status, error) {
	s, err := stateOf(w.run(ctx, readScript, w.rate.words()[:3]...))
	return engine.Status{Available: s.left, Delay: s.delay}, err
}

// Reset forgets the grants to all together and those to this client. It leaves
// the rate, if it can be read, so that a peer that did not ask for the reset
// can go on.
func (w *window) Reset(ctx context.Context) (engine.News, error) {
	_, news, err := w.run(ctx, forgetScript, "keep")
	return news, err
}
