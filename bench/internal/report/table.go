package report

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table: what it is called, what a reader must know, and
// what it says of an engine.
type row struct {
	name, note string
	main       bool // one of those that matter most
	says       any
}

// nothing is the cell of an engine that a row says nothing about. A row of such
// cells is left out.
const nothing = "–"

// text is the row's cell.
func (r row) text() string {
	says := reflect.ValueOf(r.says)
	if says.Kind() == reflect.Pointer {
		says = says.Elem()
	}
	if !says.IsValid() {
		return nothing
	}
	return fmt.Sprint(says)
}

// rows are those of an engine, the same for all engines.
func (r Report) rows(e Engine) []row {
	var smallest, fullest, atMost, share any
	flows, used := r.of.Shares != nil, ""
	if flows { // they promise no order between them
		smallest = e.SmallestShare
	}
	if o := e.Output; o != nil {
		fullest, atMost, used = o.Fullest, o.AtMost, "output, "
	}
	if share = "one got 0"; e.ShareMaxOverMin != nil {
		share = fmt.Sprintf("%.2f", *e.ShareMaxOverMin)
	}
	return []row{
		{"", r.legend(), true, e.Name},
		{"grants", "calls that got their turn", true, e.Grants},
		{"refused", "calls whose turn would come too late", false, rare(e.Refused)},
		{"gave up", "calls that did not want to wait any longer", false, rare(e.Left)},
		{"failed", "calls that got an error", false, rare(e.Failed)},
		{
			"inversions", "pairs out of order by " + r.ApartMS.String() + " or more", !flows,
			apart(e.Inversions, e.MachineInversions),
		},
		{"max overtake", "most calls that passed a single one", !flows, e.MaxOvertake},
		{"upstream 429s", "calls turned away", true, apart(e.UpstreamRejections, e.MachineRejections)},
		{
			"max in window", fmt.Sprintf("permits in any %v; %d allowed", r.Quota.PerMS, r.Quota.Permits), true,
			e.MaxInWindow,
		},
		{"max of one", "permits of one client; its ceiling is " + r.Quota.Ceiling, true, e.MaxOfOne},
		{"missed turns", "this machine woke too late; given back", true, rare(e.MissedTurns)},
		{"utilization", used + "of what quota and guard allow", true, e.Utilization},
		{"fullest window", "output of its calls, of the quota", true, fullest},
		{"at most", "the quota, and that window's output beyond the estimates", true, atMost},
		{"smallest share", "of all permits, of the client that got the fewest", true, smallest},
		{"Jain index", "of the clients' shares a caller; 1 is equal", false, fmt.Sprintf("%.4f", e.Jain)},
		{"best / worst", "client's share", false, share},
		{"starved", "longest that a waiting client got nothing", false, e.LongestStarvedMS},
		{"wait p50", "from call to turn", false, e.WaitMS.P50},
		{"wait p99", "99 % of the calls waited no longer", true, e.WaitMS.P99},
		{"wait max", "", false, e.WaitMS.Max},
		{"Redis calls", "a grant" + r.countedBy(), true, fmt.Sprintf("%.2f", e.RedisCallsPerGrant)},
	}
}

// rare says nothing of 0.
func rare(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// apart is a count of the engine's doings, and that of the machine's if there
// are any.
func apart(engines, machines int) any {
	if machines == 0 {
		return engines
	}
	return fmt.Sprintf("%d (+%d)", engines, machines)
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
const widest = len("fullest window")

// Table writes the report for a person: the verdict and the rows that matter
// most, or all there is.
func (r Report) Table(w io.Writer, all bool) error {
	fmt.Fprintf(w, "\n%s: %s\n%s · %s · quota %d per %s%s\n\n", r.Scenario, r.of.About, r.people(), r.Backend, r.Quota.Permits, time.Duration(r.Quota.PerMS*1e6), r.within())
	for _, sentence := range r.Verdict() {
		fmt.Fprintln(w, sentence)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	for i, row := range r.rows(r.Engines[0]) {
		cells, told := "", false
		for _, e := range r.Engines {
			text := r.rows(e)[i].text()
			cells += "\t   " + text
			told = told || text != nothing
		}
		if told && (all || row.main) {
			fmt.Fprintf(table, "%-*s%s\t%s\n", widest, row.name, cells, strings.TrimRight("   "+row.note, " "))
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
	var guarded []string // engines that were given the guard
	for _, e := range r.Engines {
		if e.GuardMS > 0 {
			guarded = append(guarded, e.Name)
		}
	}
	if len(guarded) > 0 {
		more += fmt.Sprintf(", guard of %s %v", listed(guarded), r.Quota.GuardMS)
	}
	return more
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
	all := 0
	for _, client := range r.Engines[0].Shares {
		all += client.Callers
	}
	return fmt.Sprintf("%s, %s", processes, plural(all, "caller", "callers"))
}

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// columns are the rows that a line of the summary has.
var columns = []string{
	"inversions", "max overtake", "upstream 429s", "utilization", "smallest share", "starved",
}

// summarize writes a line for each scenario and engine, for a person who has
// just seen several tables.
func (p *Page) summarize(w io.Writer) error {
	if len(p.reports) < 2 {
		return nil
	}
	fmt.Fprint(w, "\nall scenarios\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "\t\t%s\tgoal\n", strings.Join(columns, "\t"))
	legend := ""
	for _, r := range p.reports {
		name := r.Scenario // only the first line of a scenario names it
		for _, e := range r.Engines {
			fmt.Fprintf(table, "%s\t%s\t", name, e.Name)
			for _, row := range r.rows(e) {
				if slices.Contains(columns, row.name) {
					fmt.Fprint(table, row.text(), "\t")
				}
			}
			fmt.Fprintln(table, r.met(e))
			name = ""
		}
		if l := r.legend(); l != "" {
			legend = "\n" + l + "\n"
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, legend)
	return err
}

// met is a word about an engine that has a goal.
func (r Report) met(e Engine) string {
	switch {
	case r.Goal == nil:
		return "-"
	case e.Name != r.aim().engine:
		return ""
	case !r.Goal.Met:
		return "missed"
	case e.Failed > 0:
		return fmt.Sprintf("met, %d failed", e.Failed)
	}
	return "met"
}
