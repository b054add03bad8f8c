package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Histories in which permits are pulled forward to a cell that then seems to be
// a row which reaches back behind other cells.
func TestPermitsThatWerePulledForwardAreNoRow(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{8_000_549, 10_000_118} {
		step := 0
		anyPlan(seed).play(t, func(g *played) {
			if step++; step%150 == 0 {
				require.GreaterOrEqual(t, g.debt(), int64(0), "no credit")
			}
		})
	}
}
