package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// churn is two flows that always have callers, beside some that come and go.
type churn struct {
	*fleet
	changes []int64 // when one came, or was forgotten
	granted int     // to each of the two, about
}

const churnEnd = 200 * second

func newChurn(seed uint64, others, lookAhead int, pause func(*rand.Rand) (on, off int64)) *churn {
	const turn = second / 20
	rng := rand.New(rand.NewPCG(seed, 77))
	c := &churn{fleet: newFleet(seed, []Window{{1, turn}}, lookAhead, second/2)}
	c.jitter = turn / 4
	c.joins("aaaaa", 0, 1, 1, second, 1<<50)
	c.joins("bbbbb", 0, 1, 1, second, 1<<50)
	for i := range others {
		for at := int64(5 * second); at < churnEnd; {
			on, off := pause(rng)
			left := at + on
			c.joins(fmt.Sprintf("oth%02d", i), 0, 1, 1, at, left)
			c.changes = append(c.changes, at, left+int64(lookAhead)*turn+c.Grace)
			at = left + 1 + off
		}
	}
	slices.Sort(c.changes)
	c.run(churnEnd)
	c.granted = (c.countOf("aaaaa", 0, churnEnd) + c.countOf("bbbbb", 0, churnEnd)) / 2
	return c
}

// changesIn is how many changes may show in the turns between two slots: those
// of a look-ahead before, and what is left of a share that is forgotten.
func (c *churn) changesIn(from, to int64) int {
	const lag = 2 * second
	first, _ := slices.BinarySearch(c.changes, from-lag)
	last, _ := slices.BinarySearch(c.changes, to+lag)
	return last - first
}

// Nothing makes up for what one of two flows got while the other had not yet
// heard that there is more for both. docs/LIMITS.md says so.
func TestEachFlowThatComesOrGoesMovesOthersApartByOneShareAtMost(t *testing.T) {
	t.Parallel()
	often := func(rng *rand.Rand) (on, off int64) { return rng.Int64N(2 * second), rng.Int64N(2 * second) }
	inStep := func(*rand.Rand) (on, off int64) { return second, 2 * second }
	for _, k := range []struct {
		name              string
		others, lookAhead int
		pause             func(*rand.Rand) (on, off int64)
	}{
		{"one that comes and goes at random", 1, 8, often},
		{"eight at random", 8, 16, often},
		{"eight at the same moments", 8, 8, inStep},
	} {
		worst, granted, changes := 0, 0, 0
		for seed := range uint64(redistest.Long(2, 40)) {
			c := newChurn(seed, k.others, k.lookAhead, k.pause)
			widest, share := c.widest("aaaaa", "bbbbb", 1, 1, 1, 5*second)
			if widest > worst {
				worst, granted, changes = widest, c.granted, len(c.changes)
			}
			c.requireBound(t, share)
		}
		t.Logf("%s: up to %d of about %d permits apart, after %d changes", k.name, worst, granted, changes)
	}
}

// requireBound requires of every interval that the two flows differ by no more
// than a share, and one more for each change.
func (c *churn) requireBound(t *testing.T, share int) {
	type point struct {
		at int64
		by int
	}
	points, by := []point{{5 * second, 0}}, 0
	for _, s := range c.served {
		switch {
		case s.slot < 5*second:
			continue
		case s.flow == "aaaaa":
			by++
		case s.flow == "bbbbb":
			by--
		default:
			continue
		}
		points = append(points, point{s.slot, by})
	}
	for i := 0; i < len(points); i += 7 {
		for j := i + 1; j < len(points); j += 7 {
			apart := max(points[j].by-points[i].by, points[i].by-points[j].by)
			if apart > share {
				require.LessOrEqual(t, apart, share*(1+c.changesIn(points[i].at, points[j].at)))
			}
		}
	}
}
