package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Goal is what fair is to reach in a scenario, and whether it did.
type Goal struct {
	Engine string   `json:"engine"`
	Met    bool     `json:"met"`
	Missed []string `json:"missed,omitempty"` // by how much
}

// aim is the engine that a goal is for, and what it did if the goal is met.
type aim struct{ engine, kept string }

func (r Report) aim() aim {
	switch {
	case r.of.Shares != nil:
		return aim{"fair+flows", "none over the quota, and each flow has its share"}
	case r.of.Tokens != nil:
		return aim{"fair", "no turn out of order"}
	}
	return aim{"fair", "no turn out of order, none over the quota"}
}

// aimedAt is the engine that the goal is for, or nil if it was not measured.
func (r Report) aimedAt() *Engine {
	at := slices.IndexFunc(r.Engines, func(e Engine) bool { return e.Name == r.aim().engine })
	if at < 0 {
		return nil
	}
	return &r.Engines[at]
}

// leastGuardMS is the guard from which on 429s count. A smaller one is too small
// for any machine.
const leastGuardMS = 10

// goalOf is nil where the scenario has none or its engine was not measured.
func goalOf(r Report) *Goal {
	e := r.aimedAt()
	if r.of.EndsRedis || e == nil {
		return nil
	}
	g := &Goal{Engine: e.Name}
	miss := func(missed bool, format string, args ...any) {
		if missed {
			g.Missed = append(g.Missed, fmt.Sprintf(format, args...))
		}
	}
	if want := r.of.Shares; want != nil { // turns that the machine missed count as used
		used := e.Utilization * measure.Part(e.Grants+e.MissedTurns) / measure.Part(max(1, e.Grants))
		miss(e.SmallestShare < want.Least, "a share of %v, not %v", e.SmallestShare, want.Least)
		miss(used < want.Used, "a quota used to %v, not %v", used, want.Used)
	}
	if want := r.of.Tokens; want != nil {
		miss(e.Utilization < want.Used, "%v of the output used, not %v", e.Utilization, want.Used)
		miss(want.Fullest > 0 && e.Output.Fullest > want.Fullest,
			"a window with %v of its output, not %v", e.Output.Fullest, want.Fullest)
	}
	none := func(n int, one, many string) { miss(n > 0, "%s", plural(n, one, many)) }
	if r.of.Shares == nil { // flows promise no order between them
		none(e.Inversions, "inversion", "inversions")
	}
	if e.GuardMS >= leastGuardMS && (r.of.Tokens == nil || r.of.Tokens.Never429) {
		none(e.UpstreamRejections, "upstream 429", "upstream 429s")
	}
	g.Met = len(g.Missed) == 0
	return g
}

// Verdict is what is to be said first: what fair promised and whether it kept
// it, what the machine did, and what there is to see of the others.
func (r Report) Verdict() (lines []string) {
	lines = append(lines, r.Outcome())
	if e := r.aimedAt(); r.of.Tokens != nil && e != nil && e.Output.Fullest > 1 {
		lines = append(lines, fmt.Sprintf("The window with %v of its output might hold %v: the quota, and what its "+
			"own calls wrote beyond their estimates.", e.Output.Fullest, e.Output.AtMost))
	}
	var faults []string // that make the program fail
	for _, e := range r.Engines {
		if len(e.Faults) > 0 {
			faults = append(faults, fmt.Sprintf("%s (%s)", e.Name, strings.Join(e.Faults, "; ")))
		}
	}
	if len(faults) > 0 {
		lines = append(lines, "Exit status 1, because of "+listed(faults)+".")
	}
	lines = append(append(lines, r.machine()...), r.guards()...)
	if r.of.Shows != "" && !r.of.EndsRedis {
		lines = append(lines, "See also "+r.of.Shows+".")
	}
	return lines
}

// Outcome is the verdict in a sentence.
func (r Report) Outcome() string {
	a := r.aim()
	switch {
	case r.of.EndsRedis:
		return "No verdict: this shows " + r.of.Shows + "."
	case r.Goal == nil:
		return "No verdict without " + a.engine + "."
	}
	said := a.engine + " kept its promises: " + a.kept
	if !r.Goal.Met {
		said = a.engine + " MISSED its goal by " + listed(r.Goal.Missed)
	}
	switch e := r.aimedAt(); { // trouble, although no promise forbids it
	case e.Failed > 0:
		said += fmt.Sprintf("; %d of its calls failed", e.Failed)
	case len(e.Faults) > 0:
		said += "; something went wrong in its run"
	}
	return said + "."
}

// machine is what the machine did, in sentences.
func (r Report) machine() []string {
	said := []string{fmt.Sprintf("This machine stalled for up to %v. Pairs closer than %v have no order.",
		measure.MS(math.Ceil(float64(r.StallMS))), r.ApartMS)}
	if r.StallMS > r.ApartMS {
		said[0] += " Longer stalls count for the calls that they hit."
	}
	for _, e := range r.Engines {
		var did []string
		add := func(n int, one, many string) {
			if n > 0 {
				did = append(did, plural(n, one, many))
			}
		}
		if r.of.Shares == nil {
			add(e.MachineInversions, "pair in the wrong order", "pairs in the wrong order")
		}
		add(e.MachineRejections, "upstream 429", "upstream 429s")
		add(e.MissedTurns, "missed turn, given back", "missed turns, given back")
		by := "by the machine"
		if len(e.Incidents) > 0 {
			by += " or what befell a client"
		}
		if len(did) > 0 {
			said = append(said, fmt.Sprintf("%s, %s: %s.", e.Name, by, listed(did)))
		}
	}
	return said
}

// listed is "a", "a and b" or "a, b and c".
func listed(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
