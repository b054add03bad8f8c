package engines

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

func TestTheTurnsOfAProcessAreNoted(t *testing.T) {
	t.Parallel()
	limiter := open(t, fairEngine, server(t).Client(), 2, time.Hour, 1)
	for range 2 {
		_, err := limiter.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	told := limiter.(Teller).Told()
	require.Len(t, told.Turns, 2)
	for _, turn := range told.Turns {
		require.Equal(t, 1, turn.Permits)
		require.Less(t, turn.Sent, turn.Replied)
		require.Zero(t, turn.Wait)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := limiter.Acquire(ctx, 2)
	require.ErrorIs(t, err, context.Canceled)
	told = limiter.(Teller).Told()
	require.Len(t, told.Turns, 3)
	require.InDelta(t, time.Hour, told.Turns[2].Wait, float64(time.Minute))
	require.Eventually(t, func() bool {
		told = limiter.(Teller).Told()
		return len(told.Returned) == 1 && told.Returned[0] == 2
	}, 5*time.Second, time.Millisecond, "the third of all")
}

// odd is an engine whose answer is not in order, and which then loses answers.
type odd struct {
	engine.Engine
	err error
}

func (o odd) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	return []engine.Answer{{Granted: true, Grant: engine.Grant{At: 2}}, {Granted: true, Grant: engine.Grant{At: 1}}}, o.err
}

func (o odd) GiveBack(context.Context, []engine.Grant) error { return o.err }

func TestWhatIsOutOfOrderLostOrGivenBackIsNoted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		n, o := Notes{Now: measure.Now}, odd{}
		if lost {
			o.err = engine.ErrOutcomeUnknown
		}
		e := noted{o, &n}
		_, err := e.Take(t.Context(), []engine.Request{{N: 3}})
		require.Equal(t, o.err, err)
		require.Equal(t, o.err, e.GiveBack(t.Context(), []engine.Grant{{N: 4}}))
		told := n.Told()
		require.Equal(t, 1, told.Strange, "nobody held it")
		require.Equal(t, 1, told.Backwards)
		if lost {
			require.Equal(t, 7, told.Lost)
		} else {
			require.Equal(t, 4, told.GivenBack)
		}
	}
}
