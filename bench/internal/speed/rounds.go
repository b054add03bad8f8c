package speed

import (
	"context"
	"fmt"
	"slices"
)

// pair is what rounds in turn came to: medians, and the quartiles of the ratio.
type pair struct {
	yardstick, ours, ratio float64
	middle                 [2]float64
}

// measure is one round of one side.
type measure func(context.Context) (float64, error)

// inTurn measures the yardstick and ours round by round. Who comes first
// changes from round to round, so that a machine that gets slower or faster
// meanwhile favours neither.
func inTurn(ctx context.Context, rounds int, yardstick, ours measure) (pair, error) {
	all, err := allInTurn(ctx, rounds, yardstick, ours)
	if err != nil {
		return pair{}, err
	}
	return all.pairs(0, 1), nil
}

// series are rounds of several sides: [side][round].
type series [][]float64

func allInTurn(ctx context.Context, rounds int, sides ...measure) (series, error) {
	s := make(series, len(sides))
	for round := range rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			value, err := sides[i](ctx)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
			s[i] = append(s[i], value)
		}
	}
	return s, nil
}

func (s series) pairs(yardstick, ours int) pair {
	ratios := make([]float64, len(s[ours]))
	for i := range ratios {
		ratios[i] = s[ours][i] / s[yardstick][i]
	}
	return pair{
		yardstick: quantile(s[yardstick], 0.5), ours: quantile(s[ours], 0.5),
		ratio: quantile(ratios, 0.5), middle: [2]float64{quantile(ratios, 0.25), quantile(ratios, 0.75)},
	}
}

// quantile is 0 of nothing.
func quantile[T int | int64 | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
