package fair

import (
	"slices"
	"sync"

	"github.com/fairlimit/fairlimit/engine"
)

// debts are what the flows of a limiter used beyond what they had reserved, and
// what has not passed yet. Until then a flow that holds turns ahead holds that
// much more. They end with the queue that they are owed to.
type debts struct {
	mu sync.Mutex
	of map[string][]debt // by flow, the newest last
}

type debt struct {
	cost  int // as of a turn: see CostOf
	queue string
	slot  int64 // up to which it was booked
}

// learn takes in what turns owed as they were settled.
func (d *debts) learn(f *fair, part []engine.Grant, seen watermark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range part {
		cost := f.costOfDebt(g)
		if g.Flow == "" || cost == 0 || g.ID != seen.generation() {
			continue
		}
		d.of[g.Flow] = append(d.of[g.Flow], debt{cost, g.ID, seen.newest})
	}
}

// ahead is what a flow holds ahead besides what its callers know of.
func (d *debts) ahead(flow *engine.Flow, m *memory) int {
	if flow == nil || flow.Ahead == 0 { // it can always hold one request
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	owes := slices.DeleteFunc(d.of[flow.ID], func(o debt) bool { return !m.isAhead(o.queue, o.slot) })
	d.of[flow.ID] = owes
	if len(owes) == 0 {
		delete(d.of, flow.ID)
	}
	cost := 0
	for _, o := range owes {
		cost += o.cost
	}
	return cost
}

// costOfDebt is what a turn used beyond what it had reserved.
func (f *fair) costOfDebt(settled engine.Grant) int {
	calls, owed := max(0, -settled.N), []engine.Amount{}
	for _, a := range settled.Amounts.All() {
		if a.N < 0 {
			owed = append(owed, engine.Amount{Unit: a.Unit, N: -a.N})
		}
	}
	if !settled.Settles || calls == 0 && len(owed) == 0 {
		return 0
	}
	return f.CostOf(calls, engine.AmountsOf(owed...))
}
