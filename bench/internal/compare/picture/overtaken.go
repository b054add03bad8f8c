package picture

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// overtaking knows from when on later calls kept a call waiting. It goes by the
// rule by which the figures count inversions. So a run without inversions has
// no overtaking.
type overtaking struct {
	apart  time.Duration
	called []time.Duration // by those who waited, ascending
	first  []time.Duration // arrival of all those who called then or later
}

func newOvertaking(log metrics.Log, apart time.Duration) overtaking {
	o := overtaking{apart: apart}
	var passers []metrics.Call
	for _, c := range log.Calls {
		if c.Reached && c.Arrived-c.Called >= apart {
			passers = append(passers, c)
		}
	}
	slices.SortFunc(passers, func(a, b metrics.Call) int { return cmp.Compare(a.Called, b.Called) })
	o.called, o.first = make([]time.Duration, len(passers)), make([]time.Duration, len(passers))
	first := time.Duration(math.MaxInt64)
	for i, c := range slices.Backward(passers) {
		first = min(first, c.Arrived)
		o.called[i], o.first[i] = c.Called, first
	}
	return o
}

// since is when the first later call went ahead of the call, or the call's end
// if none did.
func (o overtaking) since(c metrics.Call) time.Duration {
	i, _ := slices.BinarySearch(o.called, c.Called+o.apart)
	if i == len(o.called) || o.first[i] > end(c)-o.apart {
		return end(c)
	}
	return o.first[i]
}
