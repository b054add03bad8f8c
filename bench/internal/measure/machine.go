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
	look := func(stalls []Stall) {
		for _, s := range stalls {
			worst = max(worst, s.To-s.From)
		}
	}
	look(m.Here)
	for client, stalls := range m.Clients {
		if !befallen[client] {
			look(stalls)
		}
	}
	return worst
}

// hindrance tells what the machine, and not the engine, did to each call.
type hindrance struct {
	atHome []timeline        // by client: its process stood still
	asking []timeline        // by client: its process did, or Redis
	missed [][]time.Duration // by client: it woke too late for a turn
}

func newHindrance(m Machine) (h hindrance) {
	for _, stalls := range m.Clients {
		h.atHome = append(h.atHome, newTimeline(stalls))
		h.asking = append(h.asking, newTimeline(stalls, m.Here, m.Redis))
	}
	return h
}

// cleared is the call without what the machine did to it. An inversion that is
// still there is the engine's work. If its process missed a turn meanwhile, its
// callers took each other's turns, and nobody passed it.
func (h hindrance) cleared(c Call) Span {
	meanwhile := func(at time.Duration) bool { return c.Called <= at && at <= c.Gone() }
	if c.Client < len(h.missed) && slices.ContainsFunc(h.missed[c.Client], meanwhile) {
		return Span{c.Called, c.Called}
	}
	return Span{c.Called + h.before(c), c.Gone() - h.answering(c) - h.after(c)}
}

// before is by how much the machine held up the call's question, at most: it
// stood still between the call and the answer.
func (h hindrance) before(c Call) time.Duration {
	if c.Turn == nil || c.Client >= len(h.asking) {
		return 0
	}
	return h.asking[c.Client].within(c.Called, c.Turn.Replied)
}

// answering is by how much the machine may have held up the answer that won the
// turn.
func (h hindrance) answering(c Call) time.Duration {
	if c.Turn == nil || c.Client >= len(h.asking) {
		return 0
	}
	return h.asking[c.Client].within(c.Turn.Sent, c.Turn.Replied)
}

// after is by how much the machine held up the call once it could go: its
// process stood still when it was to wake up, and then there is the way to the
// upstream, on which no engine has a hand.
func (h hindrance) after(c Call) (d time.Duration) {
	if c.Turn != nil && c.Client < len(h.atHome) {
		d = h.atHome[c.Client].within(c.Turn.Due(), c.Ended)
	}
	if c.Reached {
		d += max(0, c.Arrived-c.Ended)
	}
	return d
}

// unexplained is how late the call woke up beyond what the machine is known to
// have done.
func (h hindrance) unexplained(c Call) time.Duration {
	if c.Turn == nil || c.Client >= len(h.atHome) {
		return 0
	}
	due := c.Turn.Due()
	return max(0, c.Ended-due-h.atHome[c.Client].within(due, c.Ended))
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

// Stalled is how much of the time between two moments was stalled.
func Stalled(stalls []Stall, from, to time.Duration) time.Duration {
	return newTimeline(stalls).within(from, to)
}
