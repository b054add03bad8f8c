package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// What a script tells a limiter of the queue: a watermark, and the whole of it.
const (
	toldWatermark = "abcdefgh 500000ab                1 1700000000000000 1700000000000000"
	toldWhole     = toldWatermark + " 0 0"
)

func isNone(t *testing.T, reply any, requests []engine.Request) {
	t.Helper()
	t.Run(fmt.Sprintf("%.80v", reply), func(t *testing.T) {
		o, err := decode(reply, &quotaSet{}, requests)
		require.ErrorIs(t, err, engine.ErrOutcomeUnknown)
		assert.Empty(t, o)
	})
}

// A proxy or a hook may answer anything. Nothing of it may end the process, or
// be taken for leave to go.
func TestAReplyThatIsNoneIsAnErrorAndNeverAGrant(t *testing.T) {
	t.Parallel()
	const news = toldWatermark + " 1700000000000000 0 0 0 0 0 0 1700000000000000 0 0 0"
	requests := []engine.Request{{N: 1}, {N: 1}}
	for _, reply := range []any{
		nil, "", "OK", toldWatermark[:40], strings.Repeat("x", 68),
		strings.Replace(toldWatermark, "1700", "17x0", 1), true, 1.5, []byte(toldWatermark),
		int64(-1), int64(-5),
		[]any{},
		[]any{toldWhole},
		[]any{toldWhole, ""},
		[]any{toldWhole, int64(0), int64(1)},
		[]any{toldWhole, "", int64(0), int64(1)},
		[]any{int64(1), int64(2), int64(3)},
		[]any{toldWhole, int64(0), int64(0), int64(1), int64(0)},
		[]any{toldWhole, news[:20], int64(0), int64(1), int64(0)},
		[]any{toldWhole, "x" + news, int64(0), int64(1), int64(0)},
		[]any{toldWhole, news + " 7", int64(0), int64(1), int64(0)},
		[]any{toldWhole, news[:9] + "x" + news[9:], int64(0), int64(1), int64(0)},
		[]any{"", "", int64(0), int64(1), int64(0)},
		[]any{"", news, int64(0), int64(1), int64(0)},
		[]any{toldWhole, "", int64(0), int64(0), int64(0)},
		[]any{toldWhole, "", int64(0), int64(3), int64(0)},
		[]any{toldWhole, "", int64(-3), int64(1), int64(0)},
		[]any{toldWhole, "", "0", int64(1), int64(0)},
		[]any{toldWhole, "", int64(0), int64(1), int64(0), int64(0)},
		[]any{toldWhole, "", int64(0), int64(-9223372036854775808), int64(0)},
	} {
		isNone(t, reply, requests)
	}
	o, err := decode([]any{toldWhole, news, int64(0), int64(1), int64(0)}, &quotaSet{}, requests)
	require.NoError(t, err, "the check itself")
	require.Len(t, o.answers, 1)
	o, err = decode(int64(7), &quotaSet{}, requests)
	require.NoError(t, err)
	require.Len(t, o.answers, 2)
}

func TestAReplyWithoutSharesIsAnErrorAndNeverAGrantOfAFlow(t *testing.T) {
	t.Parallel()
	a, b := &engine.Flow{ID: "a", Weight: 1}, &engine.Flow{ID: "b", Weight: 1}
	requests := []engine.Request{{N: 1, Flow: a}, {N: 1, Flow: b}}
	answers := []any{int64(0), int64(2), int64(0)}
	for _, reply := range []any{
		nil, "", toldWatermark, int64(7), true,
		[]any{},
		[]any{toldWhole, "", "1 0 0 - 1 1 0 -"},
		append([]any{toldWhole, ""}, answers...),
		append([]any{toldWhole, "", int64(1)}, answers...),
		append([]any{toldWhole, "", ""}, answers...),
		append([]any{toldWhole, "", "1 0 0 - 1 0"}, answers...),
		append([]any{toldWhole, "", "1 0 0 - 0 1 0 -"}, answers...),
		append([]any{toldWhole, "", "1 0 0 - x 1 0 -"}, answers...),
		append([]any{toldWhole, "", "1 0 0 - 1 1 0 -"}, append(answers, int64(1))...),
	} {
		isNone(t, reply, requests)
	}
	o, err := decode(append([]any{toldWhole, "", "1 0 0 - 2 1 0 -"}, answers...), &quotaSet{}, requests)
	require.NoError(t, err, "the check itself")
	require.Equal(t, 2, o.answers[1].Share)
}

func TestAFullQueueIsAnErrorOfTheRequestThatDoesNotFit(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, flow := range map[string]func(id string) *engine.Flow{
			"plain": func(string) *engine.Flow { return nil },
			"flows": func(id string) *engine.Flow { return &engine.Flow{ID: id, Weight: 1, LookAhead: 2_000_000_000} },
		} {
			t.Run(name, func(t *testing.T) {
				f, _ := w.queue(t, engine.Quota{Permits: 1_000_000_000, Per: time.Second})
				queued(t, f, 9, 1_000_000_000)
				queued(t, f, 1, 999_999_000)
				of := func(id string, n int) engine.Request {
					return engine.Request{N: n, MaxWait: engine.Forever, Flow: flow(id)}
				}
				answers := take(t, f, of("a", 5), of("b", 1_000_000_000), of("c", 7))
				require.True(t, answers[0].Granted)
				require.ErrorIs(t, answers[1].Err, engine.ErrFull)
				require.True(t, answers[2].Granted)
				alone := take(t, f, of("d", 1_000_000_000))
				require.ErrorIs(t, alone[0].Err, engine.ErrFull)
			})
		}
	})
}
