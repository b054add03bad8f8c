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
)

// row is one line of the table: what it is called, what a reader must know, and
// what it says of an engine.
type row struct {
	name, note string
	main       bool // one of those that matter most
	cell       func(Engine) string
}

func (r Report) rows() []row {
	permitted := fmt.Sprintf("permits in any %v; %d allowed", short(r.Quota.PerMS), r.Quota.Permits)
	return r.telling([]row{
		{"grants", "calls that got their turn", true, count(func(e Engine) int { return e.Grants })},
		{"refused", "calls whose turn would come after their deadline", false, rare(func(e Engine) int { return e.Refused })},
		{"gave up", "calls that did not want to wait any longer", false, rare(func(e Engine) int { return e.Left })},
		{"failed", "calls that got an error", false, rare(func(e Engine) int { return e.Failed })},
		{"inversions", fmt.Sprintf("pairs out of order by %v or more", short(r.ApartMS)), true, inversions},
		{"max overtake", "most calls that passed a single one", true, count(func(e Engine) int { return e.MaxOvertake })},
		{"upstream 429s", "calls turned away", true, rejections},
		{"max in window", permitted, true, count(func(e Engine) int { return e.MaxInWindow })},
		{"closed door", "calls that ran into it / of them, those that should have heard of the pause", true, closedDoor},
		{"idle", "until somebody came once the door was open", true, idle},
		{"missed turns", "this machine woke too late; given back", true, rare(func(e Engine) int { return e.MissedTurns })},
		{"utilization", "of what quota and guard allow", true, func(e Engine) string { return percent(e.Utilization) }},
		{"unused", "permits that it might have granted", false, r.inTrouble(unused)},
		{"guard", r.guardNote(), false, func(e Engine) string { return short(e.GuardMS) }},
		{"Jain index", "of the clients' shares a caller; 1 is equal", false, jain},
		{"best / worst", "client's share", false, ratio},
		{"starved", "longest that a waiting client got nothing", false, starved},
		{"longest gap", "in which somebody waited and nobody got anything", false, r.inTrouble(gap)},
		{"wait p50", "from call to turn", false, func(e Engine) string { return short(e.WaitMS.P50) }},
		{"wait p99", "99 % of the calls waited no longer", true, func(e Engine) string { return short(e.WaitMS.P99) }},
		{"wait max", "", false, func(e Engine) string { return short(e.WaitMS.Max) }},
		{"most : few", "permits of a client with the most callers : with the fewest", true, fewPermits},
		{"few wait", "median of the clients with the fewest callers", true, fewWait},
		{"early", "turns taken before their time", false, early},
		{"late p50 / p99", "after their time", false, late},
		{"Redis calls", "a grant" + r.countedBy(), true, calls},
		{"delay spread", "from slot to arrival, without the worst 0.1 % / all", false, spread},
	})
}

func count(n func(Engine) int) func(Engine) string {
	return func(e Engine) string { return strconv.Itoa(n(e)) }
}

func inversions(e Engine) string { return apart(e.Inversions, e.MachineInversions) }
func rejections(e Engine) string { return apart(e.UpstreamRejections, e.MachineRejections) }
func unused(e Engine) string     { return fmt.Sprintf("%.0f", e.UnusedPermits) }
func jain(e Engine) string       { return fmt.Sprintf("%.4f", e.Jain) }
func starved(e Engine) string    { return short(e.LongestStarvedMS) }
func gap(e Engine) string        { return short(e.LongestGapMS) }
func calls(e Engine) string      { return fmt.Sprintf("%.2f", e.RedisCallsPerGrant) }

// apart is a count of the engine's doings, and that of the machine's if there
// are any.
func apart(engines, machines int) string {
	if machines == 0 {
		return strconv.Itoa(engines)
	}
	return fmt.Sprintf("%d (+%d)", engines, machines)
}

// Legend explains the cells that have a second count. It is empty if there are
// none.
func (r Report) Legend() string {
	for _, e := range r.Engines {
		if e.MachineInversions+e.MachineRejections+e.MachineCalls > 0 {
			return "6 (+12): 6, and 12 more by the machine"
		}
	}
	return ""
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

func (r Report) guardNote() string {
	if r.Rehearsed {
		return "that the engine was given, from a rehearsal"
	}
	return "that the engine was given"
}

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

// Table writes the report for a person: the verdict and the rows that matter
// most, or all there is.
func (r Report) Table(w io.Writer, all bool) error {
	fmt.Fprintf(w, "\n%s: %s\n%s%s · %s · quota %d per %s\n\n", r.Scenario, r.about,
		r.kind(), r.people(), r.Backend, r.Quota.Permits, time.Duration(r.Quota.PerMS*1e6))
	for _, sentence := range r.Verdict() {
		fmt.Fprintln(w, wrapped(sentence))
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
	cells("", r.Legend(), func(e Engine) string { return e.Name })
	for _, row := range r.rows() {
		if all || row.main {
			cells(row.name, row.note, row.cell)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, e := range r.Engines {
		for _, remark := range r.remarks(e) {
			fmt.Fprintf(w, "%s: %s\n", e.Name, remark)
		}
	}
	return nil
}

// width is that of a terminal that has not been made narrower.
const width = 100

// wrapped breaks a text into lines.
func wrapped(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// kind marks figures that were simulated, not measured.
func (r Report) kind() string {
	if r.Simulated {
		return "SIMULATION in virtual time · "
	}
	return ""
}

// remarks are what the figures of an engine call for. Its faults stand with the
// verdict.
func (r Report) remarks(e Engine) (remarks []string) {
	if e.Seconds < r.Seconds-0.5 {
		remarks = append(remarks, fmt.Sprintf(
			"ended after %.1f of %.0f s; the figures are of that time", e.Seconds, r.Seconds))
	}
	for _, incident := range e.Incidents {
		remarks = append(remarks, fmt.Sprintf("after %.1f s, %s", incident.AtMS/1000, incident.What))
	}
	if e.byHand {
		remarks = append(remarks,
			"has no pause: a process that is told Retry-After sends nobody until then, and tells no other")
	}
	if r.Quota.Burst != e.Burst {
		remarks = append(remarks, "cannot be given a -burst")
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

func fewWait(e Engine) string {
	if e.FewWaitMS == nil {
		return nothing
	}
	return short(*e.FewWaitMS)
}

func fewPermits(e Engine) string {
	if e.FewPermits == nil {
		return nothing
	}
	return fmt.Sprintf("%.0f : %.0f", e.FewPermits[0], e.FewPermits[1])
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

func closedDoor(e Engine) string {
	if e.ClosedCalls == nil {
		return nothing
	}
	return fmt.Sprintf("%d / %s", *e.ClosedCalls, apart(*e.UnheardCalls, e.MachineCalls))
}

func idle(e Engine) string {
	if e.IdleMS == nil {
		return nothing
	}
	return short(*e.IdleMS)
}

// Line is one line of the table, for whoever sets it another way.
type Line struct {
	Name  string
	Cells []string // one an engine
	Note  string
}

// Lines are the table.
func (r Report) Lines() (lines []Line) {
	for _, row := range r.rows() {
		line := Line{Name: row.name, Note: row.note}
		for _, e := range r.Engines {
			line.Cells = append(line.Cells, row.cell(e))
		}
		lines = append(lines, line)
	}
	return lines
}

// About is what the scenario is.
func (r Report) About() string { return r.about }

// Facts are what was asked for.
func (r Report) Facts() []string {
	facts := []string{
		r.people(), r.Backend, fmt.Sprintf("quota %d per %s", r.Quota.Permits, short(r.Quota.PerMS)),
		fmt.Sprintf("%.0f s on each engine", r.Seconds), fmt.Sprintf("seed %d", r.Seed),
	}
	if guard := r.guard("%s"); guard != "" {
		facts = append(facts, guard)
	}
	if r.Quota.Burst > 0 {
		facts = append(facts, fmt.Sprintf("burst %d", r.Quota.Burst))
	}
	return facts
}

// Remarks are what the figures call for, with the engine they are of.
func (r Report) Remarks() (remarks []string) {
	for _, e := range r.Engines {
		for _, remark := range r.remarks(e) {
			remarks = append(remarks, e.Name+": "+remark)
		}
	}
	return remarks
}

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
