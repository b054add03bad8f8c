package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// While the engine is away, the server pauses for this long, less up to half of
// it. Each pause is twice the one before, until a question is answered.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// keeps lines up again the callers of a question that failed because the engine
// is away. It reports whether it did. Callers that accept no wait are told the
// failure. What the question was granted, if its outcome is unknown, passes unused,
// or goes back if the answer is only late.
func (q *question) keeps(failure error) bool {
	a := q.asker
	if len(q.callers) == 0 || a.Away == nil {
		return false
	}
	if !a.Away(failure) {
		a.setAway(nil)
		return false
	}
	a.setAway(failure)
	q.putBack(q.callers, failure)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.ready {
		l.dropHasty(Reply{}, failure)
	}
	return true
}

// outlast returns once the engine answers a probe, which changes nothing. So few
// questions are lost on the way, however long the engine is away. Outlast returns
// sooner if there are returns to send, or if nobody waits any more.
func (a *Asker) outlast() {
	for a.isAwaited() {
		a.pause = min(max(2*a.pause, firstPause), lastPause)
		time.Sleep(a.pause - rand.N(a.pause/2))
		err := timeout.Do(context.Background(), a.Probe)
		if err == nil || !a.Away(err) {
			return
		}
		a.setAway(err)
	}
}

func (a *Asker) setAway(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = why
}

// isAwaited reports whether the engine is away and callers wait for it.
func (a *Asker) isAwaited() bool {
	if a.Away == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away == nil || len(a.returns) > 0 {
		return false
	}
	return slices.ContainsFunc(a.ready, func(l *Line) bool { return len(l.waiting) > 0 })
}

// notAsked, under mu, is the error of a caller that accepts no wait while the
// engine is away.
func (a *Asker) notAsked() error {
	return fmt.Errorf("%w: nothing was sent, because an earlier call had failed (%v)", engine.ErrUnreachable, a.away)
}

// becauseAway adds to the error of a caller that leaves why the engine is away, if
// it is. Then, or if the caller's MaxWait is over, nobody may take a question that
// is under way for one that consumed nothing.
func (a *Asker) becauseAway(err error, underWay bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if underWay && (a.away != nil || errors.Is(err, ErrMaxWait)) {
		err = fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, err)
	}
	if a.away == nil {
		return err
	}
	return fmt.Errorf("%w, while Redis was away: %w", err, a.away)
}
