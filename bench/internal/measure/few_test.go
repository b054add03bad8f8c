package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheFewWaitAsLongAsTheyStillDo(t *testing.T) {
	rule := Rule{Permits: 2, Per: 100 * ms, Apart: 10 * ms}
	waiting := turn(1, 100, 900, 900, 900)
	waiting.Outcome, waiting.Reached, waiting.Ended = Waiting, false, time.Second
	log := Log{End: time.Second, Callers: []int{50, 1}, Calls: []Call{turn(0, 0, 10, 10, 11), waiting}}
	require.InDelta(t, 900, *Of(log, rule).FewWaitMS, 1e-9)
	require.Equal(t, [2]float64{1, 0}, *Of(log, rule).FewPermits)
	log.Callers = []int{1, 1}
	require.Nil(t, Of(log, rule).FewWaitMS)
	require.Nil(t, Of(log, rule).FewPermits)
}

func TestWhatTheMostCallersGotStandsBesideWhatTheFewestGot(t *testing.T) {
	log := Log{End: time.Second, Callers: []int{50, 1, 1}}
	for at, client := range []int{0, 0, 0, 0, 1, 2, 2} {
		log.Calls = append(log.Calls, turn(client, at, at+1, at+1, at+2))
	}
	require.Equal(t, [2]float64{4, 1.5}, *Of(log, Rule{Permits: 20, Per: 100 * ms, Apart: 10 * ms}).FewPermits)
}
