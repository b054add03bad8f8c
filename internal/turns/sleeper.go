package turns

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// longestMargin bounds how much earlier a caller that missed a turn wakes for
// the next. A sleep of two shortestNaps is not halved any more. An answer that
// took longer than the quickest, by a longExcess, tells too little of when a turn
// comes.
const (
	longestMargin = 50 * time.Millisecond
	shortestNap   = 100 * time.Microsecond
	longExcess    = time.Millisecond
)

type state int8

const (
	asleep state = iota
	again        // stands in line once more, at place
	gone
)

// Sleeper is one caller, from its first turn to the one that it takes. The line
// it sleeps in guards its fields while it is asleep.
type Sleeper struct {
	ctx     context.Context
	request coalesce.Request
	latest  time.Time // see accept

	turn
	call   uint64 // callers came in this order
	state  state
	place  coalesce.Place
	err    error
	missed int // turns in a row
	margin time.Duration
}

// turn is permits, when they may be used, and what that was worked out from.
type turn struct {
	grant engine.Grant
	due   time.Time
	asked time.Time     // when the question went that due was told by
	took  time.Duration // by how much sooner it may have come: what an answer took
	epoch int           // of the line when due was worked out
	// givesUp is until when the caller waits for news that it needs, zero if it
	// does not.
	givesUp time.Time
}

// NewSleeper is for the caller of a request.
func NewSleeper(ctx context.Context, request coalesce.Request) *Sleeper {
	return &Sleeper{ctx: ctx, request: request}
}

// HasMissed reports whether the caller has missed a turn. Nil has had none.
func (s *Sleeper) HasMissed() bool { return s != nil && s.missed > 0 }

// accept sets the latest turn that the caller accepts, zero for any. MaxWait
// counts from when the caller came, but what the engine granted within it stands.
func (s *Sleeper) accept() {
	s.latest = s.request.Deadline
	if s.request.Came.IsZero() {
		return
	}
	if end := later(s.request.Came.Add(s.request.MaxWait), s.due); s.latest.IsZero() || end.Before(s.latest) {
		s.latest = end
	}
}

func (s *Sleeper) accepts(due time.Time) bool {
	return s.latest.IsZero() || !due.After(s.latest)
}

// Sleep returns nil once the turn has come that the reply granted, or one that
// took its place. If the caller stands in line again instead, it gets its place
// there. With an error, the caller holds nothing, unless that is a [*Kept].
func (l *Sleepers) Sleep(s *Sleeper, reply coalesce.Reply) (*coalesce.Place, error) {
	l.mu.Lock()
	s.turn = turn{
		grant: reply.Grant, due: reply.Slot(), asked: reply.Asked, took: reply.Arrived.Sub(reply.Asked),
	}
	s.epoch, s.call = l.epoch, reply.Call
	s.accept()
	had := s.state == again
	l.join(s)
	if had {
		l.goBefore(s)
	}
	if isVoid(s, &l.news) { // the news of a reset came before this answer
		l.lineUpAgain([]*Sleeper{s})
	}
	l.mu.Unlock()
	for {
		until, changed, what := l.look(s)
		if what != nil {
			what()
		}
		if until.IsZero() {
			break
		}
		ended := s.nap(until, changed)
		if l.woke != nil {
			l.woke()
		}
		if ended != nil && l.leave(s) {
			if coalesce.Keeps(s.ctx) {
				return nil, &Kept{Grant: s.grant, Slot: s.due}
			}
			l.Asker.Abandon(s.ctx, s.grant)
			return nil, ctxerr.Ended(s.ctx, "left before the turn came, what was granted is given back")
		}
	}
	if s.state == again {
		return &s.place, nil
	}
	return nil, s.err
}

// nap sleeps until a moment at most. It returns an error when ctx has ended.
func (s *Sleeper) nap(until time.Time, changed <-chan struct{}) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	return nil
}

// napTo is up to when a caller that sleeps until a moment sleeps at once: all
// the way, unless it missed a turn. Then it wakes early, and sleeps half of what
// is left each time.
func (s *Sleeper) napTo(until, now time.Time) time.Time {
	d := until.Sub(now)
	switch {
	case s.margin == 0:
		return until
	case d > s.margin:
		return until.Add(-s.margin)
	case d > 2*shortestNap:
		return now.Add(d / 2)
	}
	return until
}

// sure, under mu, is up to when a caller sleeps at least that is to sleep until a
// moment: where its answer took long, its turn may come sooner, and others may
// know that by then.
func (l *Sleepers) sure(s *Sleeper, until, now time.Time) time.Time {
	if at := s.due.Add(-s.took); l.excess(s.took) > longExcess && now.Before(at) && at.Before(until) {
		return at
	}
	return until
}

// leave takes out a caller whose ctx has ended. It reports whether the caller
// held a turn that had not come yet, or that it does not know to stand. Any
// other turn that has come is a turn.
func (l *Sleepers) leave(s *Sleeper) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.state != asleep {
		return false
	}
	if now := time.Now(); !now.Before(later(s.due, l.holdsAsleep())) {
		if _, waits := l.waitsForNews(s, now); !waits {
			return false
		}
	}
	l.quit(s, gone)
	return true
}

// look says until when a caller sleeps before it looks again, and what wakes it
// sooner. The zero time means that it is not asleep any more. What is to be
// called next, without the lock.
func (l *Sleepers) look(s *Sleeper) (until time.Time, changed <-chan struct{}, what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.state != asleep {
		return time.Time{}, nil, nil
	}
	now := time.Now()
	l.reckon(s)
	due := later(s.due, l.holdsAsleep())
	switch {
	case !s.accepts(due):
		return time.Time{}, nil, l.refuse(s, due, now)
	case now.Before(due):
		return s.napTo(l.sure(s, l.confirm(s, due, now), now), now), l.changed, nil
	case l.missedBy(s, now) > 0 || l.anEarlierMissed(s, now):
		what = l.miss(s, now)
		return now, l.changed, what
	}
	if until, waits := l.waitsForNews(s, now); waits {
		return until, l.untilNews(), nil
	}
	if l.yields(s, now) {
		return now, l.changed, nil
	}
	l.quit(s, gone)
	return time.Time{}, nil, l.taken(s, now)
}

// taken, under mu, is the event of a turn that a caller goes with now.
func (l *Sleepers) taken(s *Sleeper, now time.Time) func() {
	if l.Taken == nil {
		return nil
	}
	lateness, confirmed := now.Sub(s.due)+l.excess(s.took), l.isFresh(s, l.goes(s, now))
	return func() { l.Taken(s.request.N, lateness, confirmed) }
}

// refuse, under mu, lets a caller go whose turn comes too late by now. Its
// permits are given back, for which it stays as long as any that leaves.
func (l *Sleepers) refuse(s *Sleeper, due, now time.Time) func() {
	l.quit(s, gone)
	s.err = &Refusal{Wait: l.putOff(s, due).Sub(now), Paused: now.Before(l.holdsAsleep())}
	return func() { l.Asker.Abandon(s.ctx, s.grant) }
}

// putOff, under mu, is when a turn will come that is held back. Redis may not
// know yet of what holds it: then the queue stands still from when that became
// known, or from the end of an earlier pause, and all its turns come later.
func (l *Sleepers) putOff(s *Sleeper, due time.Time) time.Time {
	held := l.holdsAsleep()
	if held.IsZero() || l.heldAt.Before(l.newest) {
		return due
	}
	from := later(l.heldAt, l.news.Asked.Add(l.news.Stands))
	return later(due, s.due.Add(held.Sub(from)))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
