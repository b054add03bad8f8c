package turns

import (
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
)

// shortestNap is for how long a caller lets another go first.
const shortestNap = 100 * time.Microsecond

type state int8

const (
	asleep state = iota
	inLine       // once more
	gone
)

// Sleeper is one caller, from its first turn to the one that it takes. While it
// is asleep, mu of its Sleepers guards its fields, and the request is its own.
type Sleeper struct {
	request *coalesce.Request
	latest  time.Time // see accept

	turn
	state   state
	err     error
	tooLate bool      // its turn comes too late, and goes back
	missed  int       // turns in a row
	wakes   time.Time // when its nap ends
}

// NewSleeper is for the caller of a request.
func NewSleeper(r *coalesce.Request) *Sleeper { return &Sleeper{request: r} }

// Grant is the turn that the caller has taken, once Sleep has returned nil.
func (s *Sleeper) Grant() *engine.Grant { return &s.grant }

// accept sets the latest turn that the caller accepts, zero for any. MaxWait
// counts from when the caller came, but what the engine granted within it
// stands.
func (s *Sleeper) accept() {
	s.latest = s.request.Deadline
	if s.request.Came.IsZero() {
		return
	}
	if end := later(s.request.Came.Add(s.request.MaxWait), s.due); s.latest.IsZero() || end.Before(s.latest) {
		s.latest = end
	}
}

// keepAccepting is for a turn that was accepted, and is told better: nothing
// has put it off.
func (s *Sleeper) keepAccepting(due time.Time) {
	if s.accepts(s.due) && !s.accepts(due) {
		s.latest = due
	}
}

func (s *Sleeper) accepts(due time.Time) bool {
	return s.latest.IsZero() || !due.After(s.latest)
}

// Sleep returns once the turn of the caller's reply has come, or a turn that took
// its place. If the caller stands in line again instead, again is true. With an
// error the caller holds nothing.
func (l *Sleepers) Sleep(s *Sleeper) (again bool, err error) {
	l.mu.Lock()
	l.begin(s)
	l.mu.Unlock()
	ctx := s.request.Ctx
	for {
		until, changed := l.next(s)
		if until.IsZero() {
			if s.tooLate {
				l.Asker.Abandon(ctx, s.grant)
			}
			return s.state == inLine, s.err
		}
		ended := clock.NapUntil(ctx, until, changed)
		if l.woke != nil {
			l.woke()
		}
		if ended != nil && l.leave(s) {
			l.Asker.Abandon(ctx, s.grant)
			return false, ctxerr.Ended(ctx, "left before the turn came, what was granted is sent back")
		}
	}
}

// begin, under mu, puts a caller among the sleepers with the turn that it was
// granted.
func (l *Sleepers) begin(s *Sleeper) {
	s.turn = l.newTurn(&s.request.Reply)
	s.accept()
	l.join(s)
	switch { // before this answer came, or the caller of a reservation
	case l.isVoid(s.grant.ID, s.granted):
		l.lineUpAgain([]*Sleeper{s})
	case isPutOff(s.request):
		l.putOff([]*Sleeper{s})
	}
}

// leave takes out a caller whose ctx has ended. It returns false if the turn of
// the caller has come, and the caller does not wait for news of it: a turn that
// has come is a turn.
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

// next says until when a caller sleeps before it asks next again, and what
// wakes it sooner. At the zero time the caller is not asleep any more.
func (l *Sleepers) next(s *Sleeper) (until time.Time, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.state != asleep {
		return time.Time{}, nil
	}
	now := time.Now()
	l.reckon(s)
	due := later(s.due, l.holdsAsleep())
	switch {
	case !s.accepts(due):
		l.quit(s, gone)
		s.err, s.tooLate = l.refusal(s, due, now), true
		return time.Time{}, nil
	case now.Before(due):
		s.wakes, changed = l.confirm(s, due, now)
		return s.wakes, changed
	case l.missedBy(s, now) > 0 || l.anEarlierMissed(s.request, now):
		l.miss(s, now)
		return now, l.changed
	}
	if until, waits := l.waitsForNews(s, now); waits {
		return until, l.untilNews()
	}
	if l.keepOrder(s, now) || l.letOlderGo(s, now) {
		return now.Add(shortestNap), l.changed
	}
	l.quit(s, gone)
	if l.Taken != nil {
		l.Taken(s.request.N, now.Sub(s.due)+s.excess, l.isFresh(s, l.neededAt(s, now)))
	}
	return time.Time{}, nil
}

// refusal, under mu, is that of a caller for whom a moment is too late. It may be so
// because of a pause.
func (l *Sleepers) refusal(s *Sleeper, due, now time.Time) *Refusal {
	paused := l.holdsAsleep().Sub(now)
	return &Refusal{Wait: max(0, due.Sub(now)), Paused: paused > 0 && s.accepts(due.Add(-paused))}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
