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
	flows, used := r.of.Shares != nil, "of what quota and guard allow: "+r.allowed()
	if flows { // they promise no order between them
		smallest = e.SmallestShare
	}
	if o := e.Output; o != nil {
		fullest, atMost, used = o.Fullest, o.AtMost, "output, of what quota and guard allow"
	}
	if share = "one got 0"; e.ShareMaxOverMin != nil {
		share = fmt.Sprintf("%.2f", *e.ShareMaxOverMin)
	}
	return []row{
		{"", "", true, e.Name},
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
			"max in window", fmt.Sprintf("permits in any %v; the upstream allows %d", r.Quota.PerMS, r.Quota.Permits), true,
			e.MaxInWindow,
		},
		{"max of one", "permits of one client; its ceiling is " + r.Quota.Ceiling, true, e.MaxOfOne},
		{"missed turns", "this machine woke too late; given back", true, rare(e.MissedTurns)},
		{"utilization", used, true, e.Utilization},
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

// twice is a cell with a count of the engine's doings, and that of the machine's.
type twice struct{ engines, machines int }

func (t twice) String() string { return fmt.Sprintf("%d (+%d)", t.engines, t.machines) }

// apart is twice, if the machine did anything.
func apart(engines, machines int) any {
	if machines == 0 {
		return engines
	}
	return twice{engines, machines}
}

// legend explains the first cell shown that has two counts.
type legend struct{ text string }

func (l *legend) see(r row) {
	if t, is := r.says.(twice); is && l.text == "" {
		l.text = fmt.Sprintf("%v, in the row %s: %d, and %d more that this machine made by stalling\n",
			t, r.name, t.engines, t.machines)
	}
}

// allowed is how many permits a second quota and guard allow to each engine.
func (r Report) allowed() string {
	var all []string
	for _, e := range r.Engines {
		rate := 1000 * float64(r.Quota.Permits) / float64(r.Quota.PerMS+e.GuardMS)
		all = append(all, fmt.Sprintf("%s %.3g", e.Name, rate))
	}
	return strings.Join(all, ", ") + " a second"
}

// widest is how wide the names of the rows are: they stand to the left, while
// the table aligns to the right.
const widest = len("fullest window")

// Table writes the report for a person: the verdict and the rows that matter
// most, or all there is.
func (r Report) Table(w io.Writer, all bool) error {
	fmt.Fprintf(w, "\n%s: %s\n%s · %s · quota %d per %s%s\n\n", r.Scenario, r.of.About, r.people(), r.Backend,
		r.Quota.Permits, time.Duration(r.Quota.PerMS*1e6), r.within())
	for _, sentence := range r.Verdict() {
		fmt.Fprintln(w, sentence)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	var twofold legend
	for i, row := range r.rows(r.Engines[0]) {
		cells, told := "", false
		for _, e := range r.Engines {
			text := r.rows(e)[i].text()
			cells += "\t   " + text
			told = told || text != nothing
		}
		if told && (all || row.main) {
			fmt.Fprintf(table, "%-*s%s\t%s\n", widest, row.name, cells, strings.TrimRight("   "+row.note, " "))
			for _, e := range r.Engines {
				twofold.see(r.rows(e)[i])
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, twofold.text)
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
	return more
}

// guards says who has one, and what it means for those who have none.
func (r Report) guards() (said []string) {
	var with, without []string
	for _, e := range r.Engines {
		if e.GuardMS > 0 {
			with = append(with, e.Name)
		} else {
			without = append(without, e.Name)
		}
	}
	if len(with) > 0 {
		said = append(said, fmt.Sprintf("Guard: %s %s each window %v longer, so that calls may be late on their way.",
			listed(with), agree(with, "takes", "take"), r.Quota.GuardMS))
	}
	if len(without) > 0 {
		said = append(said, fmt.Sprintf("No guard: %s. Calls that are late on their way then fill windows with more than %d.",
			listed(without), r.Quota.Permits))
	}
	return said
}

func agree(with []string, one, many string) string {
	if len(with) == 1 {
		return one
	}
	return many
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
	all := 0
	for _, client := range r.Engines[0].Shares {
		all += client.Callers
	}
	return fmt.Sprintf("%s, %s", plural(r.Clients, "process", "processes"), plural(all, "caller", "callers"))
}

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// columns are the rows that a line of the summary has.
var columns = []string{"inversions", "max overtake", "upstream 429s", "utilization", "smallest share", "starved"}

// summarize writes a line for each scenario and engine, for a person who has
// just seen several tables.
func (p *Page) summarize(w io.Writer) error {
	if len(p.reports) < 2 {
		return nil
	}
	fmt.Fprint(w, "\nall scenarios\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "\t\t%s\tgoal\n", strings.Join(columns, "\t"))
	var twofold legend
	for _, r := range p.reports {
		name := r.Scenario // only the first line of a scenario names it
		for _, e := range r.Engines {
			fmt.Fprintf(table, "%s\t%s\t", name, e.Name)
			for _, row := range r.rows(e) {
				if slices.Contains(columns, row.name) {
					fmt.Fprint(table, row.text(), "\t")
					twofold.see(row)
				}
			}
			fmt.Fprintln(table, r.met(e))
			name = ""
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, twofold.text)
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
