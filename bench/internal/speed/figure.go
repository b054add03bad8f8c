package speed

// Figure is one line of the table.
type Figure struct {
	Row  string `json:"row"`
	What string `json:"what"`
	Unit string `json:"unit"`

	Yardstick string   `json:"yardstick,omitempty"` // what it is; empty where there is none
	Known     *float64 `json:"yardstick_value,omitempty"`
	Ours      float64  `json:"ours"`

	// Ratio is ours ÷ yardstick: the median of the rounds' ratios. Middle holds
	// those of half of the rounds; a quarter lies on either side.
	Ratio  *float64    `json:"ratio,omitempty"`
	Middle *[2]float64 `json:"middle_half,omitempty"`

	Goal *Goal `json:"goal,omitempty"`
	Met  *bool `json:"met,omitempty"`
}

// Goal is what a figure is held against.
type Goal struct {
	Of    string  `json:"of"`    // "ratio", "ours" or "beyond": ours − yardstick
	Sense string  `json:"sense"` // "at most" or "at least"
	Bound float64 `json:"bound"`
}

const (
	ofRatio  = "ratio"
	ofOurs   = "ours"
	ofBeyond = "beyond"
	atMost   = "at most"
	atLeast  = "at least"
)

func ratioAtMost(bound float64) Goal  { return Goal{ofRatio, atMost, bound} }
func ratioAtLeast(bound float64) Goal { return Goal{ofRatio, atLeast, bound} }
func oursAtMost(bound float64) Goal   { return Goal{ofOurs, atMost, bound} }
func beyondAtMost(bound float64) Goal { return Goal{ofBeyond, atMost, bound} }

// beside puts the figure beside the rounds of a yardstick. There is no ratio to
// a yardstick that was 0 in a round.
func (f Figure) beside(yardstick string, known, ours []float64) Figure {
	median := quantile(known, 0.5)
	f.Yardstick, f.Known = yardstick, &median
	ratios := make([]float64, len(ours))
	for i := range ratios {
		if known[i] == 0 {
			return f
		}
		ratios[i] = ours[i] / known[i]
	}
	ratio := quantile(ratios, 0.5)
	f.Ratio, f.Middle = &ratio, &[2]float64{quantile(ratios, 0.25), quantile(ratios, 0.75)}
	return f
}

// against holds the figure against a goal, if there is one. A figure without
// what the goal is of misses it.
func (f Figure) against(g Goal) Figure {
	if g.Of == "" {
		return f
	}
	value, known := f.Ours, true
	switch {
	case g.Of == ofRatio && f.Ratio != nil:
		value = *f.Ratio
	case g.Of == ofBeyond && f.Known != nil:
		value -= *f.Known
	default:
		known = g.Of == ofOurs
	}
	met := known && (g.Sense == atMost && value <= g.Bound || g.Sense == atLeast && value >= g.Bound)
	f.Goal, f.Met = &g, &met
	return f
}
