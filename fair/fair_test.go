package fair

import (
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
				if prefix != nil {
					key = *prefix + "{" + name + "}"
				}
				e, err := New(
					engine.Config{
						Client: rdb,
						Name:   name,
						Prefix: prefix,
						Quota:  engine.Quota{Permits: 1, Per: time.Minute},
					},
				)
				require.NoError(t, err)
				answers, err := e.Take(t.Context(), []engine.Request{{N: 1}, {N: 1}})
				require.NoError(t, err)
				require.True(t, answers[0].Granted)
				require.False(t, answers[1].Granted)
				require.Equal(t, int64(1), rdb.Exists(t.Context(), key).Val(), "%q", key)
				var opts []InspectOption
				if prefix != nil {
					opts = append(opts, WithPrefix(*prefix))
				}
				s, err := Inspect(t.Context(), rdb, name, opts...)
				require.NoError(t, err)
				require.Equal(t, []Window{{1, time.Minute, 1}}, s.Windows)
				require.NoError(t, e.Reset(t.Context()))
				answers, err = e.Take(t.Context(), []engine.Request{{N: 1}})
				require.NoError(t, err)
				require.True(t, answers[0].Granted)
			}
		}
	})
}
