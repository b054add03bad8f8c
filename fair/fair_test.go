package fair

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestWhatCannotBeHonouredIsAnErrorOfNew(t *testing.T) {
	second := engine.Quota{Permits: 1, Per: time.Second}
	for what, cfg := range map[string]engine.Config{
		"too many permits":            {Quota: engine.Quota{Permits: mostPermits + 1, Per: time.Second}},
		"too many permits of another": {Quota: second, Extra: []engine.Quota{{Permits: math.MaxInt, Per: time.Second}}},
		"too long a Per":              {Quota: engine.Quota{Permits: 1, Per: longestPer + 1}},
		"the longest Per of all":      {Quota: engine.Quota{Permits: 1, Per: math.MaxInt64}},
		"too long with its guard":     {Quota: second, Guard: longestPer},
		"an endless guard":            {Quota: second, Guard: math.MaxInt64},
		"a burst that takes no time":  {Quota: engine.Quota{Permits: 1000, Per: 999 * time.Microsecond, Burst: 1}},
		"nine windows":                {Quota: second, Extra: quotas(t, "1/9us 1/2us 1/3us 1/4us 1/5us 1/6us 1/7us 1/8us")},
	} {
		cfg.Name = "n"
		_, err := New(cfg)
		assert.ErrorIs(t, err, engine.ErrUnsupported, what)
	}
}

func TestARequestFitsIfItFitsEveryWindow(t *testing.T) {
	e, err := New(
		engine.Config{
			Name:  "n",
			Quota: engine.Quota{Permits: 10, Per: time.Second, Burst: 4},
			Extra: []engine.Quota{{Permits: 7, Per: time.Hour}},
		},
	)
	require.NoError(t, err)
	assert.True(t, e.Queues())
	assert.NoError(t, e.Fits(4))
	assert.ErrorIs(t, e.Fits(5), engine.ErrExceedsQuota)
	assert.ErrorIs(t, e.Fits(math.MaxInt), engine.ErrExceedsQuota)
}

func TestAnyNameMakesOneKey(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		none, own := "", "own prefix:"
		unique := redistest.Name(t)
		for _, name := range []string{
			"orders", "two words", "{a}b", "}{", "{}", "line\nbreak", "\x00\xff", strings.Repeat("k", 1024),
		} {
			for _, prefix := range []*string{nil, &none, &own} {
				name, key := name+unique, "fairlimit:{"+name+unique+"}"
				var opts []InspectOption
				if prefix != nil {
					key, opts = *prefix+"{"+name+"}", []InspectOption{WithPrefix(*prefix)}
				}
				quota := engine.Quota{Permits: 1, Per: time.Minute}
				e, err := New(engine.Config{Client: rdb, Name: name, Prefix: prefix, Quota: quota})
				require.NoError(t, err)
				require.True(t, take(t, e.(*fair), engine.Request{N: 1})[0].Granted)
				require.Equal(t, int64(1), rdb.Exists(t.Context(), key).Val(), "%q", key)
				s, err := Inspect(t.Context(), rdb, name, opts...)
				require.NoError(t, err)
				require.Equal(t, []Window{{1, time.Minute, 1}}, s.Windows)
			}
		}
	})
}

func TestEachQuotaIsAWindowAndEachBurstAnother(t *testing.T) {
	type all = []engine.Quota
	for _, c := range []struct {
		what   string
		quotas all
		guard  time.Duration
		want   []window
	}{
		{"a quota", quotas(t, "3/1s"), 0, []window{{3, 1_000_000}}},
		{"a nanosecond rounds up", all{{Permits: 3, Per: 1}}, 0, []window{{3, 1}}},
		{"a part of a microsecond rounds up", all{{Permits: 3, Per: 1001}}, 0, []window{{3, 2}}},
		{"a whole microsecond stays", all{{Permits: 3, Per: 1000}}, 0, []window{{3, 1}}},
		{"a burst of all is no further window", all{{Permits: 3, Per: 1000, Burst: 3}}, 0, []window{{3, 1}}},
		{"a burst rounds down", quotas(t, "3/1s burst 2"), 0, []window{{3, 1_000_000}, {2, 666_666}}},
		{"a burst of the exact Per", all{{Permits: 3, Per: 1500, Burst: 2}}, 0, []window{{3, 2}, {2, 1}}},
		{
			"a guard lengthens, and ten take as long",
			quotas(t, "10/1s burst 1"), 50 * time.Millisecond,
			[]window{{1, 105_000}},
		},
		{"a guard lengthens every quota", quotas(t, "10/1s 20/1m"), time.Second, []window{{20, 61_000_000}, {10, 2_000_000}}},
		{"of equal lengths the stricter counts", quotas(t, "10/1s 4/1s"), 0, []window{{4, 1_000_000}}},
		{"whichever comes first", quotas(t, "4/1s 10/1s"), 0, []window{{4, 1_000_000}}},
		{
			"what a shorter one implies is none, nor what a longer one does",
			quotas(t, "100/150s 10/5s 1/1s 100/75s 2/1ms"), 0,
			[]window{{100, 150_000_000}, {1, 1_000_000}},
		},
		{
			"the longest and the most",
			all{{Permits: mostPermits, Per: longestPer, Burst: mostPermits - 1}},
			0,
			[]window{
				{mostPermits, longestPer.Microseconds()},
				{mostPermits - 1, longestPer.Microseconds() - longestPer.Microseconds()/mostPermits},
			},
		},
	} {
		got, err := windowsOf(c.quotas, c.guard)
		require.NoError(t, err, c.what)
		assert.Equal(t, c.want, got, c.what)
	}
}

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
	const news = toldWatermark + " 1700000000000000 0 0 0 0 1700000000000000 0 1 -"
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
