package turns

import (
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// rounded is by how much two answers differ at most that tell the same moment.
const rounded = 10 * time.Microsecond

// miss, under mu, passes turns on after s has missed its turn: among the
// callers of its line that ask for as many permits. Each takes the next turn
// that can still be taken, and callers for whom no turn is left line up again.
// Missed turns are given back unused.
func (l *Sleepers) miss(s *Sleeper, now time.Time) {
	var callers []*Sleeper
	var turns []turn
	for _, c := range l.matching(s) {
		if lateness := l.missedBy(c, now); lateness == 0 {
			turns = append(turns, c.turn)
		} else {
			c.missed++
			l.Asker.GiveBack(c.request.Ctx, c.grant)
			if l.Missed != nil {
				l.Missed(c.request.N, lateness)
			}
		}
		if c.missed >= mostMissed {
			l.quit(c, gone)
			c.err = ErrMissed
		} else {
			callers = append(callers, c)
		}
	}
	l.lineUpAgain(l.deal(callers, turns, now))
	l.change()
}

// PutOff lines up again the callers of a flow that sleep, and gives back their
// turns: those that begin within d as well.
func (l *Sleepers) PutOff(flow *coalesce.Line, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flow.PutOff = time.Now()
	flow.PutOffUntil = flow.PutOff.Add(d)
	var callers []*Sleeper
	for _, s := range l.sleepers {
		if s.request.Line == flow {
			callers = append(callers, s)
		}
	}
	l.putOff(callers)
}

// putOff, under mu, gives back the turns of callers and lines them up again.
func (l *Sleepers) putOff(callers []*Sleeper) {
	for _, s := range callers {
		l.Asker.GiveBack(s.request.Ctx, s.grant)
	}
	l.lineUpAgain(callers)
}

// isPutOff, under mu, reports whether the turn of a reply was asked for before its
// flow was put off, and still is.
func isPutOff(r *coalesce.Request) bool {
	return r.Line != nil && r.Reply.Asked.Before(r.Line.PutOff) && time.Now().Before(r.Line.PutOffUntil)
}

// missedBy, under mu, is by how much a caller has missed its turn, 0 if the
// turn can still be taken.
func (l *Sleepers) missedBy(s *Sleeper, now time.Time) time.Duration {
	l.reckon(s)
	if l.holdsAsleep().Sub(s.due) > rounded || l.hearsNothing(s, now) || l.isOvertaken(s) {
		return max(1, now.Sub(s.due)) // Redis did not let its clock stand still, or may have
	}
	if lateness := now.Sub(s.due) + s.excess; !now.Before(s.due) && l.tooLate(lateness) {
		return lateness
	}
	return 0
}

// isOvertaken, under mu, reports whether the queue of a turn was lost, and the one
// that others began goes by narrower quotas: then its clock is slow.
func (l *Sleepers) isOvertaken(s *Sleeper) bool {
	n := &l.news
	return l.Within > 0 && n.Queue != s.grant.ID && n.Asked.After(s.asked) &&
		slices.ContainsFunc(n.Slow, engine.Stretch.IsSlow)
}

// anEarlierMissed, under mu, reports whether a caller that called before, for
// as many permits, has missed its turn and has not woken yet. Then that caller
// gets the turn of r. On one clock the first slot is missed first, so a crowd
// need not be looked through.
func (l *Sleepers) anEarlierMissed(r *coalesce.Request, now time.Time) bool {
	for _, s := range l.sleepers {
		if !s.matches(r) {
			continue
		}
		if s.request.Call < r.Call && l.missedBy(s, now) > 0 {
			return true
		}
		if !l.mixed {
			return false
		}
	}
	return false
}

// lineUpAgain, under mu, puts callers in line once more.
func (l *Sleepers) lineUpAgain(callers []*Sleeper) {
	if len(callers) == 0 {
		return
	}
	all := make([]*coalesce.Request, len(callers))
	for i, c := range callers {
		l.quit(c, inLine)
		all[i] = c.request
	}
	l.Asker.LineUpAgain(all)
	l.change()
}
