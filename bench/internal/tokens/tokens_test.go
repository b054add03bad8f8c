package tokens

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func simulate(t *testing.T, r Row, d time.Duration) (f *Figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		f, err = job{r, 1, d}.do()
		require.NoError(t, err)
	})
	return f
}

func TestAHighEstimateIsNeverTurnedAway(t *testing.T) {
	t.Parallel()
	f := simulate(t, Row{Engine: "fair"}, 2*time.Minute)
	assert.NotZero(t, f.Calls)
	assert.Zero(t, f.Refused)
	assert.Zero(t, f.Passed)
	assert.Zero(t, f.Short)
	assert.LessOrEqual(t, f.Fullest, 1.0)
}

// In ten minutes it is 92 %.
func TestMostTokensAreUsedWithTheUsualEstimate(t *testing.T) {
	t.Parallel()
	assert.Greater(t, simulate(t, Row{Engine: "fair", Quantile: 0.75}, 2*time.Minute).Used, 0.7)
}

func TestOthersLetCallsThrough(t *testing.T) {
	t.Parallel()
	for _, row := range Rows[len(Rows)-3:] {
		t.Run(row.Engine, func(t *testing.T) { assert.NotZero(t, simulate(t, row, 15*time.Second).Calls) })
	}
}
