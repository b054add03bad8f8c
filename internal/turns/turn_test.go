package turns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// The question was on its way for long. A look tells that the slot comes when its
// answer told, and no sooner.
func TestAVagueAnswerThatIsConfirmedLetsNoTurnBeMissed(t *testing.T) {
	inBubble(t, second, 25*time.Millisecond, func(t *testing.T, q *queue, l *Sleepers) {
		start := time.Now()
		q.nowTakes(2 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		q.slowThere(200 * time.Millisecond)
		require.NoError(t, wait(t.Context(), l, forever(0)))
		assert.Equal(t, 1002*time.Millisecond, time.Since(start))
		assert.Empty(t, q.givenBack())
	})
}

// The clock of the server gains a little on that of the process.
func TestATurnComesSoonerByWhatClocksRunApart(t *testing.T) {
	inBubble(t, time.Hour, 0, func(t *testing.T, q *queue, l *Sleepers) {
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		time.Sleep(30 * time.Minute)
		q.mu.Lock()
		q.start = q.start.Add(-200 * time.Millisecond)
		q.mu.Unlock()
		assert.Equal(t, time.Hour-200*time.Millisecond, (<-out).at)
	})
}

// A narrower quota puts a turn off by less than answers take. So it does with every
// turn behind it.
func TestATurnIsSlowedByLessThanAnswersTake(t *testing.T) {
	inBubble(t, 2*second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		q.nowTakes(100 * time.Millisecond)
		out := callers(t.Context(), l, 2, forever)
		require.NoError(t, (<-out).err)
		q.nowSlow([]engine.Stretch{{Until: (10 * second).Microseconds(), Pace: 1_050_000}})
		assert.Greater(t, (<-out).at, 2100*time.Millisecond)
	})
}

// A look without an answer ends when another is under way.
func TestALookThatEndsLateSaysNothingOfTheNewestOne(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, q *queue, l *Sleepers) {
		caller := NewSleeper(forever(0))
		caller.request.Ctx = t.Context()
		look := func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.beginLook(caller, time.Now())
		}
		q.nowSilent(true)
		look()
		time.Sleep(4 * second)
		q.nowSilent(false)
		q.nowTakes(2 * second)
		look()
		for _, underWay := range []bool{true, false} {
			time.Sleep(1500 * time.Millisecond)
			l.mu.Lock()
			assert.Equal(t, underWay, l.lastLook.underWay)
			assert.False(t, l.lastLook.failed)
			l.mu.Unlock()
		}
	})
}
