package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Goal is what an engine is to reach in a scenario, and whether it did.
type Goal struct {
	Engine string   `json:"engine"`
	Met    bool     `json:"met"`
	Missed []string `json:"missed,omitempty"` // by how much
}

// aim is the engine that the goal is for.
func (r Report) aim() string {
	if r.of.Shares != nil {
		return "fair+flows"
	}
	return "fair"
}

// leastGuard is the guard from which on 429s count. A smaller one is too small
// for any machine.
const leastGuard = measure.MS(10 * time.Millisecond)

// goalOf is nil where the scenario has none or its engine was not measured.
func (r Report) goalOf() *Goal {
	for _, e := range r.Engines {
		if e.Name == r.aim() && !r.of.NoVerdict {
			missed := r.missed(e)
			return &Goal{e.Name, len(missed) == 0, missed}
		}
	}
	return nil
}

// missed is what the engine for the goal did not reach.
func (r Report) missed(e Engine) (all []string) {
	miss := func(missed bool, format string, args ...any) {
		if missed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	if want := r.of.Shares; want != nil { // turns that the machine missed count as used
		used := e.Utilization * measure.Part(e.Grants+e.MissedTurns) / measure.Part(max(1, e.Grants))
		miss(e.SmallestShare < want.Least, "smallest share %v, not %v", e.SmallestShare, want.Least)
		miss(used < want.Used, "quota used to %v, not %v", used, want.Used)
	} else { // flows promise no order between them
		miss(e.Inversions > 0, "inversions %d", e.Inversions)
	}
	if want := r.of.Tokens; want != nil {
		miss(e.Utilization < want.Used, "output used to %v, not %v", e.Utilization, want.Used)
		miss(want.Fullest > 0 && e.Output.Fullest > want.Fullest,
			"a window with %v of its output, not %v", e.Output.Fullest, want.Fullest)
	}
	if e.GuardMS >= leastGuard && (r.of.Tokens == nil || r.of.Tokens.Never429) {
		miss(e.UpstreamRejections > 0, "upstream 429s %d", e.UpstreamRejections)
	}
	return all
}

// Verdict is what is to be said first: whether the goal was met, what went wrong,
// what the machine did, and who has a guard.
func (r Report) Verdict() (lines []string) {
	lines = append(lines, r.Outcome())
	var guards []string
	for _, e := range r.Engines {
		if len(e.Faults) > 0 { // they make the program fail
			lines = append(lines, fmt.Sprintf("Exit status 1, because of %s: %s.", e.Name, strings.Join(e.Faults, "; ")))
		}
		guards = append(guards, fmt.Sprintf("%s %v", e.Name, e.GuardMS))
	}
	return append(lines,
		fmt.Sprintf("This machine stalled for up to %v. Pairs closer than %v have no order.",
			r.StallMS, r.ApartMS),
		fmt.Sprintf("Guards: %s. With 0, calls that are late on their way fill windows with more than the quota.",
			strings.Join(guards, ", ")))
}

// Outcome is the verdict in a sentence.
func (r Report) Outcome() string {
	said := ""
	switch g := r.Goal; {
	case r.of.NoVerdict:
		said = "No verdict"
	case g == nil:
		said = "No verdict without " + r.aim()
	case g.Met:
		said = g.Engine + " kept its promises"
	default:
		said = g.Engine + " MISSED its goal: " + strings.Join(g.Missed, ", ")
	}
	if r.of.Shows != "" {
		said += ". This shows " + r.of.Shows
	}
	return said + "."
}
