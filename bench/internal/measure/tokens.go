package measure

import (
	"slices"
	"time"
)

// Tokens are what a call takes of the further units of an upstream, which are
// input and output.
type Tokens struct {
	Input    int           `json:"input"`
	Reserved int           `json:"reserved"` // output that the limiter was told beforehand
	Output   int           `json:"output"`   // that was written
	Takes    time.Duration `json:"takes"`    // from the arrival to the last token
}

// excess is the output that nobody reserved.
func (t *Tokens) excess() int { return max(0, t.Output-t.Reserved) }

// written is the output of a call at a moment. It counts from the arrival on, as
// far as it is written.
func (c Call) written(now time.Duration) int {
	if past := now - c.Arrived; past < c.Tokens.Takes {
		return int(float64(c.Tokens.Output) * float64(past) / float64(c.Tokens.Takes))
	}
	return c.Tokens.Output
}

// fits reports whether there is room for the input of a call that arrives now,
// and for any output at all.
func (l *Ledger) fits(c Call) bool {
	if l.Output == 0 || c.Tokens == nil {
		return true
	}
	input, output := c.Tokens.Input, 0
	for _, before := range l.admitted {
		input += before.Tokens.Input
		output += before.written(c.Arrived)
	}
	return input <= l.Input && output < l.Output
}

// Output is what became of the output of calls, in parts of the output that a
// window may hold.
type Output struct {
	// Fullest is what the calls of one window wrote, by their arrival, at most.
	Fullest Part `json:"fullest_window"`

	// AtMost is what the calls of that window might write: the quota, and their
	// own excess over their estimates. No strict limiter can forbid more.
	AtMost Part `json:"at_most"`
}

// outputOf is nil where the upstream counts calls only.
func outputOf(arrived []Call, rule Rule) *Output {
	if rule.Output == 0 {
		return nil
	}
	var fullest, ofExcess, sum, excess int
	admitted, oldest := admittedOf(arrived), 0
	for _, c := range admitted {
		for admitted[oldest].Arrived <= c.Arrived-rule.Per {
			gone := admitted[oldest].Tokens
			sum, excess, oldest = sum-gone.Output, excess-gone.excess(), oldest+1
		}
		sum, excess = sum+c.Tokens.Output, excess+c.Tokens.excess()
		if sum > fullest {
			fullest, ofExcess = sum, excess
		}
	}
	all := Part(rule.Output)
	return &Output{Fullest: Part(fullest) / all, AtMost: 1 + Part(ofExcess)/all}
}

// usedOutput is the part of the output allowed that was used, from the first
// arrival + Per on.
func usedOutput(log Log, arrived []Call, rule Rule) Part {
	used, admitted := 0, admittedOf(arrived)
	if len(admitted) == 0 {
		return 0
	}
	begin := admitted[0].Arrived + rule.Per
	for _, c := range admitted {
		if c.Arrived >= begin && c.Arrived < log.End {
			used += c.Tokens.Output
		}
	}
	return Part(used) / (Part(rule.Output) * Part(log.End-begin) / Part(rule.period()))
}

func admittedOf(arrived []Call) []Call {
	return slices.DeleteFunc(slices.Clone(arrived), func(c Call) bool { return c.Rejected })
}
