package picture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

const (
	mostBars = 200 // that a picture can hold and still be read

	// overWaits is how many times the usual wait the part spans, so that bars
	// are seen to end as well as to begin.
	overWaits = 4
)

// part is the calls that are drawn. It is the same time, and one call in as
// many, for all runs.
type part struct {
	from, to time.Duration // the calls made then, in the time of the run
	every    int           // one call in so many
	whole    bool          // all calls there are
	apart    time.Duration // how far apart calls must be for their order to count
	bars     [][]metrics.Call
	until    time.Duration // the last bar ends
}

// choose takes everything where it fits; otherwise the middle of the run, and
// of that one call in so many.
func choose(runs []Run, apart time.Duration) part {
	all := make([][]metrics.Call, len(runs))
	p := part{every: 1, apart: apart, bars: make([][]metrics.Call, len(runs))}
	var waited []time.Duration
	most, lasted := 0, time.Duration(0)
	for i, r := range runs {
		all[i] = inOrder(r.Log, apart)
		most, lasted = max(most, len(all[i])), max(lasted, r.Log.End-r.Log.Begin)
		for _, c := range all[i] {
			waited = append(waited, end(c)-c.Called)
		}
	}
	p.to = lasted
	if most > mostBars {
		slices.Sort(waited)
		span := time.Duration(float64(lasted) / float64(most) * mostBars)
		span = min(lasted, max(span, overWaits*waited[len(waited)/2]))
		p.from = (lasted - span) / 2
		p.to = p.from + span
	}
	p.whole = most <= mostBars
	for i, r := range runs {
		p.bars[i] = within(all[i], r.Log.Begin+p.from, r.Log.Begin+p.to)
		p.every = max(p.every, (len(p.bars[i])+mostBars-1)/mostBars)
	}
	p.until = p.to
	for i, r := range runs {
		p.bars[i] = oneIn(p.bars[i], p.every)
		for _, c := range p.bars[i] {
			p.until = max(p.until, end(c)-r.Log.Begin)
		}
	}
	return p
}

// inOrder are the calls that were let through or still waited at the end, in
// the order in which they were made. Those made within apart of the first of
// them have none; they stand in the order in which they were let through.
func inOrder(log metrics.Log, apart time.Duration) (calls []metrics.Call) {
	for _, c := range log.Calls {
		if c.Reached || c.Outcome == metrics.Waiting {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b metrics.Call) int { return cmp.Compare(a.Called, b.Called) })
	for first := 0; first < len(calls); {
		next := first + 1
		for next < len(calls) && calls[next].Called-calls[first].Called < apart {
			next++
		}
		slices.SortStableFunc(calls[first:next], func(a, b metrics.Call) int { return cmp.Compare(end(a), end(b)) })
		first = next
	}
	return calls
}

func within(calls []metrics.Call, from, to time.Duration) (some []metrics.Call) {
	for _, c := range calls {
		if c.Called >= from && c.Called <= to {
			some = append(some, c)
		}
	}
	return some
}

func oneIn(calls []metrics.Call, every int) (some []metrics.Call) {
	for i := 0; i < len(calls); i += every {
		some = append(some, calls[i])
	}
	return some
}

// end is where a bar ends: at the upstream, or with the run.
func end(c metrics.Call) time.Duration {
	if c.Reached {
		return c.Arrived
	}
	return c.Ended
}

// rows is how many bars the fullest picture has.
func (p part) rows() (most int) {
	for _, calls := range p.bars {
		most = max(most, len(calls))
	}
	return most
}

// scope says which calls are drawn.
func (p part) scope() string {
	switch {
	case p.whole:
		return "every call"
	case p.every == 1:
		return fmt.Sprintf("every call made from %s to %s", clock(p.from), clock(p.to))
	default:
		return fmt.Sprintf("1 call in %s, made from %s to %s", grouped(p.every), clock(p.from), clock(p.to))
	}
}

// clock is a time of the run.
func clock(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
