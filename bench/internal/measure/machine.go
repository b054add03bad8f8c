package measure

import (
	"slices"
	"time"
)

// Stall is a time in which a process stood still: a plain sleep in it was to
// end at From and ended at To, or the server was asked for nothing at From and
// answered at To. Nothing that was measured had a part in it.
type Stall struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Machine is what the machine did during a run to each client, as bystanders
// saw it.
type Machine struct {
	Stalls [][]Stall         // by From: of its process, and of those that all need
	Missed [][]time.Duration // when a caller woke too late for its turn
}

// Worst is the longest stall, without those of the first client if something else
// befell it.
func (m Machine) Worst(befallen bool) (worst time.Duration) {
	clients := m.Stalls
	if befallen {
		clients = clients[1:]
	}
	for _, s := range slices.Concat(clients...) {
		worst = max(worst, s.To-s.From)
	}
	return worst
}

// hindered is for how long the machine, and not the engine, held up a call at
// most: its process, or one that all need, stood still while the call was under
// way. If a caller of its process missed a turn meanwhile, the call's place in
// the order is the machine's work.
func (m Machine) hindered(c Call) (by time.Duration, missed bool) {
	counted := c.Called // until when stalls are counted
	for _, s := range m.Stalls[c.Client] {
		from, to := max(counted, s.From), min(s.To, c.Gone())
		by, counted = by+max(0, to-from), max(counted, s.To)
	}
	missed = slices.ContainsFunc(m.Missed[c.Client], func(at time.Duration) bool {
		return c.Called <= at && at <= c.Gone()
	})
	return by, missed
}
