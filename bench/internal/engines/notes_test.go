package engines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

const ms = time.Millisecond

// book is notes on a clock that the test sets, of callers 0 and 1: each asked,
// and was told a turn, at 100 and at 200 ms.
type book struct {
	*notes
	at   time.Duration
	tags map[int]time.Time
	last map[int]engine.Grant // that each was told
}

func twoCallers() *book {
	b := &book{tags: map[int]time.Time{}, last: map[int]engine.Grant{}}
	b.notes = newNotes(func() time.Duration { return b.at }, 5*ms)
	for caller := range 2 {
		b.tags[caller] = b.enter(caller, time.Time{}, false)
		b.told(caller, 10*ms*time.Duration(caller+1), 100*ms*time.Duration(caller+1))
	}
	return b
}

func (b *book) told(caller int, replied, due time.Duration) {
	wait := due - replied
	b.last[caller] = engine.Grant{ID: "a queue", At: due.Microseconds(), N: 1, Made: replied.String()}
	b.put(caller, engine.Answer{Granted: true, Wait: wait, Grant: b.last[caller]},
		measure.Turn{Sent: replied - ms, Replied: replied, Wait: wait})
}

// goes lets a caller take the turn that another, or itself, was told.
func (b *book) goes(caller int, slot time.Duration, turnOf int) *measure.Turn {
	b.at = slot
	b.take(caller, b.last[turnOf], slot)
	return b.leave(caller, b.tags[caller])
}

func TestATurnThatIsTakenIsTheCallersOwn(t *testing.T) {
	b := twoCallers()
	turn := b.goes(1, 200*ms, 1)
	require.Equal(t, 20*ms, turn.Replied)
	require.Equal(t, 200*ms, turn.Due())
	require.Zero(t, turn.Promised)

	turn = b.goes(0, 3100*ms, 0) // after a pause
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
	require.Equal(t, measure.Misses{Turns: 1}, b.misses())

	first := b.goes(0, 200*ms, 1)
	require.Equal(t, 20*ms, first.Replied, "the second caller's question")
	require.Equal(t, 10*ms, first.First)
	require.Equal(t, 100*ms, first.Promised)

	b.at = 108 * ms
	b.told(1, 108*ms, 300*ms) // lined up again
	second := b.goes(1, 300*ms, 1)
	require.Equal(t, 108*ms, second.Replied)
	require.Equal(t, 20*ms, second.First)
	require.Equal(t, 200*ms, second.Promised)
}

// TestCallersMayGoBeforeAnybodyHearsOfTheMiss has caller 0 take the turn of
// caller 1, whose answer took so long that its turn may come at the same moment.
func TestCallersMayGoBeforeAnybodyHearsOfTheMiss(t *testing.T) {
	b := twoCallers()
	b.put(1, engine.Answer{Granted: true, Wait: 101 * ms, Grant: engine.Grant{ID: "a queue", At: 1, N: 1}},
		measure.Turn{Sent: 21 * ms, Replied: 100 * ms, Wait: 101 * ms})
	first := b.goes(0, 200*ms, 1)
	require.Equal(t, 20*ms, first.Replied)
	require.Equal(t, 100*ms, first.Promised)
	b.miss(1)
	require.Equal(t, measure.Misses{Turns: 1}, b.misses(), "the first turn is past, and nobody took it")
	b.last[1] = engine.Grant{ID: "a queue", At: 1, N: 1}
	require.Equal(t, 100*ms, b.goes(1, 201*ms, 1).Replied)
}

// TestATurnTakenTwiceIsNotedTwice is what an engine must not do.
func TestATurnTakenTwiceIsNotedTwice(t *testing.T) {
	b := twoCallers()
	require.Equal(t, 20*ms, b.goes(0, 200*ms, 1).Replied)
	second := b.goes(1, 200*ms, 1)
	require.Equal(t, 20*ms, second.Replied)
	require.False(t, second.Unknown)
}

// TestALongWaitLetsClocksRunApart has a turn of 10 s missed at a moment that its
// answer puts 8 ms before it is past, and one of 1 s.
func TestALongWaitLetsClocksRunApart(t *testing.T) {
	for slot, groundless := range map[time.Duration]int{10_000 * ms: 0, 1000 * ms: 1} {
		b := twoCallers()
		b.goes(0, 100*ms, 0)
		b.goes(1, 200*ms, 1)
		b.tags[0] = b.enter(0, time.Time{}, false)
		b.told(0, 20*ms, slot)
		b.at = slot - ms + 5*ms - 8*ms
		b.miss(1)
		require.Equal(t, measure.Misses{Turns: 1, Groundless: groundless}, b.misses())
	}
}

func TestATurnThatNobodyWasToldIsUnknown(t *testing.T) {
	b := twoCallers()
	b.last[2] = engine.Grant{ID: "another queue", At: 1}
	require.True(t, b.goes(0, 200*ms, 2).Unknown)
}

func TestAMissWithoutATurnThatIsPastIsGroundless(t *testing.T) {
	b := twoCallers()
	b.at = 101 * ms
	b.miss(1)
	require.Equal(t, measure.Misses{Turns: 1, Groundless: 1}, b.misses())
	require.Zero(t, b.goes(0, 200*ms, 0).Promised, "it explains nothing")
}
