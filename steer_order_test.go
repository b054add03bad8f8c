package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Callers of one limiter that line up again keep their order, whatever they ask
// for. The later ones line up in front of the earlier ones.
func TestCallersForDifferentPermitsLineUpAgainInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSteered(t)
		s.fails = engine.ErrUnreachable
		errs := lineUp(t.Context(), q, 1, 3)
		(<-s.calls).answers(granted(time.Second, 1))
		(<-s.calls).answers(granted(2*time.Second, 2), granted(3*time.Second, 3))
		synctest.Wait()
		require.Error(t, q.Pause(t.Context(), 10*time.Second))
		time.Sleep(9 * time.Second)
		other := lineUp(t.Context(), q, 4, 4)
		call := <-s.calls // a question is under way when all three miss their turns
		time.Sleep(2 * time.Second)
		synctest.Wait()
		call.grants(1)
		call = <-s.calls
		assert.Equal(t, []int{1, 2, 3}, call.permits())
		call.grants(3)
		for range 3 {
			<-errs
		}
		<-other
	})
}
