package fairlimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/turns"
)

const (
	defaultPauseWithin = time.Second
	longestPause       = 365 * 24 * time.Hour
)

// WithPauseWithin sets X, one second by default. If a queue is paused or reset,
// or its quota becomes narrower, a caller whose turn lies more than X ahead
// hears of it before it goes. All limiters of a name have to use the same X.
//
// A caller whose answer would be older than X at its turn asks again shortly
// before it, unless another answer has come by then. One question serves all
// callers of a [Limiter] value. Waits shorter than X cost nothing more, and
// neither an idle nor a busy limiter asks. Otherwise it is at most one question
// a turn, and 4/(3X) questions a second.
//
// With 0, callers that sleep are not held by a pause, and nobody asks.
func WithPauseWithin(x time.Duration) Option {
	return func(o *options) {
		if x < 0 {
			o.refuse("WithPauseWithin: %v is negative", x)
		}
		o.pauseWithin, o.steers = x, o.steers || x > 0
	}
}

// Pause lets nobody go for d from now, on any machine: the queue's clock stands
// still. It is meant for an upstream that says so, with 429 and Retry-After.
//
//   - Whoever asks after the pause was recorded has its turn after it. So has a
//     caller that sleeps towards a turn more than [WithPauseWithin] away, if
//     Redis answers within a quarter of that. Order stays.
//   - The callers of this limiter are held from the call on, even if Redis does
//     not answer.
//   - A caller whose turn now comes after its deadline gets a [*RefusedError]
//     that matches [ErrPaused], and its permits go back.
//   - Of several pauses the longest counts, so the same one may be sent again.
//     Calls of one limiter that come together are one question.
//   - A pause shorter than twice [WithPauseWithin] is lengthened to that.
//     Otherwise callers that have not heard of it could exceed the quota
//     together with those that have.
//   - Only [Limiter]'s Reset ends it.
//
// A pause costs at most as much of the quota as d allows, or as much as Per
// allows if that is less. If d is not more than 0 or is more than a year, the
// error matches [ErrInvalidPause].
func (q *Queue) Pause(ctx context.Context, d time.Duration) error {
	return q.named(q.pauseFor(ctx, d))
}

func (q *Queue) pauseFor(ctx context.Context, d time.Duration) error {
	if _, err := q.steerer(); err != nil {
		return err
	}
	if d <= 0 || d > longestPause {
		return fmt.Errorf("%w: %v, want more than 0 and at most %v", ErrInvalidPause, d, longestPause)
	}
	if err := ready(ctx, "nothing was paused"); err != nil {
		return err
	}
	return q.pauses.pause(ctx, time.Now().Add(max(d, 2*q.turns.Within)))
}

// pauses combines the pauses of one limiter. One goroutine at a time sends
// them, and ends when none is left.
//
// Invariant, under mu: now is the pause that is being sent, nil if none is;
// next, which is longer, follows it.
type pauses struct {
	engine engine.Steerer
	turns  *turns.Line
	paused func(time.Duration) // of the trace, may be nil

	mu        sync.Mutex
	now, next *pause
}

// pause is one that is to be recorded. Err may be read once done is closed.
type pause struct {
	until time.Time
	done  chan struct{}
	err   error
}

// pause records a pause, and returns when that is done or when ctx ends.
func (p *pauses) pause(ctx context.Context, until time.Time) error {
	p.turns.Hold(until)
	sent := p.send(ctx, until)
	select {
	case <-sent.done:
		return sent.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctxerr.Ended(ctx, "the pause is under way"))
	}
}

// send returns the pause that covers until: one that is under way, or another.
func (p *pauses) send(ctx context.Context, until time.Time) *pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.now != nil && !until.After(p.now.until):
		return p.now
	case p.now != nil && p.next != nil:
		if until.After(p.next.until) {
			p.next.until = until
		}
		return p.next
	}
	sent := &pause{until: until, done: make(chan struct{})}
	if p.now != nil {
		p.next = sent
		return sent
	}
	p.now = sent
	go p.serve(context.WithoutCancel(ctx))
	return sent
}

// serve sends what there is to send.
func (p *pauses) serve(ctx context.Context) {
	for more := true; more; more = p.finish() {
		p.now.err = p.record(ctx, p.now.until) // only finish changes now
	}
}

func (p *pauses) record(ctx context.Context, until time.Time) error {
	left := max(time.Microsecond, time.Until(until))
	if p.paused != nil {
		p.paused(left)
	}
	_, err := within(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.Pause(ctx, left)
	})
	return err
}

// finish tells those who wait for the pause that was sent. It reports whether
// another follows.
func (p *pauses) finish() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.now.done)
	p.now, p.next = p.next, nil
	return p.now != nil
}
