package engines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
	"github.com/fairlimit/fairlimit/engine"
)

const ms = time.Millisecond

// book is notes on a clock that the test sets, of callers 0 and 1: each asked,
// and was told a turn, at 100 and at 200 ms.
type book struct {
	*notes
	at   time.Duration
	tags map[int]time.Time
}

func twoCallers() *book {
	b := &book{tags: map[int]time.Time{}}
	b.notes = newNotes(func() time.Duration { return b.at }, 5*ms)
	for caller := range 2 {
		b.tags[caller] = b.enter(caller, time.Time{}, false)
		b.told(caller, 10*ms*time.Duration(caller+1), 100*ms*time.Duration(caller+1))
	}
	return b
}

func (b *book) told(caller int, replied, due time.Duration) {
	wait := due - replied
	b.put(caller, 1, engine.Answer{Granted: true, Wait: wait},
		metrics.Turn{Sent: replied - ms, Replied: replied, Wait: wait})
}

// goes lets a caller take the turn with this slot.
func (b *book) goes(caller int, slot time.Duration) *metrics.Turn {
	b.at = slot
	b.take(caller, slot)
	return b.leave(caller, b.tags[caller])
}

func TestATurnThatIsTakenIsTheCallersOwn(t *testing.T) {
	b := twoCallers()
	turn := b.goes(1, 200*ms)
	require.Equal(t, 20*ms, turn.Replied)
	require.Equal(t, 200*ms, turn.Due())
	require.Zero(t, turn.Promised)

	turn = b.goes(0, 3100*ms) // after a pause
	require.Equal(t, 10*ms, turn.Replied)
	require.Equal(t, 3100*ms, turn.Due())
	require.Zero(t, turn.Promised)
	require.False(t, turn.Unknown)
	require.Zero(t, b.misses())
}

func TestAfterAMissTheTurnIsThatOfWhoseSlotItIs(t *testing.T) {
	b := twoCallers()
	b.at = 106 * ms
	b.miss(1)
	require.Equal(t, metrics.Misses{Turns: 1}, b.misses())

	first := b.goes(0, 200*ms)
	require.Equal(t, 20*ms, first.Replied, "the second caller's question")
	require.Equal(t, 10*ms, first.First)
	require.Equal(t, 100*ms, first.Promised)

	b.at = 108 * ms
	b.told(1, 108*ms, 300*ms) // lined up again
	second := b.goes(1, 300*ms)
	require.Equal(t, 108*ms, second.Replied)
	require.Equal(t, 20*ms, second.First)
	require.Equal(t, 200*ms, second.Promised)
}

// TestNoTurnIsTakenTwice has answers take so long that the turns of callers 1 and
// 2 may both come at 200 ms. Caller 0 has missed its own.
func TestNoTurnIsTakenTwice(t *testing.T) {
	for name, third := range map[string]bool{"the other is there": true, "none is there": false} {
		t.Run(name, func(t *testing.T) {
			b := twoCallers()
			if third {
				b.tags[2] = b.enter(2, time.Time{}, false)
				b.put(2, 1, engine.Answer{Granted: true, Wait: 101 * ms},
					metrics.Turn{Sent: 21 * ms, Replied: 100 * ms, Wait: 101 * ms})
			}
			b.at = 106 * ms
			b.miss(1)
			require.Equal(t, 20*ms, b.goes(0, 200*ms).Replied)
			second := b.goes(1, 200*ms)
			if third {
				require.Equal(t, 100*ms, second.Replied)
			}
			require.Equal(t, !third, second.Unknown)
		})
	}
}

func TestAMissWithoutATurnThatIsPastIsGroundless(t *testing.T) {
	b := twoCallers()
	b.at = 101 * ms
	b.miss(1)
	require.Equal(t, metrics.Misses{Turns: 1, Groundless: 1}, b.misses())
	require.Zero(t, b.goes(0, 200*ms).Promised, "it explains nothing")
}
