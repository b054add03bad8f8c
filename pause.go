package fairlimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/duration"
	"github.com/fairlimit/fairlimit/internal/timeout"
	"github.com/fairlimit/fairlimit/internal/turns"
)

const (
	defaultPauseWithin = time.Second
	longestPause       = 365 * 24 * time.Hour
)

// WithPauseWithin sets how soon a sleeping caller hears that its queue was
// paused or reset, or that its quota became narrower. A caller whose turn lies
// more than x ahead hears of it before it goes. The default is one second. All
// limiters of a name have to use the same x.
//
// A caller whose news would be older than x at its turn asks again shortly
// before it, unless another answer has come by then. One question serves all
// callers of a [Limiter] value. Waits shorter than x cost nothing more, and
// neither an idle nor a busy limiter asks. In between there is at most one
// question a turn, and there are at most 4/(3x) questions a second, or 2/x if
// answers take longer than x/10, or vary by as much. If the answer that grants a
// turn takes longer than the quickest do, by more than [WithMaxLateness], the
// limiter asks once more when it comes. Before x/4 is over, it does not repeat a
// question that failed.
//
// If the process stood still, or Redis is silent, a caller waits for the answer
// for x/4 (up to x/2 if Redis is far away) and half of [WithMaxLateness] at
// most, and then goes. If it is too late for its turn by then, it misses the
// turn. After a pause that its [Limiter] knows of, it waits for as long as
// WithMaxLateness allows, or five seconds without it, and then misses its turn.
//
// With 0 nobody asks, and a pause does not hold callers that already sleep.
// They hear of a reset only if their own [Limiter] resets, or asks for another
// caller.
func WithPauseWithin(x time.Duration) Option {
	return func(o *options) {
		o.length("WithPauseWithin", x)
		o.pauseWithin, o.steers = x, o.steers || x > 0
	}
}

// Pause lets nobody go for d from now, on any machine: the queue's clock stands
// still. So what was left until a slot comes on top of the pause: a turn that
// was 3 s ahead comes 3 s after the end of the pause. Pause is meant for an
// upstream that answers 429 with Retry-After.
//
//   - Whoever asks after the pause was recorded gets a turn after its end. A
//     sleeping caller is held as well if its turn is more than
//     [WithPauseWithin] away and Redis answers within a quarter of that. The
//     order stays.
//   - The callers of this limiter are held as soon as Pause is called, even if
//     Redis does not answer. WithPauseWithin(0) leaves out those that sleep. Of
//     those that are held, callers whose slots pass before Redis has recorded
//     the pause miss their turns and line up again.
//   - A caller whose turn now comes after its deadline gets a [*RefusedError], and
//     its permits go back. It matches [ErrPaused] if the pause still lasts when the
//     caller hears of it, shortly before its old slot at the latest.
//   - Of several pauses the longest counts. So everybody may send the same one.
//     Those that come while one is under way are one question together.
//   - A pause lasts at least twice [WithPauseWithin] from when it is sent, and
//     from when Pause is called. In a shorter one, callers that have not heard
//     of it could exceed the quota together with those that have.
//   - Allow returns false, and [Status] says how long the pause still lasts.
//   - Only the Reset of a [Limiter] ends a pause early.
//
// If [Queue.Flow] made the queue, only that flow is paused, as it says there.
//
// Permits used before the pause count for d longer. After the pause, that costs
// at most as many permits as go in a time d, or in Per if that is shorter. If d
// is less than a microsecond or more than a year, the error matches
// [ErrInvalidPause].
func (q *Queue) Pause(ctx context.Context, d time.Duration) error {
	return q.named(q.pauseFor(ctx, d))
}

func (q *Queue) pauseFor(ctx context.Context, d time.Duration) error {
	if err := q.steerable(ctx, "nothing was paused"); err != nil {
		return err
	}
	if d <= 0 || d > longestPause {
		return fmt.Errorf("%w: %v, want more than 0 and at most %v", ErrInvalidPause, d, longestPause)
	}
	if err := duration.Check(d); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidPause, err)
	}
	if q.only != "" {
		return q.pauseFlow(ctx, d)
	}
	return q.pauses.pause(ctx, time.Now().Add(max(d, q.pauses.least())))
}

// pauses combines the pauses of one limiter. One at a time is sent, and those
// that come meanwhile are the next, together.
//
// A pause that is sent lasts until the latest moment that any of its callers
// named, and for at least twice X from when it is sent. Its callers come before
// that. So each of them is told of a pause that Redis recorded after the call.
type pauses struct {
	engine   engine.Steerer
	sleepers *turns.Sleepers
	trace    *Trace
	sending  chan struct{} // holds one while a pause is sent
	err      error         // of the newest pause, if none is being sent

	mu    sync.Mutex
	sent  int       // counts them
	until time.Time // the latest that was named since the newest was sent
}

// pause records a pause, and returns when that is done or when ctx ends.
func (p *pauses) pause(ctx context.Context, until time.Time) error {
	p.sleepers.Hold(until)
	p.mu.Lock()
	sent := p.sent
	if until.After(p.until) {
		p.until = until
	}
	p.mu.Unlock()
	return timeout.Do(ctx, func(ctx context.Context) error { return p.send(context.WithoutCancel(ctx), sent) })
}

// send sends a pause once the one before was sent, which may leave little of it.
// If another has been sent since the call, that serves. What Redis records is not
// shorter than a pause may be, and so the callers of this limiter are held for as
// long as that.
func (p *pauses) send(ctx context.Context, before int) error {
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	p.mu.Lock()
	until, sent := p.until, p.sent
	if sent == before {
		p.sent, p.until = sent+1, time.Time{}
	}
	p.mu.Unlock()
	if sent > before {
		return p.err
	}
	now := time.Now()
	left := max(until.Sub(now), p.least())
	p.sleepers.Hold(now.Add(left))
	if p.trace.Paused != nil {
		p.trace.Paused(left)
	}
	p.err = timeout.Do(ctx, p.trace.asks("pause", func(ctx context.Context) error {
		return p.engine.Pause(ctx, left)
	}))
	return p.err
}

// least is how long a pause lasts at least.
func (p *pauses) least() time.Duration { return max(time.Microsecond, 2*p.sleepers.Within) }
