package measure

import "slices"

// Share is what one client got.
type Share struct {
	Callers int `json:"callers"`
	Grants  int `json:"grants"`
	Permits int `json:"permits"` // of those grants; this is what is shared
}

func shares(log Log) []Share {
	got := make([]Share, len(log.Callers))
	for client, callers := range log.Callers {
		got[client].Callers = callers
	}
	for _, c := range log.Calls {
		if c.Outcome == Granted {
			got[c.Client].Grants++
			got[c.Client].Permits += c.Permits
		}
	}
	return got
}

func (s Share) perCaller() float64 { return float64(s.Permits) / float64(s.Callers) }

// jain is Jain's index, (Σx)²/(nΣx²) with x what a client got: 1 when all got
// the same, 1/n when one got everything. Where nobody got anything, all got the
// same.
func jain(got []Share) float64 {
	var sum, squares float64
	for _, s := range got {
		x := s.perCaller()
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}

// smallest is the part of all permits that the client with the fewest got. It
// counts from two windows after the first grant on: until then, whoever asked
// first may have taken what goes ahead of all shares.
func smallest(log Log, arrived []Call, rule Rule) Part {
	got, sum := make([]int, len(log.Callers)), 0
	for _, c := range arrived {
		if c.Arrived >= arrived[0].Arrived+2*rule.Per {
			got[c.Client] += c.Permits
			sum += c.Permits
		}
	}
	if sum == 0 {
		return 0
	}
	return Part(slices.Min(got)) / Part(sum)
}

// maxOverMin is the best-off client's permits per caller over the worst-off's,
// nil where the worst-off got nothing.
func maxOverMin(got []Share) *float64 {
	var all []float64
	for _, s := range got {
		all = append(all, s.perCaller())
	}
	if len(all) == 0 || slices.Min(all) == 0 {
		return nil
	}
	ratio := slices.Max(all) / slices.Min(all)
	return &ratio
}
