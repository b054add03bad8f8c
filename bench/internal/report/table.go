package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// row is one line of the table: what it is called, what a reader must know, and
// what it says of an engine.
type row struct {
	name, note string
	main       bool // one of those that matter most
	cell       func(Engine) string
}

// nothing is the cell of an engine that a row says nothing about. A row of such
// cells is left out.
const nothing = "–"

func (r Report) rows() (told []row) {
	all := []row{
		{"grants", "calls that got their turn", true, count(func(e Engine) int { return e.Grants })},
		{"refused", "calls whose turn would come too late", false, rare(func(e Engine) int { return e.Refused })},
		{"gave up", "calls that did not want to wait any longer", false, rare(func(e Engine) int { return e.Left })},
		{"failed", "calls that got an error", false, rare(func(e Engine) int { return e.Failed })},
		{"inversions", fmt.Sprintf("pairs out of order by %v or more", short(r.ApartMS)), r.shares == nil, inversions},
		{
			"max overtake", "most calls that passed a single one", r.shares == nil,
			count(func(e Engine) int { return e.MaxOvertake }),
		},
		{"upstream 429s", "calls turned away", true, rejections},
		{
			"max in window", fmt.Sprintf("permits in any %v; %d allowed", short(r.Quota.PerMS), r.Quota.Permits), true,
			count(func(e Engine) int { return e.MaxInWindow }),
		},
		{
			"max of one", fmt.Sprintf("permits of one client; its ceiling is %s", r.Quota.Ceiling), true,
			known(func(e Engine) *int { return e.MaxOfOne }, strconv.Itoa),
		},
		{"missed turns", "this machine woke too late; given back", true, rare(func(e Engine) int { return e.MissedTurns })},
		{"utilization", r.utilized(), true, func(e Engine) string { return percent(e.Utilization) }},
		{
			"fullest window", "output of its calls, of the quota", true,
			known(output, func(o measure.Output) string { return percent(o.Fullest) }),
		},
		{
			"at most", "the quota, and that window's output beyond the estimates", true,
			known(output, func(o measure.Output) string { return percent(o.AtMost) }),
		},
		{
			"unknown then", "of that, what was not known when its last call asked", true,
			known(output, func(o measure.Output) string { return percent(o.Unknown) }),
		},
		{
			"debt", "output beyond the estimates, of all output", true,
			known(output, func(o measure.Output) string { return percent(o.Debt) }),
		},
		{"smallest share", "of all permits, of the client that got the fewest", true, r.smallest},
		{"Jain index", "of the clients' shares a caller; 1 is equal", false, jain},
		{"best / worst", "client's share", false, ratio},
		{"starved", "longest that a waiting client got nothing", false, starved},
		{"wait p50", "from call to turn", false, func(e Engine) string { return short(e.WaitMS.P50) }},
		{"wait p99", "99 % of the calls waited no longer", true, func(e Engine) string { return short(e.WaitMS.P99) }},
		{"wait max", "", false, func(e Engine) string { return short(e.WaitMS.Max) }},
		{
			"few wait", "median of the clients with the fewest callers", true,
			known(func(e Engine) *float64 { return e.FewWaitMS }, short),
		},
		{
			"few wait alone", "likewise, if the greedy clients do not call", true,
			known(func(e Engine) *float64 { return e.FewWaitAloneMS }, short),
		},
		{"early", "turns taken before their time", false, early},
		{
			"late p50 / p99", "after their time", false,
			known(func(e Engine) *measure.Quantiles { return e.LatenessMS },
				func(q measure.Quantiles) string { return fmt.Sprintf("%.1f / %.1f ms", q.P50, q.P99) }),
		},
		{"Redis calls", "a grant" + r.countedBy(), true, calls},
		{"delay spread", "from slot to arrival", false, known(func(e Engine) *float64 { return e.SpreadMS }, short)},
	}
	for _, row := range all {
		if slices.ContainsFunc(r.Engines, func(e Engine) bool { return row.cell(e) != nothing }) {
			told = append(told, row)
		}
	}
	return told
}

func count(n func(Engine) int) func(Engine) string {
	return func(e Engine) string { return strconv.Itoa(n(e)) }
}

// rare is a cell that says nothing of 0.
func rare(n func(Engine) int) func(Engine) string {
	return func(e Engine) string {
		if n(e) == 0 {
			return nothing
		}
		return strconv.Itoa(n(e))
	}
}

// known is the cell of a figure that not every engine has.
func known[T any](figure func(Engine) *T, said func(T) string) func(Engine) string {
	return func(e Engine) string {
		if figure(e) == nil {
			return nothing
		}
		return said(*figure(e))
	}
}

func output(e Engine) *measure.Output { return e.Output }

// utilized is what utilization is of.
func (r Report) utilized() string {
	if r.tokens != nil {
		return "output, of what quota and guard allow"
	}
	return "of what quota and guard allow"
}

func inversions(e Engine) string { return apart(e.Inversions, e.MachineInversions) }
func rejections(e Engine) string { return apart(e.UpstreamRejections, e.MachineRejections) }
func jain(e Engine) string       { return fmt.Sprintf("%.4f", e.Jain) }
func starved(e Engine) string    { return short(e.LongestStarvedMS) }
func calls(e Engine) string      { return fmt.Sprintf("%.2f", e.RedisCallsPerGrant) }

var early = known(func(e Engine) *int { return e.Early }, strconv.Itoa)

// apart is a count of the engine's doings, and that of the machine's if there
// are any.
func apart(engines, machines int) string {
	if machines == 0 {
		return strconv.Itoa(engines)
	}
	return fmt.Sprintf("%d (+%d)", engines, machines)
}

func ratio(e Engine) string {
	if e.ShareMaxOverMin == nil {
		return "one got 0"
	}
	return fmt.Sprintf("%.2f", *e.ShareMaxOverMin)
}

// smallest says nothing where clients are no flows.
func (r Report) smallest(e Engine) string {
	if r.shares == nil {
		return nothing
	}
	return percent(e.SmallestShare)
}

// legend explains the cells that have a second count. It is empty if there are
// none.
func (r Report) legend() string {
	for _, e := range r.Engines {
		if e.MachineInversions+e.MachineRejections > 0 {
			return "6 (+12): 6, and 12 more by the machine"
		}
	}
	return ""
}

// widest is how wide the names of the rows are: they stand to the left, while
// the table aligns to the right.
const widest = len("late p50 / p99")

// Table writes the report for a person: the verdict and the rows that matter
// most, or all there is.
func (r Report) Table(w io.Writer, all bool) error {
	fmt.Fprintf(w, "\n%s: %s\n%s%s · %s · quota %d per %s%s\n\n", r.Scenario, r.about,
		r.kind(), r.people(), r.Backend, r.Quota.Permits, time.Duration(r.Quota.PerMS*1e6), r.within())
	for _, sentence := range r.Verdict() {
		fmt.Fprintln(w, sentence)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	cells := func(name, note string, cell func(Engine) string) {
		fmt.Fprintf(table, "%-*s", widest, name)
		for _, e := range r.Engines {
			fmt.Fprint(table, "\t   ", cell(e))
		}
		fmt.Fprint(table, "\t", strings.TrimRight("   "+note, " "), "\n")
	}
	cells("", r.legend(), func(e Engine) string { return e.Name })
	for _, row := range r.rows() {
		if all || row.main {
			cells(row.name, row.note, row.cell)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, remark := range r.Remarks() {
		fmt.Fprintln(w, remark)
	}
	return nil
}

// within is what else there is to the quota.
func (r Report) within() (more string) {
	if r.Quota.Burst > 0 {
		more += fmt.Sprintf(", burst %d", r.Quota.Burst)
	}
	if r.Quota.Output > 0 {
		more += fmt.Sprintf(", %d tokens of input and %d of output", r.Quota.Input, r.Quota.Output)
	}
	if r.Quota.Ceiling != "" {
		more += fmt.Sprintf(", %s for each client", r.Quota.Ceiling)
	}
	if whose := r.guarded(); whose != "" {
		more += fmt.Sprintf(", guard of %s %s", whose, short(r.Quota.GuardMS))
	}
	return more
}

// guarded are the engines that were given the guard.
func (r Report) guarded() string {
	var whose []string
	for _, e := range r.Engines {
		if e.GuardMS > 0 {
			whose = append(whose, e.Name)
		}
	}
	return listed(whose)
}

// kind marks figures that were simulated, not measured.
func (r Report) kind() string {
	if r.Simulated {
		return "SIMULATION in virtual time · "
	}
	return ""
}

// Remarks are what the figures call for, with the engine they are of. Its faults
// stand with the verdict.
func (r Report) Remarks() (remarks []string) {
	for _, e := range r.Engines {
		remark := func(format string, args ...any) {
			remarks = append(remarks, e.Name+": "+fmt.Sprintf(format, args...))
		}
		if e.Seconds < r.Seconds-0.5 {
			remark("ended after %.1f of %.0f s; the figures are of that time", e.Seconds, r.Seconds)
		}
		for _, incident := range e.Incidents {
			remark("after %.1f s, %s", incident.AtMS/1000, incident.What)
		}
		if r.Quota.Burst != e.Burst {
			remark("cannot be given a -burst")
		}
		if r.Quota.Ceiling != e.Ceiling {
			remark("cannot be given the ceiling of each client")
		}
	}
	return remarks
}

func (r Report) countedBy() string {
	for _, e := range r.Engines {
		if e.RedisCallsBy != "server" {
			return ", counted by the " + e.RedisCallsBy
		}
	}
	return ""
}

// people are those who call.
func (r Report) people() string {
	processes := plural(r.Clients, "process", "processes")
	if r.Simulated {
		processes = plural(r.Clients, "client", "clients")
	}
	all := 0
	for _, client := range r.Engines[0].Shares {
		all += client.Callers
	}
	return fmt.Sprintf("%s, %s", processes, plural(all, "caller", "callers"))
}

// short is a length of time in milliseconds with as many digits as matter.
func short(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case math.Abs(ms) >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case math.Abs(ms) >= 100 || ms == math.Trunc(ms):
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f ms", ms)
	}
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
