package report

import "fmt"

// aimed is the engine that the goals are for.
const aimed = "fair"

// Goal is what fair is to reach in a scenario, and whether it did.
type Goal struct {
	Stated string   `json:"stated"`
	Met    bool     `json:"met"`
	Missed []string `json:"missed,omitempty"` // by how much
	Exempt []string `json:"exempt,omitempty"` // what the goal does not cover, and why
}

const stated = "fair: 0 early, 0 inversions, 0 upstream 429s where the guard is over the spread of the delays"

// goalOf is nil where the scenario has none or fair was not measured.
func goalOf(r Report) *Goal {
	if r.shows != "" {
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
	miss := func(n int, what string) {
		if n > 0 {
			g.Missed = append(g.Missed, fmt.Sprintf("%d %s", n, what))
		}
	}
	if e.Early != nil {
		miss(*e.Early, "early")
	}
	miss(e.Inversions, "inversions"+promised(e))
	switch {
	case e.UpstreamRejections == 0:
	case e.SpreadMS != nil && *e.SpreadMS >= e.GuardMS:
		g.Exempt = append(g.Exempt, fmt.Sprintf("%d upstream 429s: delays spread over %s, the guard was %s",
			e.UpstreamRejections, short(*e.SpreadMS), short(e.GuardMS)))
	default:
		miss(e.UpstreamRejections, "upstream 429s")
	}
	g.Met = len(g.Missed) == 0
	return g
}

// promised tells the limiter's inversions from those of the way.
func promised(e Engine) string {
	if e.PromisedInversions == nil {
		return ""
	}
	return fmt.Sprintf(" (%d in the answers that it gave, the others on the way)", *e.PromisedInversions)
}
