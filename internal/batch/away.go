package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/bound"
)

// While the engine is away, the server pauses for this long, less up to half of
// it. Each pause is twice the one before, until a question is answered.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// keeps lines up again the callers of a question that failed because the engine
// is away, as if it had not been sent. It reports whether it did. Those who
// accept no wait are told the failure.
//
// If the outcome is unknown, the question may have been granted permits. Nobody
// goes with them: they pass unused, or go back if the answer is only late.
func (q *question) keeps(failure error) bool {
	b := q.batcher
	if len(q.callers) == 0 || b.Away == nil {
		return false
	}
	if !b.Away(failure) {
		b.setAway(nil)
		return false
	}
	failed := &result{err: failure}
	if len(q.flows) > 0 {
		q.putBackInFlows(q.callers, nil, failed)
	} else {
		q.putBack(nil, failed)
	}
	b.tellHasty(outcome{result: failed})
	return true
}

// tellHasty tells a failure to those in line who accept no wait.
func (b *Batcher) tellHasty(failed outcome) {
	hasty := func(c *caller) bool { return c.request.MaxWait <= 0 && c.tellInLine(failed) }
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, hasty)
	for _, f := range b.ready {
		f.waiting = slices.DeleteFunc(f.waiting, hasty)
	}
}

// outlast returns once the engine answers a probe, which changes nothing. So
// however long it is away, few questions are lost on the way. It returns sooner
// if there are returns to send, or nobody waits any more.
func (b *Batcher) outlast() {
	for b.isAwaited() {
		b.pause = min(max(2*b.pause, firstPause), lastPause)
		time.Sleep(b.pause - rand.N(b.pause/2))
		err := bound.Do(context.Background(), b.Probe)
		if err == nil || !b.Away(err) {
			return
		}
		b.setAway(err)
	}
}

func (b *Batcher) setAway(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = why
}

// isAwaited reports whether the engine is away and callers wait for it.
func (b *Batcher) isAwaited() bool {
	if b.Away == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away == nil || len(b.returns) > 0 {
		return false
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(c *caller) bool { return c.state.Load() == gone })
	return len(b.waiting) > 0 || slices.ContainsFunc(b.ready, func(f *Flow) bool {
		f.dropGone()
		return len(f.waiting) > 0
	})
}

// notAsked, under mu, is the error of a caller that accepts no wait while the
// engine is away.
func (b *Batcher) notAsked() error {
	return fmt.Errorf("%w: nothing was sent, because an earlier call had failed (%v)", engine.ErrUnreachable, b.away)
}

// becauseAway adds to the error of a caller that leaves why the engine is away,
// if it is.
func (b *Batcher) becauseAway(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away == nil {
		return err
	}
	return fmt.Errorf("%w, while Redis was away: %w", err, b.away)
}
