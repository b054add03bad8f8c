package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunsAtTheSpeedOfGosOwnClock(t *testing.T) {
	began, since := time.Now(), Now()
	time.Sleep(50 * time.Millisecond)
	ours := Now() - since
	theirs := time.Since(began)

	require.GreaterOrEqual(t, ours, 50*time.Millisecond)
	require.LessOrEqual(t, ours, theirs)
}
