package fair

import (
	"math"
	"strconv"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// What flows hold ahead. Alone a flow may hold what goes in aloneAhead, so that it
// has something to do until its next question is answered. Beside others all hold
// little, so that one that comes does not wait for them.
const (
	aloneAhead  = 250 * time.Millisecond
	besideAhead = 100 * time.Millisecond
)

// flowRules are what follows from the quotas for flows: see lua/fair/flow.lua.
type flowRules struct {
	alone, beside int   // permits
	apart         int64 // microseconds
}

func (r *rules) flowRules() (f flowRules) {
	if len(r.calls) == 0 {
		return f
	}
	rate := r.logs[0].rate()
	f.alone = max(2*r.logs[0].most, int(rate*float64(aloneAhead.Microseconds())))
	f.beside = int(rate * float64(besideAhead.Microseconds()))
	f.apart = int64(1 / rate)
	return f
}

// rate is how many permits the windows allow in a microsecond.
func (u *unitRules) rate() float64 {
	rate := math.Inf(1)
	for _, w := range u.windows {
		rate = min(rate, float64(w.permits)/float64(w.length))
	}
	return rate
}

// cost is how many permits of calls a request is worth in the share of its flow:
// it counts by the unit of which it takes the most.
func (r *rules) cost(n int, amounts engine.Amounts) int {
	cost := max(n, 1)
	if amounts == "" {
		return cost
	}
	all := amounts.All()
	for i := range r.logs[1:] {
		u := &r.logs[1+i]
		cost = max(cost, int(math.Ceil(float64(all[u.unit])*r.logs[0].rate()/u.rate())))
	}
	return cost
}

// flow is a flow, zero for none.
type flow struct {
	id     string
	weight int
}

// args appends what lua/fair/flow.lua is told.
func (f *flow) args(args []any, r *rules) []any {
	if f.id == "" {
		return append(args, "", 0, 0, 0)
	}
	return append(args, strconv.Itoa(f.weight)+" "+f.id, r.flow.alone, r.flow.beside, r.flow.apart)
}
