package speed

import (
	"context"
	"fmt"
	"slices"
)

// row is one thing that is measured in rounds: a yardstick and ours in turn.
type row struct {
	group     string // what -rows calls it
	what      string
	yardstick string  // empty without one
	rounds    float64 // times those of the scale; one in any case
	figures   []wanted
	sides     func(context.Context, *bed) (sides, error)
}

// wanted is a figure of a row.
type wanted struct {
	what string // before what the row is called, may be empty
	unit string
	goal Goal // zero for none
}

// sides are what is measured in turn; yardstick may be nil.
type sides struct{ yardstick, ours probe }

// probe is one round of one side: a value for each figure of the row.
type probe func(context.Context) ([]float64, error)

// one is the probe of a row with one figure.
func one(m func(context.Context) (float64, error)) probe {
	return func(ctx context.Context) ([]float64, error) {
		value, err := m(ctx)
		return []float64{value}, err
	}
}

// measure returns the row's figures.
func (r row) measure(ctx context.Context, b *bed) (figures []Figure, err error) {
	s, err := r.sides(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	known, ours, err := inTurn(ctx, max(1, int(r.rounds*float64(b.Rounds))), s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	for i, w := range r.figures {
		f := Figure{Row: r.group, What: w.what + r.what, Unit: w.unit, Ours: quantile(column(ours, i), 0.5)}
		if known != nil {
			f = f.beside(r.yardstick, column(known, i), column(ours, i))
		}
		figures = append(figures, f.against(w.goal))
	}
	return figures, nil
}

// inTurn measures round by round. Who comes first changes from round to round,
// so that a machine that gets slower or faster meanwhile favours neither.
func inTurn(ctx context.Context, rounds int, s sides) (known, ours [][]float64, err error) {
	turns := []struct {
		probe
		into *[][]float64
	}{{s.ours, &ours}}
	if s.yardstick != nil {
		turns = append(turns, turns[0])
		turns[0].probe, turns[0].into = s.yardstick, &known
	}
	for round := range rounds {
		for _, turn := range turns {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			values, err := turn.probe(ctx)
			if err != nil {
				return nil, nil, fmt.Errorf("round %d: %w", round+1, err)
			}
			*turn.into = append(*turn.into, values)
		}
		slices.Reverse(turns)
	}
	return known, ours, nil
}

// column is one figure of all rounds.
func column(rounds [][]float64, i int) (values []float64) {
	for _, round := range rounds {
		values = append(values, round[i])
	}
	return values
}

// quantile is 0 of nothing.
func quantile[T int64 | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
