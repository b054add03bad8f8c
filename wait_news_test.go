package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestATurnThatIsDueAtOnceIsTakenOnNewNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb, name := m.NewClient(t), redistest.Name(t)
		var way onTheWay
		rdb.AddHook(&way)
		one, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, m.Client, name, fairlimit.PerSecond(5))
		require.NoError(t, one.Wait(t.Context()))
		way.back.Store(int64(3 * time.Second))
		start, went := time.Now(), make(chan time.Duration)
		go func() {
			assert.NoError(t, one.Wait(t.Context()))
			went <- time.Since(start)
		}()
		time.Sleep(time.Second)
		require.NoError(t, other.Pause(t.Context(), 10*time.Second))
		require.GreaterOrEqual(t, <-went, 11*time.Second, "the pause began while the answer was on its way")
	})
}
