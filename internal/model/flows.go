package model

import (
	"math"
	"slices"
)

const (
	mostFlows   = 64 // entries are kept at most
	flowLetters = 5
)

// Flows is what the state keeps of those who share the queue: who is active,
// and so what each may hold ahead.
type Flows struct {
	Grace       int64 // how long a flow is active after its newest slot
	Most, Least int   // that all hold ahead

	entries []*flowEntry
	many    bool // more ask than there are entries
}

// flowEntry is one process of one flow. Its id is 8 letters, the first 5 of
// which are those of the flow.
type flowEntry struct {
	id           string
	weight, need int
	wants        int
	ends         int64
}

func (e *flowEntry) flow() string { return e.id[:flowLetters] }

// Asker is one who asks: with Need, the most permits of one of its requests, and
// Wants, how many its callers hold or want.
type Asker struct {
	ID                  string
	Weight, Need, Wants int
}

// Enter takes down all who ask at a moment, and returns the share of each. Those
// for whom there is no entry hold one request ahead.
func (f *Flows) Enter(now int64, askers ...Asker) (shares []int) {
	f.dropPassed(now)
	entries := make([]*flowEntry, len(askers))
	for i, a := range askers {
		entries[i] = f.enter(a)
		f.many = f.many || entries[i] == nil
	}
	f.many = f.many && len(f.entries) >= mostFlows
	worth := f.worth()
	for i, e := range entries {
		share := askers[i].Need
		if e != nil {
			share = f.shareOf(e, askers[i].Weight, worth)
		}
		shares = append(shares, share)
	}
	return shares
}

// Holds notes that one who asked holds a turn at the slot.
func (f *Flows) Holds(id string, slot int64) {
	if e := f.own(id); e != nil {
		e.ends = max(e.ends, (slot+f.Grace+9999)/10000*10000)
	}
}

// Written drops those who asked and hold nothing. It returns how many are left.
func (f *Flows) Written() int {
	f.dropPassed(0)
	return len(f.entries)
}

func (f *Flows) dropPassed(now int64) {
	kept := f.entries[:0]
	for _, e := range f.entries {
		if e.ends > now {
			kept = append(kept, e)
		}
	}
	f.entries = kept
}

// own is the entry of an id, nil if it has none.
func (f *Flows) own(id string) *flowEntry {
	for _, e := range f.entries {
		if e.id == id {
			return e
		}
	}
	return nil
}

// enter returns nil if there are too many.
func (f *Flows) enter(a Asker) *flowEntry {
	if f.own(a.ID) == nil && len(f.entries) >= mostFlows {
		return nil
	}
	return f.put(a)
}

// put has the newest weight of a flow hold for all its processes.
func (f *Flows) put(a Asker) *flowEntry {
	e := f.own(a.ID)
	if e == nil {
		e = &flowEntry{id: a.ID}
		f.entries = append(f.entries, e)
	}
	e.need = a.Need
	if a.Wants > e.wants || 2*a.Wants <= e.wants { // a little less changes nothing
		e.wants = a.Wants
	}
	for _, other := range f.entries {
		if other.flow() == e.flow() {
			other.weight = a.Weight
		}
	}
	return e
}

// worth is what a permit of weight is worth: a whole number of permits for the
// weights in lowest terms, unless the look-ahead is too short for one. It is
// what the flow with the fewest callers can keep up with, within the bounds of
// the look-ahead, and so much that each process can make one of its requests.
func (f *Flows) worth() float64 {
	type group struct {
		flow                string
		weight, need, wants int
	}
	var groups []group
	sum, divisor := 0, 0
	for _, e := range f.entries {
		i := slices.IndexFunc(groups, func(g group) bool { return g.flow == e.flow() })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{flow: e.flow(), weight: e.weight})
			sum, divisor = sum+e.weight, commonDivisor(e.weight, divisor)
		}
		groups[i].need += e.need
		groups[i].wants += e.wants
	}
	worth := float64(f.Most) / float64(sum/divisor)
	if len(groups) > 1 {
		for _, g := range groups {
			worth = min(worth, math.Ceil(float64(g.wants)/float64(g.weight/divisor)))
		}
		worth = max(worth, float64(f.Least)/float64(sum/divisor))
	}
	if f.many {
		worth = 0
	}
	if worth >= 1 {
		worth = math.Floor(worth)
	}
	for _, g := range groups {
		least := float64(g.need) / float64(g.weight/divisor)
		if least >= 1 {
			least = math.Ceil(least)
		}
		worth = max(worth, least)
	}
	return worth / float64(divisor)
}

// shareOf is the part of one process, in the order in which they came.
func (f *Flows) shareOf(e *flowEntry, weight int, worth float64) int {
	share, members, rank := int(worth*float64(weight)+0.5), 0, 0
	for _, other := range f.entries {
		if other.flow() == e.flow() {
			members++
			if other == e {
				rank = members
			}
		}
	}
	part := share / members
	if rank <= share%members {
		part++
	}
	return max(1, part)
}

func commonDivisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
