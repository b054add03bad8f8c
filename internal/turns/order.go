package turns

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// This file keeps callers in the order of their calls. Callers of one line that
// ask for as many permits can exchange their turns, and whoever called first
// takes the first. A caller keeps its own turn if another would come too late
// for it.

// order is the order of the sleepers.
func order(a, b *Sleeper) int { return cmp.Or(cmp.Compare(a.grant.At, b.grant.At), byCall(a, b)) }

func byCall(a, b *Sleeper) int { return cmp.Compare(a.request.Call, b.request.Call) }

// matches reports whether a caller can exchange its turn with that of a request.
// A turn of a queue that was lost is as good as a turn of its successor.
func (s *Sleeper) matches(r *coalesce.Request) bool {
	return s.request.N == r.N && s.request.Amounts == r.Amounts && s.request.Line == r.Line
}

// matching, under mu, are the callers that can exchange their turns with s, and
// s itself.
func (l *Sleepers) matching(s *Sleeper) []*Sleeper {
	var all []*Sleeper
	for _, c := range l.sleepers {
		if c.matches(s.request) {
			all = append(all, c)
		}
	}
	return all
}

// passes reports whether a caller has an earlier turn than one that called
// before it, and with which it can exchange turns.
func (s *Sleeper) passes(older *Sleeper) bool {
	return older.request.Call < s.request.Call && older.due.After(s.due) && older.matches(s.request)
}

// keepOrder, under mu, exchanges turns if s passes a caller, or a caller passes
// s: a server may have lost turns, or its clock may have leapt ahead. It reports
// whether s has another turn now.
func (l *Sleepers) keepOrder(s *Sleeper, now time.Time) bool {
	if !slices.ContainsFunc(l.sleepers, func(c *Sleeper) bool { return s.passes(c) || c.passes(s) }) {
		return false
	}
	had, callers := s.turn, l.matching(s)
	turns := make([]turn, len(callers))
	for i, c := range callers {
		l.reckon(c)
		turns[i] = c.turn
	}
	l.deal(callers, turns, now)
	return s.turn != had
}

// letOlderGo, under mu, wakes callers that called before s and sleep on though
// their turns have come: newer news told a turn better. It reports whether there
// are any.
func (l *Sleepers) letOlderGo(s *Sleeper, now time.Time) bool {
	found := false
	for _, c := range l.sleepers {
		oversleeps := c.wakes.After(now) && !c.due.After(now)
		if oversleeps && c.request.Call < s.request.Call && c.matches(s.request) {
			c.wakes, found = now, true
		}
	}
	if found {
		l.change()
	}
	return found
}

// deal, under mu, gives the first turn to the caller that called first, and so
// on. A caller for whom its turn would come too late keeps its own if that is
// one of the turns, and is refused otherwise. There are no more turns than
// callers. It returns the callers for whom no turn is left.
func (l *Sleepers) deal(callers []*Sleeper, turns []turn, now time.Time) []*Sleeper {
	slices.SortFunc(callers, byCall)
	slices.SortStableFunc(turns, func(a, b turn) int { return a.due.Compare(b.due) })
	for i := 0; i < len(turns); {
		c := callers[i]
		if c.accepts(turns[i].due) {
			i++
			continue
		}
		callers = slices.Delete(callers, i, i+1)
		if own := slices.Index(turns, c.turn); own >= 0 {
			turns = slices.Delete(turns, own, own+1)
			i = min(i, own) // from there on, callers have later turns now
			continue
		}
		l.quit(c, gone)
		c.err = l.refusal(c, turns[i].due, now)
	}
	exchanged := false
	for i, turn := range turns {
		if c := callers[i]; c.turn != turn {
			l.quit(c, gone)
			c.turn = turn
			l.join(c)
			exchanged = true
		}
	}
	if exchanged {
		l.change()
	}
	return callers[len(turns):]
}
