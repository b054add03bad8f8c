// Package picture draws a run: who waited how long, in which order, and who got
// how much. All engines of a scenario are drawn to the same scales, so that
// their pictures may be laid side by side.
package picture

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
)

// Run is what one engine did, and what is to stand above its pictures.
type Run struct {
	Engine    string
	Caption   string // the figures that the picture shows; may be empty
	Simulated bool
	Log       metrics.Log
}

// Set is the pictures of one run.
type Set struct {
	Engine string
	Waits  Drawing // every call as a bar, in the order of the calls
	CDF    Drawing // how long each client's calls waited
	Gains  Drawing // how much each client had got by when
	Shares Drawing // how much each client got
}

// All are the drawings of the set, by the names of their files.
func (s Set) All() map[string]Drawing {
	return map[string]Drawing{"waits": s.Waits, "cdf": s.CDF, "gains": s.Gains, "shares": s.Shares}
}

// Draw draws the runs of one scenario. Calls less than apart from each other
// have no order.
func Draw(runs []Run, apart time.Duration) (sets []Set, err error) {
	part, ranking := choose(runs, apart), newRanking(runs)
	for i, run := range runs {
		set := Set{Engine: run.Engine}
		if set.Waits, err = waits(run, part, i); err != nil {
			return nil, err
		}
		if set.CDF, err = cdf(run, ranking); err != nil {
			return nil, err
		}
		if set.Gains, err = gains(run, ranking); err != nil {
			return nil, err
		}
		if set.Shares, err = shares(run, ranking); err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// title is what the picture is of.
func (r Run) title(what string) string {
	title := r.Engine + ": " + what
	if r.Simulated {
		title += " (simulation)"
	}
	return title
}

func grouped(n int) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
