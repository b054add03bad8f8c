package measure

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Stall is a time in which a process stood still: a plain sleep in it was to
// end at From and ended at To, or the server was asked for nothing at From and
// answered at To. Nothing that was measured had a part in it.
type Stall struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Machine is what the machine did during a run, as bystanders saw it.
type Machine struct {
	Clients [][]Stall // by client
	Here    []Stall   // in the process of the upstream, and of the embedded Redis
	Redis   []Stall   // of the server
}

// Worst is the longest stall in the processes, without those of clients that
// something else befell.
func (m Machine) Worst(befallen map[int]bool) (worst time.Duration) {
	all := slices.Clone(m.Here)
	for client, stalls := range m.Clients {
		if !befallen[client] {
			all = append(all, stalls...)
		}
	}
	for _, s := range all {
		worst = max(worst, s.To-s.From)
	}
	return worst
}

// hindrance tells what the machine, and not the engine, did to each call.
type hindrance struct {
	stalls []timeline        // by client: its process stood still, or Redis did
	missed [][]time.Duration // by client: a caller woke too late for its turn
}

func newHindrance(log Log) (h hindrance) {
	m := log.Machine
	for _, stalls := range m.Clients {
		h.stalls = append(h.stalls, newTimeline(stalls, m.Here, m.Redis))
	}
	h.missed = log.Missed
	return h
}

// held is for how long the machine held up a call, at most: it stood still while
// the call waited. No engine has a hand in the way to the upstream.
func (h hindrance) held(c Call) (by time.Duration) {
	if c.Reached {
		by = max(0, c.Arrived-c.Ended)
	}
	if c.Client < len(h.stalls) {
		by += h.stalls[c.Client].within(c.Called, c.Ended)
	}
	return by
}

// cleared is the call without what the machine did to it. An inversion that is
// still there is the engine's work. If a caller of its process missed a turn
// meanwhile, nobody passed it.
func (h hindrance) cleared(c Call) Span {
	meanwhile := func(at time.Duration) bool { return c.Called <= at && at <= c.Gone() }
	if c.Client < len(h.missed) && slices.ContainsFunc(h.missed[c.Client], meanwhile) {
		return Span{c.Called, c.Called}
	}
	by := h.held(c)
	return Span{c.Called + by, c.Gone() - by}
}

// timeline is stalls that lie apart and in order.
type timeline []Stall

func newTimeline(all ...[]Stall) (t timeline) {
	stalls := slices.Concat(all...)
	slices.SortFunc(stalls, func(a, b Stall) int { return cmp.Compare(a.From, b.From) })
	for _, s := range stalls {
		if last := len(t) - 1; last >= 0 && s.From <= t[last].To {
			t[last].To = max(t[last].To, s.To)
		} else {
			t = append(t, s)
		}
	}
	return t
}

// within is how much of the time between two moments was stalled.
func (t timeline) within(from, to time.Duration) (stalled time.Duration) {
	first := sort.Search(len(t), func(i int) bool { return t[i].To > from })
	for _, s := range t[first:] {
		if s.From >= to {
			break
		}
		stalled += max(0, min(to, s.To)-max(from, s.From))
	}
	return stalled
}
