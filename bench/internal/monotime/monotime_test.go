package monotime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/monotime"
)

func TestRunsAtTheSpeedOfGosOwnClock(t *testing.T) {
	began, since := time.Now(), monotime.Now()
	time.Sleep(50 * time.Millisecond)
	ours := monotime.Now() - since
	theirs := time.Since(began)

	require.GreaterOrEqual(t, ours, 50*time.Millisecond)
	require.LessOrEqual(t, ours, theirs)
}
