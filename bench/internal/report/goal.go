package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// aimed is the engine that the goals are for.
const aimed = "fair"

// Goal is what fair is to reach in a scenario, and whether it did.
type Goal struct {
	Stated string   `json:"stated"`
	Met    bool     `json:"met"`
	Missed []string `json:"missed,omitempty"` // by how much
	Exempt []string `json:"exempt,omitempty"` // what the goal does not cover, and why
}

const stated = "fair: nobody early, every turn in order, no window of turns over the quota; " +
	"0 inversions and 0 upstream 429s apart from the machine's"

// leastGuardMS is the guard from which on 429s count. A smaller one is too small
// for any machine.
const leastGuardMS = 10

// goalOf is nil where the scenario has none or fair was not measured.
func goalOf(r Report) *Goal {
	if r.unjudged {
		return nil
	}
	for _, e := range r.Engines {
		if e.Name == aimed {
			return judged(e)
		}
	}
	return nil
}

func judged(e Engine) *Goal {
	g := &Goal{Stated: stated}
	miss := func(n int, one, many string) {
		if n > 0 {
			g.Missed = append(g.Missed, plural(n, one, many))
		}
	}
	missOf := func(n *int, one, many string) {
		if n != nil {
			miss(*n, one, many)
		}
	}
	missOf(e.Early, "early call", "early calls")
	missOf(e.PromisedInversions, "pair of turns in the wrong order", "pairs of turns in the wrong order")
	missOf(e.PromisedExcess, "window of turns over the quota", "windows of turns over the quota")
	missOf(e.UnheardCalls, "call into a closed door", "calls into a closed door")
	miss(e.Inversions, "inversion", "inversions")
	if e.GuardMS >= leastGuardMS {
		miss(e.UpstreamRejections, "upstream 429", "upstream 429s")
	} else if e.UpstreamRejections > 0 {
		g.Exempt = append(g.Exempt, fmt.Sprintf("%s: a guard of %s is too small for any machine",
			plural(e.UpstreamRejections, "upstream 429", "upstream 429s"), short(e.GuardMS)))
	}
	g.Met = len(g.Missed) == 0
	return g
}

// Verdict is what is to be said first: what fair promised and whether it kept
// it, what the machine did, and what there is to see of the others.
func (r Report) Verdict() (lines []string) {
	lines = append(lines, r.Outcome())
	if faults := r.faults(); len(faults) > 0 {
		lines = append(lines, "Exit status 1, because of "+listed(faults)+".")
	}
	if r.Goal != nil {
		for _, exempt := range r.Goal.Exempt {
			lines = append(lines, "Not covered: "+exempt+".")
		}
	}
	if !r.Simulated {
		lines = append(lines, r.machine()...)
	}
	if r.shows != "" && !r.unjudged {
		lines = append(lines, "See also "+r.shows+".")
	}
	return lines
}

// Outcome is the verdict on fair in a sentence.
func (r Report) Outcome() string {
	switch {
	case r.unjudged:
		return "No verdict: this shows " + r.shows + "."
	case r.Goal == nil:
		return "No verdict without " + aimed + "."
	case r.Goal.Met && r.trouble() != "":
		return "fair kept its promises, but " + r.trouble() + ". No turn was too early, out of order or over the quota."
	case r.Goal.Met:
		return "fair kept its promises: no turn too early, none out of order, none over the quota."
	case r.trouble() != "":
		return "fair MISSED its goal by " + listed(r.Goal.Missed) + ", and " + r.trouble() + "."
	default:
		return "fair MISSED its goal by " + listed(r.Goal.Missed) + "."
	}
}

// trouble is what went wrong for fair although no promise forbids it.
func (r Report) trouble() string {
	at := slices.IndexFunc(r.Engines, func(e Engine) bool { return e.Name == aimed })
	switch e := r.Engines[at]; {
	case e.Failed > 0:
		return plural(e.Failed, "of its calls failed", "of its calls failed")
	case len(e.Faults) > 0:
		return "something went wrong in its run"
	}
	return ""
}

// faults are what went wrong for any engine, which is why the program fails.
func (r Report) faults() (faults []string) {
	for _, e := range r.Engines {
		if len(e.Faults) > 0 {
			faults = append(faults, fmt.Sprintf("%s (%s)", e.Name, strings.Join(e.Faults, "; ")))
		}
	}
	return faults
}

// machine is what the machine did, in sentences.
func (r Report) machine() []string {
	said := []string{fmt.Sprintf("This machine stalled for up to %s. Pairs closer than %s have no order%s.",
		short(math.Ceil(r.StallMS)), short(r.ApartMS), r.guard("; %s"))}
	if r.StallMS > r.ApartMS {
		said[0] += " Longer stalls count for the calls that they hit."
	}
	for _, e := range r.Engines {
		var did []string
		if e.MachineInversions > 0 {
			did = append(did, further(e.Inversions, e.MachineInversions, "pair", "pairs")+" in the wrong order")
		}
		if e.MachineRejections > 0 {
			did = append(did, further(e.UpstreamRejections, e.MachineRejections, "upstream 429", "upstream 429s"))
		}
		by := "by the machine"
		if len(e.Incidents) > 0 {
			by += " or what befell a client"
		}
		if e.MachineCalls > 0 {
			did = append(did,
				further(*e.UnheardCalls, e.MachineCalls, "call into a closed door", "calls into a closed door"))
		}
		if e.MissedTurns > 0 {
			did = append(did, plural(e.MissedTurns, "missed turn", "missed turns")+", given back")
		}
		if len(did) > 0 {
			said = append(said, fmt.Sprintf("%s, %s: %s.", e.Name, by, listed(did)))
		}
	}
	return said
}

// guard says whose guard it is and where it comes from, or nothing if no engine
// was given one.
func (r Report) guard(format string) string {
	var whose []string
	for _, e := range r.Engines {
		if e.GuardMS > 0 {
			whose = append(whose, e.Name)
		}
	}
	if len(whose) == 0 {
		return ""
	}
	said := fmt.Sprintf("the guard of %s is %s", listed(whose), short(r.Quota.GuardMS))
	if r.Rehearsed {
		said += ", from a rehearsal"
	}
	return fmt.Sprintf(format, said)
}

// further is a count of the machine's beside the engine's own: "6 more pairs",
// or "6 pairs" if the engine has none.
func further(own, machines int, one, many string) string {
	if own > 0 {
		one, many = "more "+one, "more "+many
	}
	return plural(machines, one, many)
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
