package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// Quantiles are in milliseconds.
type Quantiles struct {
	P50 MS `json:"p50"`
	P99 MS `json:"p99"`
	Max MS `json:"max"`
}

// MS is a duration, in milliseconds in JSON.
type MS time.Duration

func (ms MS) String() string {
	if d := time.Duration(ms); d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return time.Duration(ms).Round(10 * time.Millisecond).String()
}

// MarshalJSON writes a number.
func (ms MS) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(ms) / float64(time.Millisecond))
}

// Part is a part of a whole, which is 1.
type Part float64

func (p Part) String() string { return fmt.Sprintf("%.1f %%", 100*float64(p)) }

// quantiles are by nearest rank; of nothing they are 0.
func quantiles(durations []time.Duration) Quantiles {
	if len(durations) == 0 {
		return Quantiles{}
	}
	slices.Sort(durations)
	rank := func(q float64) MS {
		return MS(durations[int(math.Ceil(q*float64(len(durations))))-1])
	}
	return Quantiles{P50: rank(0.50), P99: rank(0.99), Max: rank(1)}
}

// waits are from call to return, of those that were let through.
func waits(calls []Call) (d []time.Duration) {
	for _, c := range calls {
		if c.Outcome == Granted {
			d = append(d, c.Ended-c.Called)
		}
	}
	return d
}

// longestStarved is the longest time in which a call waited and its client got
// nothing.
func longestStarved(calls []Call) (longest time.Duration) {
	granted := map[int][]time.Duration{} // by client, in order
	for _, c := range calls {
		if c.Outcome == Granted {
			granted[c.Client] = append(granted[c.Client], c.Gone())
		}
	}
	for _, at := range granted {
		slices.Sort(at)
	}
	for _, c := range calls {
		since, got := c.Called, granted[c.Client]
		next, _ := slices.BinarySearch(got, c.Called)
		for _, at := range got[next:] {
			if at >= c.Gone() {
				break
			}
			longest, since = max(longest, at-since), at
		}
		longest = max(longest, c.Gone()-since)
	}
	return longest
}

// Share is what one client got.
type Share struct {
	Callers int `json:"callers"`
	Grants  int `json:"grants"`
	Permits int `json:"permits"` // of those grants; this is what is shared
}

func shares(log Log) []Share {
	got := make([]Share, len(log.Callers))
	for client, callers := range log.Callers {
		got[client].Callers = callers
	}
	for _, c := range log.Calls {
		if c.Outcome == Granted {
			got[c.Client].Grants++
			got[c.Client].Permits += c.Permits
		}
	}
	return got
}

// jain is Jain's index, (Σx)²/(nΣx²) with x what a client got for each of its
// callers: 1 when all got the same, 1/n when one got everything. Where nobody got
// anything, all got the same. The second figure is the largest x over the
// smallest, nil where one got nothing.
func jain(got []Share) (index float64, maxOverMin *float64) {
	var sum, squares float64
	least, most := math.Inf(1), 0.0
	for _, s := range got {
		x := float64(s.Permits) / float64(s.Callers)
		sum, squares = sum+x, squares+x*x
		least, most = min(least, x), max(most, x)
	}
	if squares == 0 {
		return 1, nil
	}
	if least > 0 {
		ratio := most / least
		maxOverMin = &ratio
	}
	return sum * sum / (float64(len(got)) * squares), maxOverMin
}

// smallest is the part of all permits that the client with the fewest got. It
// counts from two windows after the first grant on: until then, whoever asked
// first may have taken what goes ahead of all shares.
func smallest(log Log, arrived []Call, rule Rule) Part {
	got, sum := make([]int, len(log.Callers)), 0
	for _, c := range arrived {
		if c.Arrived >= arrived[0].Arrived+2*rule.Per {
			got[c.Client] += c.Permits
			sum += c.Permits
		}
	}
	if sum == 0 {
		return 0
	}
	return Part(slices.Min(got)) / Part(sum)
}
