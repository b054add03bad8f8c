package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/estimate"
)

// TestAGuessIsTheQuantileOfTheLast sorts what the estimator keeps sorted.
func TestAGuessIsTheQuantileOfTheLast(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		quantile := 0.01 + 0.99*random.Float64()
		spread, keys := 1+random.IntN(3000), 1+random.IntN(4)
		e, seen := estimate.New(quantile), map[string][]int{}
		for range 800 {
			key := strconv.Itoa(random.IntN(keys))
			used := random.IntN(spread)
			e.Saw(key, used)
			seen[key] = append(seen[key], used)

			last := seen[key][max(0, len(seen[key])-256):]
			sorted := slices.Sorted(slices.Values(last))
			want := sorted[int(math.Ceil(quantile*float64(len(sorted))))-1]
			most := 1 + random.IntN(2*spread)
			require.Equal(t, max(1, min(want, most)), e.Guess(key, most), "seed %d", seed)
		}
	}
}

func TestTheBoundsOfAGuess(t *testing.T) {
	for _, test := range []struct {
		name       string
		quantile   float64
		saw        []int
		most, want int
	}{
		{"of a key that was not seen it is the most", 0.75, nil, 4096, 4096},
		{"and at least 1", 0.75, nil, 0, 1},
		{"no more than the most", 0.75, []int{500}, 100, 100},
		{"no less than 1", 0.75, []int{0}, 100, 1},
		{"a negative most is none", 0.75, []int{500}, -5, 1},
		{"a negative observation counts as 0", 0.5, []int{-5, -5, 7}, 100, 1},
		{"1 is the largest", 1, []int{3, 9, 5}, 100, 9},
		{"next to 0 the smallest", 1e-9, []int{3, 9, 5}, 100, 3},
		{"0 means three quarters", 0, []int{1, 2, 3, 4}, 100, 3},
		{"so does what is too much", 1.5, []int{1, 2, 3, 4}, 100, 3},
		{"or no number", math.NaN(), []int{1, 2, 3, 4}, 100, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := estimate.New(test.quantile)
			for _, used := range test.saw {
				e.Saw("model", used)
			}
			assert.Equal(t, test.want, e.Guess("model", test.most))
		})
	}
}

func TestTheKeysUsedLastAreKept(t *testing.T) {
	var e estimate.Estimator
	for i := range 1024 {
		e.Saw(strconv.Itoa(i), 1)
	}
	e.Guess("0", 9)
	e.Saw("one more", 1)
	assert.Equal(t, 1, e.Guess("0", 9), "it was used")
	assert.Equal(t, 9, e.Guess("1", 9), "it was the oldest")
	assert.Equal(t, 1, e.Guess("2", 9))
}

func TestManyGoroutinesMayGuess(t *testing.T) {
	e := estimate.New(0.75)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 500 {
				e.Saw(strconv.Itoa(j%3), i+1)
				guess := e.Guess(strconv.Itoa(j%5), 16)
				assert.True(t, guess >= 1 && guess <= 16)
			}
		})
	}
	all.Wait()
}
