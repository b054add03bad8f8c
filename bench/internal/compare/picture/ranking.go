package picture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// How many clients a picture can hold.
const (
	mostCurves  = 8
	mostColumns = 40
)

// ranking is what the pictures of all runs must agree on to be drawn to one
// scale.
type ranking struct {
	longest time.Duration // wait
	most    float64       // grants per caller
	lasted  time.Duration // the run
	largest float64       // grants of a client
}

func newRanking(runs []Run) (r ranking) {
	for _, run := range runs {
		r.lasted = max(r.lasted, run.Log.End-run.Log.Begin)
		for _, c := range clientsOf(run.Log) {
			if len(c.waits) > 0 {
				r.longest = max(r.longest, c.waits[len(c.waits)-1])
			}
			r.largest = max(r.largest, float64(len(c.waits)))
			r.most = max(r.most, c.perCaller)
		}
	}
	return r
}

// client is what one client got.
type client struct {
	number    int
	waits     []time.Duration // ascending
	perCaller float64
}

func (c client) median() time.Duration {
	if len(c.waits) == 0 {
		return 0
	}
	return c.waits[len(c.waits)/2]
}

func clientsOf(log metrics.Log) []client {
	clients := make([]client, len(log.Callers))
	for _, call := range log.Calls {
		if call.Outcome == metrics.Granted {
			clients[call.Client].waits = append(clients[call.Client].waits, call.Ended-call.Called)
		}
	}
	for i := range clients {
		c := &clients[i]
		c.number = i
		slices.Sort(c.waits)
		c.perCaller = float64(len(c.waits)) / float64(max(1, log.Callers[i]))
	}
	return clients
}

// some picks at most so many clients, evenly from the one that comes first by
// the measure to the one that comes last, and says so.
func some[T cmp.Ordered](clients []client, most int, measure func(client) T) ([]client, string) {
	if len(clients) <= most {
		return clients, "every client"
	}
	slices.SortStableFunc(clients, func(a, b client) int { return cmp.Compare(measure(a), measure(b)) })
	picked := make([]client, most)
	for i := range picked {
		picked[i] = clients[i*(len(clients)-1)/(most-1)]
	}
	return picked, fmt.Sprintf("%d of %s clients, from the least to the most", most, grouped(len(clients)))
}
