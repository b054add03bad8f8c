package line

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// While Redis is away it is asked again after a backoff that doubles between these.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// fail, under mu, hands out the error of a question. If Redis is away, nobody else
// in line has to find that out again.
func (l *Line) fail(asking []*caller, err error) {
	away := l.Away != nil && l.Away(err)
	if away && l.Retry {
		l.retry(asking, err)
		return
	}
	for _, c := range asking {
		c.reply(nil, err)
	}
	if !away {
		return
	}
	if !errors.Is(err, engine.ErrUnreachable) { // only its text: nothing was sent for these callers
		err = fmt.Errorf("%w, nothing was sent: another call failed: %v", engine.ErrUnreachable, err)
	}
	for _, c := range l.waiting {
		c.reply(nil, err)
	}
	l.waiting = nil
}

// retry, under mu, lets callers stand in line again. Those who want a turn now fail.
func (l *Line) retry(asking []*caller, err error) {
	l.failure, l.backoff = err, min(max(firstBackoff, 2*l.backoff), lastBackoff)
	again := time.Now().Add(l.backoff - rand.N(l.backoff/2))
	var stay []*caller // the question keeps its callers: it may still be under way
	for _, c := range asking {
		if errors.Is(err, engine.ErrOutcomeUnknown) {
			c.lost = err
		}
		if c.after = again; c.Now {
			c.reply(nil, err)
		} else {
			stay = append(stay, c)
		}
	}
	l.waiting = append(stay, l.waiting...)
}

// probes reports whether the last question failed. Then the status is read before
// anybody asks: that consumes nothing.
func (l *Line) probes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure != nil
}

// withLoss adds [engine.ErrOutcomeUnknown] to an error if an answer was lost before:
// else the error would say that nothing was consumed.
func withLoss(err, lost error) error {
	if err == nil || lost == nil || errors.Is(err, engine.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", err, lost)
}
