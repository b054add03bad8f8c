package tokens

import (
	"sync"
	"time"
)

// budget is what the upstream allows in a minute.
var budget = struct{ requests, input, output int }{200, 400_000, 100_000}

// upstream counts requests, input and output in sliding windows of a minute. The
// output of a call counts from its arrival, as far as it is written. A call is
// refused if there is no room for its request or its input, or none for output
// at all.
type upstream struct {
	mu      sync.Mutex
	calls   []*call
	refused int
}

// call is one that was let through.
type call struct {
	asked, arrived time.Time // when its caller asked first, and when it came
	input, output  int
	took           time.Duration
}

// written is what of the output is written until a moment.
func (c *call) written(now time.Time) int {
	if past := now.Sub(c.arrived); past < c.took {
		return int(float64(c.output) * float64(past) / float64(c.took))
	}
	return c.output
}

// arrive lets a call in that comes now, or refuses it.
func (u *upstream) arrive(c *call) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.arrived = time.Now()
	requests, input, output := 1, c.input, 0
	for i := len(u.calls) - 1; i >= 0 && c.arrived.Sub(u.calls[i].arrived) < time.Minute; i-- {
		requests, input, output = requests+1, input+u.calls[i].input, output+u.calls[i].written(c.arrived)
	}
	if requests > budget.requests || input > budget.input || output >= budget.output {
		u.refused++
		return false
	}
	u.calls = append(u.calls, c)
	return true
}

// fullest is the most output of any minute.
func (u *upstream) fullest() (most int) {
	sum, oldest := 0, 0
	for _, c := range u.calls {
		sum += c.output
		for c.arrived.Sub(u.calls[oldest].arrived) >= time.Minute {
			sum -= u.calls[oldest].output
			oldest++
		}
		most = max(most, sum)
	}
	return most
}

// passed counts the pairs of calls of which one was asked for at least apart
// later than the other, and arrived at least apart earlier.
func (u *upstream) passed(apart time.Duration) (pairs int) {
	for i, c := range u.calls {
		for _, later := range u.calls[i+1:] {
			if later.arrived.Sub(c.arrived) >= apart && c.asked.Sub(later.asked) >= apart {
				pairs++
			}
		}
	}
	return pairs
}
