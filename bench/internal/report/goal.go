package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Goal is what fair is to reach in a scenario, and whether it did.
type Goal struct {
	Stated string   `json:"stated"`
	Met    bool     `json:"met"`
	Missed []string `json:"missed,omitempty"` // by how much
}

const (
	statedOrder = "fair: nobody early, every turn in order, no window of turns over the quota; " +
		"0 inversions and 0 upstream 429s apart from the machine's"
	statedTokens = "fair: nobody early, every turn in order, no window over the quota apart from what its own calls " +
		"wrote beyond their estimates; 0 inversions apart from the machine's; 429s, use and windows within bounds"
	statedShares = "fair+flows: nobody early, no window of turns over the quota; " +
		"0 upstream 429s apart from the machine's; shares, use and waits within bounds"
)

// leastGuardMS is the guard from which on 429s count. A smaller one is too small
// for any machine.
const leastGuardMS = 10

// aimed is the engine that the goal is for.
func (r Report) aimed() string {
	if r.shares != nil {
		return "fair+flows"
	}
	return "fair"
}

// aimedAt is that engine, or nil if it was not measured.
func (r Report) aimedAt() *Engine {
	at := slices.IndexFunc(r.Engines, func(e Engine) bool { return e.Name == r.aimed() })
	if at < 0 {
		return nil
	}
	return &r.Engines[at]
}

// goalOf is nil where the scenario has none or its engine was not measured.
func goalOf(r Report) *Goal {
	e := r.aimedAt()
	if r.unjudged || e == nil {
		return nil
	}
	zero := 0
	g, disorder, inversions := &Goal{Stated: statedOrder}, e.PromisedInversions, &e.Inversions
	if r.shares != nil { // flows promise no order between them
		g = &Goal{Stated: statedShares, Missed: missedShares(*r.shares, *e)}
		disorder, inversions = nil, nil
	}
	if r.tokens != nil {
		g.Stated, g.Missed = statedTokens, missedTokens(*r.tokens, *e)
	}
	for _, broken := range []struct {
		count     *int
		one, many string
	}{
		{e.Early, "early call", "early calls"},
		{disorder, "pair of turns in the wrong order", "pairs of turns in the wrong order"},
		{e.PromisedExcess, "window of turns over the quota", "windows of turns over the quota"},
		{inversions, "inversion", "inversions"},
		{&e.UpstreamRejections, "upstream 429", "upstream 429s"},
	} {
		if broken.count == &e.UpstreamRejections && (e.GuardMS < leastGuardMS || r.tokens != nil && !r.tokens.Never429) {
			broken.count = &zero
		}
		if broken.count != nil && *broken.count > 0 {
			g.Missed = append(g.Missed, plural(*broken.count, broken.one, broken.many))
		}
	}
	g.Met = len(g.Missed) == 0
	return g
}

// missedShares says by how much the goals of a scenario with flows were missed.
// Turns that the machine missed count as used.
func missedShares(want scenario.Shares, e Engine) (missed []string) {
	used := e.Utilization * float64(e.Grants+e.MissedTurns) / float64(max(1, e.Grants))
	if e.SmallestShare < want.Least {
		missed = append(missed, fmt.Sprintf("a share of %s, not %s", percent(e.SmallestShare), percent(want.Least)))
	}
	if used < want.Used {
		missed = append(missed, fmt.Sprintf("a quota used to %s, not %s", percent(used), percent(want.Used)))
	}
	if few, alone := e.FewWaitMS, e.FewWaitAloneMS; few != nil && alone != nil && *few > want.Wait**alone {
		missed = append(missed, fmt.Sprintf("waits of %s, more than %v times %s",
			short(*few), want.Wait, short(*alone)))
	}
	return missed
}

// missedTokens says by how much the goals of a scenario with tokens were missed.
func missedTokens(want scenario.Tokens, e Engine) (missed []string) {
	if e.Utilization < want.Used {
		missed = append(missed, fmt.Sprintf("%s of the output used, not %s", percent(e.Utilization), percent(want.Used)))
	}
	if o := e.Output; want.Fullest > 0 && o.Fullest > want.Fullest {
		missed = append(missed,
			fmt.Sprintf("a window with %s of its output, not %s", percent(o.Fullest), percent(want.Fullest)))
	}
	return missed
}

// beyond says why windows hold more output than the quota.
func (r Report) beyond() []string {
	e := r.aimedAt()
	if r.tokens == nil || e == nil || e.Output.Fullest <= 1 {
		return nil
	}
	return []string{fmt.Sprintf("The window with %s of its output might hold %s: the quota, and what its own calls "+
		"wrote beyond their estimates. Of this excess %s of the quota was not yet known when the last of them "+
		"asked: those calls were under way.",
		percent(e.Output.Fullest), percent(e.Output.AtMost), percent(e.Output.Unknown))}
}

// Verdict is what is to be said first: what fair promised and whether it kept
// it, what the machine did, and what there is to see of the others.
func (r Report) Verdict() (lines []string) {
	lines = append(lines, r.Outcome())
	lines = append(lines, r.beyond()...)
	var faults []string // that make the program fail
	for _, e := range r.Engines {
		if len(e.Faults) > 0 {
			faults = append(faults, fmt.Sprintf("%s (%s)", e.Name, strings.Join(e.Faults, "; ")))
		}
	}
	if len(faults) > 0 {
		lines = append(lines, "Exit status 1, because of "+listed(faults)+".")
	}
	if !r.Simulated {
		lines = append(lines, r.machine()...)
	}
	if r.shows != "" && !r.unjudged {
		lines = append(lines, "See also "+r.shows+".")
	}
	return lines
}

// Outcome is the verdict in a sentence.
func (r Report) Outcome() string {
	switch {
	case r.unjudged:
		return "No verdict: this shows " + r.shows + "."
	case r.Goal == nil:
		return "No verdict without " + r.aimed() + "."
	}
	kept := "none out of order, none over the quota"
	if r.shares != nil {
		kept = "none over the quota, and each flow has its share"
	}
	if r.tokens != nil {
		kept = "none out of order, none over the quota apart from what was under-estimated"
	}
	trouble := "" // although no promise forbids it
	switch e := r.aimedAt(); {
	case e.Failed > 0:
		trouble = plural(e.Failed, "of its calls failed", "of its calls failed")
	case len(e.Faults) > 0:
		trouble = "something went wrong in its run"
	}
	kept = r.aimed() + " kept its promises: no turn too early, " + kept
	if !r.Goal.Met {
		kept = r.aimed() + " MISSED its goal by " + listed(r.Goal.Missed)
	}
	if trouble != "" {
		kept += "; " + trouble
	}
	return kept + "."
}

// machine is what the machine did, in sentences.
func (r Report) machine() []string {
	said := []string{fmt.Sprintf("This machine stalled for up to %s. Pairs closer than %s have no order.",
		short(math.Ceil(r.StallMS)), short(r.ApartMS))}
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
		if r.shares == nil {
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
