package fair

import (
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// debts are what the flows of a limiter used beyond what they had reserved, and
// what has not passed yet. Until then a flow that holds turns ahead holds that
// much more.
type debts struct {
	mu sync.Mutex
	of map[string][]debt // by flow, the newest last
}

type debt struct {
	cost  int // as of a turn: see CostOf
	until time.Time
}

// learn takes in what turns owed as they were settled. It was booked up to a slot.
func (d *debts) learn(f *fair, settled []engine.Grant, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range settled {
		cost := f.costOfDebt(g)
		if g.Flow == "" || cost == 0 {
			continue
		}
		if d.of == nil {
			d.of = map[string][]debt{}
		}
		d.of[g.Flow] = append(d.of[g.Flow], debt{cost, until})
	}
}

// ahead is what a flow holds ahead besides what its callers know of.
func (d *debts) ahead(flow *engine.Flow) int {
	if flow == nil || flow.Ahead == 0 { // it can always hold one request
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, cost := time.Now(), 0
	owes := slices.DeleteFunc(d.of[flow.ID], func(o debt) bool { return now.After(o.until) })
	if len(owes) == 0 {
		delete(d.of, flow.ID)
		return 0
	}
	d.of[flow.ID] = owes
	for _, o := range owes {
		cost += o.cost
	}
	return cost
}

// costOfDebt is what a turn used beyond what it had reserved.
func (f *fair) costOfDebt(settled engine.Grant) int {
	var owed []engine.Amount
	if !settled.Settles {
		return 0
	}
	for _, a := range settled.Amounts.All() {
		if a.N < 0 {
			owed = append(owed, engine.Amount{Unit: a.Unit, N: -a.N})
		}
	}
	calls := max(0, -settled.N)
	if calls == 0 && len(owed) == 0 {
		return 0
	}
	return f.CostOf(calls, engine.AmountsOf(owed...))
}
