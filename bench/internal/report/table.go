package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table: what it is called, what it says of an engine,
// and what a reader must know.
type row struct {
	name string
	cell func(Engine) string
	note string
}

func (r Report) rows() []row {
	count := func(n func(Engine) int) func(Engine) string {
		return func(e Engine) string { return strconv.Itoa(n(e)) }
	}
	return r.telling([]row{
		{"grants", count(func(e Engine) int { return e.Grants }), "calls that got their turn"},
		{
			"refused", rare(func(e Engine) int { return e.Refused }),
			"calls whose turn would have come after their deadline",
		},
		{"gave up", rare(func(e Engine) int { return e.Left }), "calls that did not want to wait any longer"},
		{"failed", rare(func(e Engine) int { return e.Failed }), "calls that got an error"},
		{
			"inversions", count(func(e Engine) int { return e.Inversions }),
			fmt.Sprintf("pairs served in the wrong order by %v or more", short(r.ApartMS)),
		},
		{"max overtake", count(func(e Engine) int { return e.MaxOvertake }), "most calls that passed a single one"},
		{
			"upstream 429s", count(func(e Engine) int { return e.UpstreamRejections }),
			"calls the upstream turned away: the quota was broken",
		},
		{
			"max in window", count(func(e Engine) int { return e.MaxInWindow }),
			fmt.Sprintf("permits in any %v; %d allowed", short(r.Quota.PerMS), r.Quota.Permits),
		},
		{"utilization", func(e Engine) string { return percent(e.Utilization) }, "of what quota and guard allow"},
		{
			"unused", r.inTrouble(func(e Engine) string { return fmt.Sprintf("%.0f", e.UnusedPermits) }),
			"permits that it might have granted",
		},
		{"guard", func(e Engine) string { return short(e.GuardMS) }, "that the engine was given"},
		{
			"Jain index", func(e Engine) string { return fmt.Sprintf("%.4f", e.Jain) },
			"of the clients' shares a caller; 1 is equal",
		},
		{"best / worst", ratio, "client's share"},
		{
			"starved", func(e Engine) string { return short(e.LongestStarvedMS) },
			"longest that a waiting client got nothing",
		},
		{
			"longest gap", r.inTrouble(func(e Engine) string { return short(e.LongestGapMS) }),
			"in which somebody waited and nobody got anything",
		},
		{"wait p50", func(e Engine) string { return short(e.WaitMS.P50) }, "from call to turn"},
		{"wait p99", func(e Engine) string { return short(e.WaitMS.P99) }, ""},
		{"wait max", func(e Engine) string { return short(e.WaitMS.Max) }, ""},
		{"early", early, "turns taken before their time"},
		{"late p50 / p99", late, "after their time"},
		{
			"Redis calls", func(e Engine) string { return fmt.Sprintf("%.2f", e.RedisCallsPerGrant) },
			"a grant" + r.countedBy(),
		},
		{"delay spread", spread, "from slot to arrival, without the worst 0.1 % / all"},
	})
}

// rare is the cell of a row that is left out if every engine has 0.
func rare(n func(Engine) int) func(Engine) string {
	return func(e Engine) string {
		if n(e) == 0 {
			return nothing
		}
		return strconv.Itoa(n(e))
	}
}

const nothing = "–"

// inTrouble is a cell for scenarios that show what is lost.
func (r Report) inTrouble(cell func(Engine) string) func(Engine) string {
	if r.shows != "" {
		return cell
	}
	return func(Engine) string { return nothing }
}

// telling leaves out the rows in which there is nothing for any engine.
func (r Report) telling(rows []row) (told []row) {
	for _, row := range rows {
		if slices.ContainsFunc(r.Engines, func(e Engine) bool { return row.cell(e) != nothing }) {
			told = append(told, row)
		}
	}
	return told
}

// widest is how wide the names of the rows are: they stand to the left, while
// the table aligns to the right.
const widest = len("late p50 / p99")

// Table writes the report for a person.
func (r Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s\n%s%s · %s · quota %d per %s\n\n", r.Scenario, r.about,
		r.kind(), r.people(), r.Backend, r.Quota.Permits, time.Duration(r.Quota.PerMS*1e6))
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	cells := func(name, note string, cell func(Engine) string) {
		fmt.Fprintf(table, "%-*s", widest, name)
		for _, e := range r.Engines {
			fmt.Fprint(table, "\t   ", cell(e))
		}
		fmt.Fprint(table, "\t", strings.TrimRight("   "+note, " "), "\n")
	}
	cells("", "", func(e Engine) string { return e.Name })
	for _, row := range r.rows() {
		cells(row.name, row.note, row.cell)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "goal: %s\n", r.Outcome())
	for _, e := range r.Engines {
		for _, remark := range r.remarks(e) {
			fmt.Fprintf(w, "%s: %s\n", e.Name, remark)
		}
	}
	return nil
}

// kind marks figures that were simulated, not measured.
func (r Report) kind() string {
	if r.Simulated {
		return "SIMULATION in virtual time · "
	}
	return ""
}

// remarks are what the figures of an engine call for.
func (r Report) remarks(e Engine) (remarks []string) {
	if e.Seconds < r.Seconds-0.5 {
		remarks = append(remarks, fmt.Sprintf(
			"ended after %.1f of %.0f s; the figures are of that time", e.Seconds, r.Seconds))
	}
	for _, incident := range e.Incidents {
		remarks = append(remarks, fmt.Sprintf("%s after %.1f s", incident.What, incident.AtMS/1000))
	}
	if r.Quota.Burst != e.Burst {
		remarks = append(remarks, "cannot be given a -burst")
	}
	if r.shows != "" { // what the delays come from is what there is to see
		return append(remarks, e.Faults...)
	}
	if e.GuardMS > 0 && e.SpreadMS != nil && *e.SpreadMS > e.GuardMS {
		remarks = append(remarks, uncovered(e))
	}
	switch {
	case e.Inversions == 0:
	case e.PromisedInversions != nil:
		remarks = append(remarks, fmt.Sprintf(
			"%d of its inversions are in the answers that it gave, the others came about on the way",
			*e.PromisedInversions))
	case e.SpreadMS != nil && *e.SpreadMS > r.ApartMS:
		remarks = append(remarks, fmt.Sprintf(
			"delays spread over %s, so some of its inversions may be this machine's", short(*e.SpreadMS)))
	}
	return append(remarks, e.Faults...)
}

// uncovered says what to do if the delays were over the guard.
func uncovered(e Engine) string {
	if e.SpreadP999MS != nil && *e.SpreadP999MS <= e.GuardMS {
		return fmt.Sprintf("a hiccup of %s was more than the guard, which covered all other delays (%s)",
			short(*e.SpreadMS), short(*e.SpreadP999MS))
	}
	guard := time.Duration(math.Ceil(*e.SpreadMS*1.2)) * time.Millisecond
	return fmt.Sprintf("delays spread over %s, more than the guard; -guard %v would cover them",
		short(*e.SpreadMS), guard)
}

// Outcome is the goal in words: what it is and whether it was met, or what
// there is to see instead.
func (r Report) Outcome() string {
	switch {
	case r.shows != "":
		return "none; this shows " + r.shows
	case r.Goal == nil:
		return "none without " + aimed
	}
	outcome := "met"
	if !r.Goal.Met {
		outcome = "missed by " + strings.Join(r.Goal.Missed, " and ")
	}
	return strings.Join(append([]string{r.Goal.Stated + ": " + outcome}, r.Goal.Exempt...), "; not covered: ")
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
	plural := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	processes := plural(r.Clients, "process", "processes")
	if r.Simulated {
		processes = plural(r.Clients, "client", "clients")
	}
	all := 0
	for _, client := range r.Engines[0].Shares {
		all += client.Callers
	}
	if all > 0 && all != r.Clients*r.Callers { // not all clients are alike
		return fmt.Sprintf("%s, %d callers", processes, all)
	}
	return processes + " × " + plural(r.Callers, "caller", "callers")
}

// short is a length of time in milliseconds with as many digits as matter.
func short(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case math.Abs(ms) >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case math.Abs(ms) >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms == math.Trunc(ms):
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f ms", ms)
	}
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func ratio(e Engine) string {
	if e.ShareMaxOverMin == nil {
		return "one got 0"
	}
	return fmt.Sprintf("%.2f", *e.ShareMaxOverMin)
}

func early(e Engine) string {
	if e.Early == nil {
		return "-"
	}
	return strconv.Itoa(*e.Early)
}

func late(e Engine) string {
	if e.LatenessMS == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f / %.1f ms", e.LatenessMS.P50, e.LatenessMS.P99)
}

func spread(e Engine) string {
	if e.SpreadMS == nil || e.SpreadP999MS == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f / %s", *e.SpreadP999MS, short(*e.SpreadMS))
}
