package speed

// Figure is one line of the table.
type Figure struct {
	Row  string `json:"row"`
	What string `json:"what"`
	Unit string `json:"unit"`

	Yardstick string   `json:"yardstick,omitempty"` // what it is; empty where there is none
	Known     *float64 `json:"yardstick_value,omitempty"`
	Ours      float64  `json:"ours"`

	// Ratio is ours ÷ yardstick. Where there were rounds, it is the median of
	// their ratios.
	Ratio *float64 `json:"ratio,omitempty"`

	// Middle holds the ratios of half of the rounds; a quarter lies on either
	// side.
	Middle *[2]float64 `json:"middle_half,omitempty"`

	Goal *Goal  `json:"goal,omitempty"`
	Met  *bool  `json:"met,omitempty"`
	Note string `json:"note,omitempty"`
}

// Goal is what a figure is held against.
type Goal struct {
	Of    string  `json:"of"`    // "ratio" or "ours"
	Sense string  `json:"sense"` // "at most" or "at least"
	Bound float64 `json:"bound"`

	// Mark is better than the bound, and worth telling when it is reached.
	Mark float64 `json:"mark,omitempty"`
}

const (
	ofRatio = "ratio"
	ofOurs  = "ours"
	atMost  = "at most"
	atLeast = "at least"
)

func ratioAtMost(bound float64) *Goal  { return &Goal{Of: ofRatio, Sense: atMost, Bound: bound} }
func ratioAtLeast(bound float64) *Goal { return &Goal{Of: ofRatio, Sense: atLeast, Bound: bound} }
func oursAtMost(bound float64) *Goal   { return &Goal{Of: ofOurs, Sense: atMost, Bound: bound} }

func (g *Goal) andMark(mark float64) *Goal {
	g.Mark = mark
	return g
}

func (g *Goal) reached(value, bound float64) bool {
	if g.Sense == atLeast {
		return value >= bound
	}
	return value <= bound
}

// beside puts the figure beside what rounds in turn came to.
func (f Figure) beside(yardstick string, p pair) Figure {
	f.Yardstick, f.Known, f.Ours, f.Ratio, f.Middle = yardstick, &p.yardstick, p.ours, &p.ratio, &p.middle
	return f
}

// besideOne puts the figure beside one that was measured once.
func (f Figure) besideOne(yardstick string, known float64) Figure {
	f.Yardstick, f.Known = yardstick, &known
	if known > 0 {
		ratio := f.Ours / known
		f.Ratio = &ratio
	}
	return f
}

// against holds the figure against a goal. A figure without the ratio that the
// goal is of misses it.
func (f Figure) against(g *Goal) Figure {
	met := g.Of == ofRatio && f.Ratio != nil && g.reached(*f.Ratio, g.Bound) ||
		g.Of == ofOurs && g.reached(f.Ours, g.Bound)
	f.Goal, f.Met = g, &met
	return f
}

// marked says whether the mark was reached, too.
func (f Figure) marked() bool {
	if f.Goal == nil || f.Goal.Mark == 0 {
		return false
	}
	if f.Goal.Of == ofRatio {
		return f.Ratio != nil && f.Goal.reached(*f.Ratio, f.Goal.Mark)
	}
	return f.Goal.reached(f.Ours, f.Goal.Mark)
}
