package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhoWentFirstTookTheFirstTurn(t *testing.T) {
	due := func(at, permits int) Turn { return *turn(0, 0, at, at, at).with(permits).Turn }
	log := Log{
		Callers: []int{3, 1},
		Calls: []Call{
			turn(0, 0, 0, 210, 211).untold(), turn(0, 1, 0, 110, 111).untold(), // who called first went last
			turn(0, 2, 0, 150, 151).with(2).untold(), turn(1, 3, 0, 110, 111).untold(), stuck(0, 4, 1000),
		},
		Told: []Told{{Turns: []Turn{due(200, 1), due(50, 1), due(100, 1), due(140, 2), due(300, 1)}, Returned: []int{1}}, {}},
	}
	calls := WithTurns(log)
	for i, at := range []int{200, 100, 140} {
		require.Equal(t, ms*time.Duration(at), calls[i].Turn.Due(), i)
	}
	require.Nil(t, calls[3].Turn, "another process's limiter told of nothing")
	require.Nil(t, calls[4].Turn, "it still waits")
}

// TestAnAnswerThatWasHeldUpMakesNobodyEarly has the first turn answered after
// the second.
func TestAnAnswerThatWasHeldUpMakesNobodyEarly(t *testing.T) {
	first, second := turn(0, 0, 100, 110, 111), turn(0, 0, 105, 120, 121)
	first.Turn.Sent, first.Turn.Replied, first.Turn.Wait = 0, 100*ms, 100*ms
	second.Turn.Sent, second.Turn.Replied, second.Turn.Wait = 50*ms, 51*ms, 65*ms
	log := Log{
		Callers: []int{2}, Calls: []Call{first.untold(), second.untold()},
		Told: []Told{{Turns: []Turn{*first.Turn, *second.Turn}}},
	}
	_, early := punctuality(WithTurns(log))
	require.Zero(t, early)
}

func (c Call) untold() Call {
	c.Turn = nil
	return c
}

func (c Call) with(permits int) Call {
	c.Permits, c.Turn.Permits = permits, permits
	return c
}
