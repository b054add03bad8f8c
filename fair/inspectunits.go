package fair

import (
	"errors"
	"strings"
)

// Parts of the key of the units, in bytes: see doc.go and lua/fair/units.lua.
const (
	unitLineBytes = 134
	unitBytes     = ringCells*cellBytes + 40*28
)

// unitLog is the log of one unit, on the clock of its queue.
type unitLog struct {
	name string
	*contents
}

// readUnits returns none if those that are stored are of another generation.
func (s *contents) readUnits(text string) (units []unitLog, err error) {
	if text == "" {
		return nil, nil
	}
	r := &reader{rest: text}
	first, second := strings.Split(r.line(), " "), strings.Split(r.line(), " ")
	r.want(first[0] == "units1" && len(second) == 3)
	if !r.damaged && second[0] != s.generation {
		return nil, nil
	}
	for _, word := range first[1:] {
		name, windows, _ := strings.Cut(word, ":")
		own := *s
		own.readUnit(r, windows)
		units = append(units, unitLog{name, &own})
	}
	for _, u := range units {
		u.readRing(r)
		r.rest = r.rest[min(unitBytes, len(r.rest)):]
	}
	if r.damaged {
		return nil, errors.New("not the units of a queue, or damaged")
	}
	return units, nil
}

// readUnit reads the fields that a unit has for itself.
func (s *contents) readUnit(r *reader, windows string) {
	s.readWindows(r, windows)
	n := r.numbers(r.take(unitLineBytes), 10)
	s.sequence, s.last, s.crowded, s.coarse, s.span, s.base = n[0], n[1], n[2], n[3], n[4], n[5]
	s.closed, s.oldest = n[7], n[8]
	for range s.windows {
		r.numbers(r.take(windowBytes), 2)
	}
}

// tell is what is known of the unit. The newest slot of calls is the tail of
// all.
func (u unitLog) tell(calls *contents, state *State, server int64) Unit {
	l := &line{u.contents, state.news, server}
	told := Unit{
		Name: u.name, Windows: l.uses(), Next: l.next(calls.last), Backlog: l.backlog(), Sequence: u.sequence,
	}
	told.Available = available(told.Windows, told.Next)
	if l.counts() {
		told.line = l
	}
	return told
}
