package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// row is one line of the table: what it is called, what a reader must know, and
// what it says of an engine.
type row struct {
	name, note string
	main       bool   // one of those that matter most
	says       string // empty: nothing
}

// rows are those of an engine, the same for all engines.
func (r Report) rows(e Engine) []row {
	flows, used := r.of.Shares != nil, "of what quota and guard allow"
	var smallest, fullest, atMost, redisTime string
	if flows { // they promise no order between them
		smallest = e.SmallestShare.String()
	}
	if o := e.Output; o != nil {
		fullest, atMost, used = o.Fullest.String(), o.AtMost.String(), "output, "+used
	}
	share := "one got 0"
	if e.ShareMaxOverMin != nil {
		share = fmt.Sprintf("%.2f", *e.ShareMaxOverMin)
	}
	if e.RedisMicrosPerGrant != nil {
		redisTime = fmt.Sprintf("%.0f µs", *e.RedisMicrosPerGrant)
	}
	return []row{
		{"grants", "calls that got their turn", true, fmt.Sprint(e.Grants)},
		{"refused", "calls whose turn would come too late", false, rare(e.Refused)},
		{"gave up", "calls that did not want to wait any longer", false, rare(e.Left)},
		{"failed", "calls that got an error", true, rare(e.Failed)},
		{
			"inversions", "pairs out of order by " + r.ApartMS.String() + " or more", !flows,
			twice(e.Inversions, e.MachineInversions),
		},
		{"max overtake", "most calls that passed a single one", !flows, fmt.Sprint(e.MaxOvertake)},
		{"upstream 429s", "calls turned away", true, twice(e.UpstreamRejections, e.MachineRejections)},
		{
			"max in window", fmt.Sprintf("permits in any %v; the upstream allows %d", r.load.Quota.Per, r.Quota.Permits),
			len(e.Phases) == 0, fmt.Sprint(e.MaxInWindow),
		},
		{"missed turns", "the machine, or what befell a client, woke a caller too late", true, rare(e.MissedTurns)},
		{"utilization", used, len(e.Phases) == 0, e.Utilization.String()},
		{"fullest window", "output of its calls, of the quota", true, fullest},
		{"at most", "the quota, and that window's output beyond the estimates", true, atMost},
		{"smallest share", "of all permits, of the client that got the fewest", true, smallest},
		{"Jain index", "of the clients' shares a caller; 1 is equal", false, fmt.Sprintf("%.4f", e.Jain)},
		{"best / worst", "client's share", false, share},
		{"starved", "longest that a waiting client got nothing", false, e.LongestStarvedMS.String()},
		{"wait p50", "from call to turn", false, e.WaitMS.P50.String()},
		{"wait p99", "99 % of the calls waited no longer", true, e.WaitMS.P99.String()},
		{"wait max", "", false, e.WaitMS.Max.String()},
		{"Redis calls", "scripts a grant", true, fmt.Sprintf("%.2f", e.RedisCallsPerGrant)},
		{"Redis time", "a grant, for which the server was busy", true, redisTime},
	}
}

// phaseRows are those of a phase.
func phaseRows(p measure.Phase) []row {
	last := "never"
	if p.LastMS != nil {
		last = p.LastMS.String()
	}
	return []row{
		{"first", "calls let through in its first two windows", true, fmt.Sprint(p.First)},
		{"upstream 429s", "calls turned away", true, fmt.Sprint(p.Rejections)},
		{
			"max in window", fmt.Sprintf("permits, from %v after a change on", measure.Heard), true,
			fmt.Sprint(p.MaxInWindow),
		},
		{"wait p50", "of the calls let through", true, p.WaitMS.P50.String()},
		{"wait max", "", true, p.WaitMS.Max.String()},
		{"last one", "from the change until all who waited had gone", p.FromMS > 0, last},
	}
}

// rare says nothing of 0.
func rare(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// twice is a count of the engine's doings, and that of the machine's.
func twice(engines, machines int) string {
	if machines == 0 {
		return fmt.Sprint(engines)
	}
	return fmt.Sprintf("%d (+%d)", engines, machines)
}

// legend explains the counts of the machine's doings.
const legend = "(+n): and n more that this machine made by stalling, or what befell a client\n"

// Table writes the report for a person: the verdict and the rows that matter
// most, or all there is.
func (r Report) Table(w io.Writer, all bool) error {
	callers := 0
	for _, client := range r.Engines[0].Shares {
		callers += client.Callers
	}
	fmt.Fprintf(w, "\n%s: %s\nprocesses %d, callers %d · %s · quota %v\n\n%s\n\n", r.Scenario, r.of.About,
		r.Clients, callers, r.Backend, r.load.Quota, strings.Join(r.Verdict(), "\n"))
	if err := r.write(w, all, r.rows); err != nil {
		return err
	}
	for i, p := range r.Engines[0].Phases {
		fmt.Fprintf(w, "\nfrom %v on, with a quota of %d\n\n", p.FromMS, p.Permits)
		err := r.write(w, all, func(e Engine) []row {
			if i >= len(e.Phases) { // it was interrupted before
				return phaseRows(measure.Phase{})
			}
			return phaseRows(e.Phases[i])
		})
		if err != nil {
			return err
		}
	}
	for _, e := range r.Engines {
		for _, incident := range e.Incidents {
			fmt.Fprintf(w, "%s: after %v, %s\n", e.Name, incident.AtMS, incident.What)
		}
		if e.Seconds < r.Seconds-0.5 {
			fmt.Fprintf(w, "%s: ended after %.1f of %.0f s; the figures are of that time\n", e.Name, e.Seconds, r.Seconds)
		}
	}
	return nil
}

// write writes rows with a column for each engine.
func (r Report) write(w io.Writer, all bool, rows func(Engine) []row) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	const widest = len("fullest window") // names stand to the left, while the table aligns to the right
	fmt.Fprintf(table, "%-*s\t", widest, "")
	for _, e := range r.Engines {
		fmt.Fprint(table, e.Name, "\t")
	}
	fmt.Fprintln(table)
	twofold := false
	for i, row := range rows(r.Engines[0]) {
		cells := ""
		for _, e := range r.Engines {
			cells += rows(e)[i].says + "\t"
		}
		if strings.Trim(cells, "\t") != "" && (all || row.main) {
			fmt.Fprintln(table, strings.TrimRight(fmt.Sprintf("%-*s\t%s   %s", widest, row.name, cells, row.note), " "))
			twofold = twofold || strings.Contains(cells, "(+")
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if twofold {
		fmt.Fprint(w, legend)
	}
	return nil
}

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Summary writes a line for each scenario, for a person who has just seen several
// tables.
func Summary(w io.Writer, reports []Report) {
	if len(reports) < 2 {
		return
	}
	fmt.Fprintln(w, "\nall scenarios")
	for _, r := range reports {
		fmt.Fprintf(w, "  %s: %s\n", r.Scenario, r.Outcome())
	}
}
