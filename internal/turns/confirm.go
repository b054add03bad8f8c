package turns

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/internal/timeout"
)

// timersLate is how late a timer may be without anything being wrong. Whoever
// goes that late goes on the news that was new enough at its slot.
const timersLate = time.Millisecond

func (l *Sleepers) leeway() time.Duration { return min(timersLate, l.Within/16) }

// goes is the moment at which the news has to be new enough for a caller that
// goes now.
func (l *Sleepers) goes(s *Sleeper, now time.Time) time.Time {
	return later(s.due, now.Add(-l.leeway()))
}

// isFresh, under mu, reports whether what is known is new enough at a moment.
func (l *Sleepers) isFresh(s *Sleeper, at time.Time) bool {
	oldest := at.Add(-l.Within)
	return l.Within == 0 || !s.asked.Before(oldest) || !l.newest.Before(oldest)
}

// confirm, under mu, says until when a caller sleeps whose turn is to come. If
// the turn would be taken on news that is too old, and none is on its way, it
// begins a look.
func (l *Sleepers) confirm(s *Sleeper, due, now time.Time) time.Time {
	if l.isFresh(s, due) || !l.looked.Before(due.Add(-l.Within)) {
		return due
	}
	if at := due.Add(-l.Within / 4); now.Before(at) {
		return at
	}
	l.beginLook(s, now)
	return due
}

// waitsForNews, under mu, reports whether a caller whose turn has come waits for
// news, and until when. The process may have stood still when the caller was to
// wake for its look: then the look goes now, or has not had its time yet.
func (l *Sleepers) waitsForNews(s *Sleeper, now time.Time) (until time.Time, waits bool) {
	at := l.goes(s, now)
	if l.isFresh(s, at) {
		return time.Time{}, false
	}
	if !l.held.IsZero() {
		return l.insists(s, now), true
	}
	late, needed := now.Sub(s.due), at
	if l.newest.Before(l.looked) && late <= l.Within/4 {
		needed = s.due // Redis is silent, and need not be asked twice for one turn
	}
	oldest := needed.Add(-l.Within)
	switch {
	case l.newest.Before(l.before) && !l.before.Before(oldest):
		return time.Time{}, false // that look had its time, and the next is for later turns
	case l.looked.Before(oldest):
		l.beginLook(s, now)
	case late > l.leeway() && l.patience.Before(s.due):
		// The process may have stood still while the look was on its way: then the
		// answer is here and has not been read yet.
		l.patience = now.Add(min(late, l.patient()))
	}
	return l.patience, l.looking > 0 && now.Before(l.patience)
}

// insists, under mu, is up to when a caller waits for news after a pause that
// this limiter knows of. There may be another, and nobody goes without knowing:
// whoever hears nothing misses its turn, and asks again.
func (l *Sleepers) insists(s *Sleeper, now time.Time) time.Time {
	if s.givesUp.IsZero() {
		s.givesUp = now.Add(timeout.Answer)
		if end := s.due.Add(l.MaxLateness - l.excess(s.took)); l.MaxLateness > 0 && end.Before(s.givesUp) {
			s.givesUp = end
		}
	}
	until := s.givesUp.Add(1)
	if l.looking > 0 {
		return until
	}
	next := l.looked.Add(l.Within / 4)
	if !now.Before(next) {
		l.beginLook(s, now)
		return until
	}
	if next.Before(until) {
		return next
	}
	return until
}

// hearsNothing, under mu, reports whether a caller has waited for news in vain.
func (l *Sleepers) hearsNothing(s *Sleeper, now time.Time) bool {
	return !s.givesUp.IsZero() && now.After(s.givesUp) && !l.isFresh(s, l.goes(s, now))
}

// patient is for how long a look holds callers whose turns come meanwhile. Where
// turns can be missed, half of the time is left for a caller that woke late.
func (l *Sleepers) patient() time.Duration {
	d := l.Within/4 - l.leeway() // so that no caller waits whose look began in time
	if l.MaxLateness > 0 {
		d = min(d, l.MaxLateness/2)
	}
	return d
}

// beginLook, under mu, lets one goroutine look for all callers of the line.
func (l *Sleepers) beginLook(s *Sleeper, now time.Time) {
	l.before, l.looked, l.patience = l.looked, now, now.Add(l.patient())
	l.looking++
	go l.lookOnce(context.WithoutCancel(s.ctx))
}

// lookOnce asks for news, for as long as any question may take. That it fails
// changes nothing: the turns were granted.
func (l *Sleepers) lookOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, timeout.Answer)
	defer cancel()
	_ = l.Look(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking--
	l.tellWaiting()
}

// untilNews, under mu, is closed when those who wait for news are to look again.
func (l *Sleepers) untilNews() <-chan struct{} {
	if l.waiting == nil {
		l.waiting = make(chan struct{})
	}
	return l.waiting
}

// tellWaiting, under mu, lets those who wait for news look again.
func (l *Sleepers) tellWaiting() {
	if l.waiting != nil {
		close(l.waiting)
		l.waiting = nil
	}
}
