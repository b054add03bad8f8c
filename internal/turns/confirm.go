package turns

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/internal/timeout"
)

// timersLate is how late a timer may be without anything being wrong. A caller
// that is no later than that needs no newer news than at its slot.
const timersLate = time.Millisecond

// look is one question for news, and what became of it.
type look struct {
	number           int
	began            time.Time
	prolonged        time.Time // until when all wait for it whose turns have come; see holds
	underWay, failed bool
}

func (l *Sleepers) leeway() time.Duration { return min(timersLate, l.Within/16) }

// lead is how long before its slot a caller looks, so that the answer can be there:
// the second one, as the server may not have the script yet, or other quotas.
func (l *Sleepers) lead() time.Duration {
	return min(l.Within/2, max(l.Within/4, 5*l.recent.quickest/2))
}

// neededAt is the moment at which the news has to be new enough for a caller
// that goes now.
func (l *Sleepers) neededAt(s *Sleeper, now time.Time) time.Time {
	return later(s.due, now.Add(-l.leeway()))
}

// isFresh, under mu, reports whether the news that a caller has is new enough
// at a moment.
func (l *Sleepers) isFresh(s *Sleeper, at time.Time) bool {
	oldest := at.Add(-l.Within)
	return l.Within == 0 || !s.asked.Before(oldest) || !l.newest.Before(oldest)
}

// confirm, under mu, says until when a caller sleeps whose turn is to come, and
// what wakes it sooner. Unless its news will be new enough then, it begins a
// look, or waits for one that is on its way.
func (l *Sleepers) confirm(s *Sleeper, due, now time.Time) (until time.Time, changed <-chan struct{}) {
	switch at := l.looksAt(s, due, now); {
	case now.Before(at) && l.tooLate(s.excess) && l.Within > 0:
		return at, l.untilNews()
	case now.Before(at):
		return at, l.changed
	case !l.hasLooked(s, due, now):
		l.beginLook(s, now)
	}
	return nextOf(now, l.looksLast(s, due), due), l.untilNews()
}

// looksAt, under mu, is when a caller looks whose turn is due then, and due if
// it need not. If it may turn out by then that its turn was missed, it looks at
// once, unless a look has just begun. A look that failed is soon followed by
// another.
func (l *Sleepers) looksAt(s *Sleeper, due, now time.Time) time.Time {
	if l.Within == 0 {
		return due
	}
	last, lead := &l.lastLook, l.lead()
	apart := due.Sub(s.asked) / drift // clocks may have run apart by that
	at := earlier(l.looksLast(s, due), due.Add(-lead/2-apart))
	switch soon := last.began.Add(l.Within - lead); {
	case l.tooLate(s.excess) && last.began.Before(s.granted) && soon.Before(at):
		return soon
	case !s.asked.Before(due.Add(-l.Within)), !now.Before(at) && l.isFresh(s, due):
		return due
	case last.failed:
		return earlier(due, later(at, last.began.Add(lead)))
	}
	return at
}

// looksLast, under mu, is when a look begins at the latest. The turn may come
// sooner by its excess.
func (l *Sleepers) looksLast(s *Sleeper, due time.Time) time.Time {
	return due.Add(-l.lead() - min(s.excess, l.Within/8))
}

// hasLooked, under mu, reports whether the newest look is new enough for a caller.
func (l *Sleepers) hasLooked(s *Sleeper, due, now time.Time) bool {
	since := earlier(due.Add(-l.Within), now.Add(-l.lead()))
	if l.tooLate(s.excess) {
		since = later(since, s.granted)
	}
	return !l.lastLook.failed && !l.lastLook.began.Before(since)
}

// nextOf is the first of two moments that is still to come.
func nextOf(now, first, second time.Time) time.Time {
	if now.Before(first) {
		return first
	}
	return second
}

// waitsForNews, under mu, reports whether a caller whose turn has come waits
// for news, and until when. The process may have stood still when the caller
// was to begin its look. Then the look begins now, or has not had its time yet.
func (l *Sleepers) waitsForNews(s *Sleeper, now time.Time) (until time.Time, waits bool) {
	at := l.neededAt(s, now)
	if l.isFresh(s, at) {
		return time.Time{}, false
	}
	if len(l.heldBy) > 0 {
		return l.insistsUntil(s, now), true
	}
	switch late := now.Sub(s.due); {
	case l.lastLook.began.Before(at.Add(-l.Within)):
		l.beginLook(s, now)
	case min(late, now.Sub(l.holds(s))) > l.leeway() && l.lastLook.prolonged.Before(s.due):
		// The process may have stood still while the look was to hold the caller:
		// then the answer is here and has not been read yet.
		l.lastLook.prolonged = earlier(now.Add(late), l.holdsFrom(now, s))
	}
	until = l.holds(s)
	return until, l.lastLook.underWay && now.Before(until)
}

// holds, under mu, is until when the newest look holds a caller whose turn comes
// meanwhile.
func (l *Sleepers) holds(s *Sleeper) time.Time {
	return later(l.holdsFrom(l.lastLook.began, s), l.lastLook.prolonged)
}

// holdsFrom is until when a look holds a caller that has its time from a moment
// on. If turns can be missed, half of MaxLateness is left for callers that woke
// late.
func (l *Sleepers) holdsFrom(from time.Time, s *Sleeper) time.Time {
	until := from.Add(l.lead() - l.leeway()) // so that no caller waits whose look began in time
	if l.MaxLateness > 0 {
		until = earlier(until, later(from, s.due).Add(l.MaxLateness/2))
	}
	return until
}

// insistsUntil, under mu, is up to when a caller waits for news after a pause
// that this limiter knows of. There may be another pause, and nobody goes
// without knowing: a caller that hears nothing misses its turn, and asks again.
func (l *Sleepers) insistsUntil(s *Sleeper, now time.Time) time.Time {
	if s.givesUp.IsZero() {
		s.givesUp = now.Add(timeout.Answer)
		if end := s.due.Add(l.MaxLateness - s.excess); l.MaxLateness > 0 && end.Before(s.givesUp) {
			s.givesUp = end
		}
	}
	if !l.lastLook.underWay {
		if next := l.lastLook.began.Add(l.lead()); now.Before(next) {
			return next
		}
		l.beginLook(s, now)
	}
	return s.givesUp.Add(1)
}

// hearsNothing, under mu, reports whether a caller has waited for news in vain.
func (l *Sleepers) hearsNothing(s *Sleeper, now time.Time) bool {
	return !s.givesUp.IsZero() && now.After(s.givesUp) && !l.isFresh(s, l.neededAt(s, now))
}

// beginLook, under mu, lets one goroutine look for all sleepers.
func (l *Sleepers) beginLook(s *Sleeper, now time.Time) {
	number := l.lastLook.number + 1
	l.lastLook = look{number: number, began: now, underWay: true}
	go l.lookOnce(context.WithoutCancel(s.request.Ctx), number)
}

// lookOnce asks for news, for as long as any question may take. A failure
// changes nothing: the turns were granted.
func (l *Sleepers) lookOnce(ctx context.Context, number int) {
	asked := time.Now()
	err := timeout.Do(ctx, l.Look)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.recent.learn(time.Since(asked), false)
	}
	if number == l.lastLook.number {
		l.lastLook.underWay, l.lastLook.failed = false, err != nil
	}
	l.tellAwaiting()
}

// untilNews, under mu, is a channel that closes when news come, or a look has
// ended. Few wait for that, however many sleep.
func (l *Sleepers) untilNews() <-chan struct{} {
	if l.newsCame == nil {
		l.newsCame = make(chan struct{})
	}
	return l.newsCame
}

// tellAwaiting, under mu, wakes callers that wait for news.
func (l *Sleepers) tellAwaiting() {
	if l.newsCame != nil {
		close(l.newsCame)
		l.newsCame = nil
	}
}
