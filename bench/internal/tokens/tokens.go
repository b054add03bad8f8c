// Package tokens compares limiters before an upstream that counts requests, input
// and output, of which nobody knows the output before the end of a call. It runs
// in virtual time.
package tokens

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// Row is a limiter with an estimate.
type Row struct {
	Engine   string  `json:"engine"`
	Quantile float64 `json:"quantile"`       // of the outputs seen, which is the estimate; 0: the most that a call may write
	Cold     bool    `json:"cold,omitempty"` // the estimators have seen nothing when the run begins, else 256 calls
}

// Rows are those of a report.
var Rows = []Row{
	{"fair", 0, false},
	{"fair", 0.9, false},
	{"fair", 0.85, false},
	{"fair", 0.75, false},
	{"fair", 0.75, true},
	{"chained", 0.75, false},
	{"redis_rate", 0.75, false},
	{"rival", 0.75, false},
}

// Figures are what came of a row.
type Figures struct {
	Row
	Calls    int     `json:"calls"`           // that were let through
	Used     float64 `json:"utilization"`     // output, of what was allowed from the second minute on
	Fullest  float64 `json:"max_in_window"`   // output of the fullest minute, of the quota
	Refused  int     `json:"upstream_429"`    // calls that were turned away
	Passed   int     `json:"inversions"`      // pairs of calls out of order by 10 ms and more
	Short    float64 `json:"under_estimated"` // output that the estimates were short of, of all
	Surplus  float64 `json:"over_estimated"`  // what was reserved and not used, of all output
	DebtLeft int     `json:"debt_left"`       // output that is still to be paid at the end, in the line
}

// Report is what a run came to.
type Report struct {
	Scenario  string    `json:"scenario"`
	Simulated bool      `json:"simulated"`
	Seed      uint64    `json:"seed"`
	Seconds   float64   `json:"seconds"`
	Engines   []Figures `json:"engines"`
}

// Role is that of the process in which a row is simulated.
const Role = "tokens"

// job is a row to simulate.
type job struct {
	Row
	Seed     uint64
	Duration time.Duration
}

// Run simulates all rows.
func Run(ctx context.Context, seed uint64, d time.Duration, progress io.Writer) (*Report, error) {
	r := &Report{Scenario: "tokens", Simulated: true, Seed: seed, Seconds: d.Seconds()}
	for _, row := range Rows {
		fmt.Fprintf(progress, "%s, %s\n", row.Engine, row.estimate())
		var f Figures
		if err := run.Ask(ctx, Role, job{row, seed, d}, &f); err != nil {
			return nil, err
		}
		r.Engines = append(r.Engines, f)
	}
	return r, nil
}

func (r Row) estimate() string {
	if r.Quantile == 0 {
		return "max_tokens"
	}
	cold := ""
	if r.Cold {
		cold = ", cold"
	}
	return fmt.Sprintf("%.0f %% quantile%s", 100*r.Quantile, cold)
}

// Table writes the figures for a person.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "\n%d calls, %d input and %d output tokens a minute; %v of virtual time; seed %d\n\n",
		budget.requests, budget.input, budget.output, time.Duration(r.Seconds*1e9), r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\testimate\tcalls\ttokens used\tfullest minute\t429s\tout of order\tunder-estimated\tdebt left")
	for _, f := range r.Engines {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f %%\t%.1f %%\t%d\t%d\t%.1f %%\t%d\n", f.Engine, f.estimate(), f.Calls,
			100*f.Used, 100*f.Fullest, f.Refused, f.Passed, 100*f.Short, f.DebtLeft)
	}
	return t.Flush()
}
