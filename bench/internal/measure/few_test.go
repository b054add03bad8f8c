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
	log.Callers = []int{1, 1}
	require.Nil(t, Of(log, rule).FewWaitMS)
}
