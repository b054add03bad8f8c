package turns

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// miss, under mu, passes turns on after s has missed its turn: among the
// callers of its line that ask for as many permits. Callers keep their order.
// Each takes the next turn that can still be taken, and callers for whom no
// turn is left line up again. Missed turns are given back unused.
func (l *Sleepers) miss(s *Sleeper, now time.Time) func() {
	permits := s.request.N
	var callers []*Sleeper
	var turns []turn
	var late []time.Duration
	for _, c := range l.sleepers {
		if !c.matches(s.request) {
			continue
		}
		callers = append(callers, c)
		if lateness := l.missedBy(c, now); lateness > 0 {
			late = append(late, lateness)
			c.missed, c.margin = c.missed+1, min(lateness, longestMargin)
			l.Asker.GiveBack(c.request.Ctx, c.grant)
			continue
		}
		turns = append(turns, c.turn)
	}
	l.lineUpAgain(l.handOut(callers, turns, now))
	l.change()
	if l.Missed == nil {
		return func() {}
	}
	return func() {
		for _, lateness := range late {
			l.Missed(permits, lateness)
		}
	}
}

// PutOff lines up again the callers of a flow that sleep, and gives back their
// turns.
func (l *Sleepers) PutOff(flow *coalesce.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var callers []*Sleeper
	for _, s := range l.sleepers {
		if s.request.Line == flow {
			callers = append(callers, s)
			l.Asker.GiveBack(s.request.Ctx, s.grant)
		}
	}
	l.lineUpAgain(callers)
}

// missedBy, under mu, is by how much a caller has missed its turn, 0 if the
// turn can still be taken.
func (l *Sleepers) missedBy(s *Sleeper, now time.Time) time.Duration {
	l.reckon(s)
	if l.holdsAsleep().After(s.due) || l.hearsNothing(s, now) {
		return max(1, now.Sub(s.due)) // Redis did not let its clock stand still, or may have
	}
	if lateness := now.Sub(s.due) + l.excess(s.took); !now.Before(s.due) && l.tooLate(lateness) {
		return lateness
	}
	return 0
}

// anEarlierMissed, under mu, reports whether the first caller that matches s
// has missed its turn and has not woken yet. Then that caller gets the turn of
// s.
func (l *Sleepers) anEarlierMissed(s *Sleeper, now time.Time) bool {
	for _, c := range l.sleepers {
		if c == s {
			return false
		}
		if c.matches(s.request) {
			return l.missedBy(c, now) > 0
		}
	}
	return false
}

// handOut, under mu, gives turns to callers, both in their order, and returns
// the callers for whom no turn is left. A caller leaves a turn to the next
// caller if the turn is too late for it, or if it has missed too many.
func (l *Sleepers) handOut(callers []*Sleeper, turns []turn, now time.Time) (left []*Sleeper) {
	for _, c := range callers {
		switch {
		case c.missed >= mostMissed:
			l.quit(c, gone)
			c.err = ErrMissed
		case len(turns) == 0:
			left = append(left, c)
		case !c.accepts(turns[0].due):
			l.quit(c, gone)
			c.err = &Refusal{Wait: turns[0].due.Sub(now)}
		default:
			l.swap(c, turns[0])
			turns = turns[1:]
		}
	}
	for _, t := range turns { // no caller is left for these
		l.Asker.GiveBack(callers[0].request.Ctx, t.grant)
	}
	return left
}

// matches reports whether a caller can exchange its turn with that of a request. A
// turn of a queue that was lost is as good as a turn of its successor.
func (s *Sleeper) matches(r *coalesce.Request) bool {
	return s.request.N == r.N && s.request.Amounts == r.Amounts && s.request.Line == r.Line
}

// yields, under mu, lets callers that called before s, and whose turns are to
// come, go first. There are such callers after a server has lost turns, or its
// clock has leapt ahead. The first of them takes the turn that has come, and
// each of the others the next. It reports whether there are any. Nobody yields
// if a turn would then come too late for a caller.
func (l *Sleepers) yields(s *Sleeper, now time.Time) bool {
	if l.disorder == 0 {
		return false
	}
	callers, turns, left := []*Sleeper{s}, []turn{s.turn}, uint64(0)
	for _, c := range l.sleepers {
		if c != s && c.request.Call <= l.disorder {
			left = max(left, c.request.Call)
		}
		if c.matches(s.request) && c.request.Call < s.request.Call && c.due.After(now) {
			callers, turns = append(callers, c), append(turns, c.turn)
		}
	}
	l.disorder = left
	slices.SortFunc(callers, func(a, b *Sleeper) int { return cmp.Compare(a.request.Call, b.request.Call) })
	slices.SortStableFunc(turns, func(a, b turn) int { return a.due.Compare(b.due) })
	for i, c := range callers {
		if !c.accepts(turns[i].due) {
			return false
		}
	}
	for i, c := range callers {
		l.swap(c, turns[i])
	}
	if len(callers) > 1 {
		l.change()
	}
	return len(callers) > 1
}

// goBefore, under mu, lets a caller that lined up again go before younger
// callers. It takes the first of their turns, and each of them takes the next
// one after its own. A younger caller for whom that would be too late keeps its
// turn.
func (l *Sleepers) goBefore(s *Sleeper) {
	var younger []*Sleeper
	for _, c := range l.sleepers {
		if c.matches(s.request) && c.request.Call > s.request.Call && c.at < s.at {
			younger = append(younger, c)
		}
	}
	spare := s.turn // later than the turns of the younger; the youngest takes it
	for _, c := range slices.Backward(younger) {
		if c.accepts(spare.due) {
			spare = l.swap(c, spare)
		}
	}
	if spare != s.turn {
		l.swap(s, spare)
		l.change()
	}
}

// swap, under mu, gives a caller another turn, and returns its old turn.
func (l *Sleepers) swap(s *Sleeper, other turn) (had turn) {
	l.quit(s, gone)
	had, s.turn = s.turn, other
	l.join(s)
	return had
}

// lineUpAgain, under mu, puts callers in line once more, in the order of their
// calls.
func (l *Sleepers) lineUpAgain(callers []*Sleeper) {
	if len(callers) == 0 {
		return
	}
	slices.SortFunc(callers, func(a, b *Sleeper) int { return cmp.Compare(a.request.Call, b.request.Call) })
	all := make([]*coalesce.Request, len(callers))
	for i, c := range callers {
		l.quit(c, inLine)
		all[i] = c.request
	}
	l.Asker.LineUpAgain(all)
	l.change()
}
