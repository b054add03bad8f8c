package fair

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// history is a sequence of calls with the waits that the definition demands,
// worked out by brute force.
type history struct {
	Name   string
	Quotas []struct {
		Permits int
		PerMS   int64 `json:"per_ms"`
		Burst   int
	}
	Steps []struct {
		AtMS      int64 `json:"at_ms"`
		Op        string
		ID, Of, N int
		MaxWaitMS int64 `json:"max_wait_ms"`
		WaitMS    int64 `json:"wait_ms"`
		Refused   bool
	}
}

const tolerance = 2 * time.Millisecond

// beginning is when the clocks begin that tests set: 16 digits of microseconds,
// of which none may get lost.
var beginning = time.Unix(1_700_000_000, 123_456_000)

func histories(t *testing.T) []history {
	text, err := os.ReadFile("testdata/histories.json")
	require.NoError(t, err)
	var all []history
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 80)
	return all
}

func (h history) engine(t *testing.T, rdb redis.UniversalClient) *fair {
	quotas := make([]engine.Quota, len(h.Quotas))
	for i, q := range h.Quotas {
		quotas[i] = engine.Quota{Permits: q.Permits, Per: time.Duration(q.PerMS) * time.Millisecond, Burst: q.Burst}
	}
	return build(t, rdb, quotas...)
}

func build(t testing.TB, rdb redis.UniversalClient, quotas ...engine.Quota) *fair {
	e, err := New(engine.Config{Client: rdb, Name: redistest.Name(t), Quota: quotas[0], Extra: quotas[1:]})
	require.NoError(t, err)
	return e.(*fair)
}

// play runs the history with a clock that at moves to each step's moment.
func (h history) play(t *testing.T, f *fair, at func(time.Duration)) {
	held := map[int]engine.Grant{}
	for i, s := range h.Steps {
		at(time.Duration(s.AtMS) * time.Millisecond)
		if s.Op == "cancel" {
			if grant, ok := held[s.Of]; ok {
				require.NoError(t, f.GiveBack(t.Context(), []engine.Grant{grant}))
				delete(held, s.Of)
			}
			continue
		}
		answers, err := f.Take(
			t.Context(),
			[]engine.Request{{N: s.N, MaxWait: time.Duration(s.MaxWaitMS) * time.Millisecond}},
		)
		require.NoError(t, err)
		require.Equal(t, !s.Refused, answers[0].Granted, "%s, step %d: %+v", h.Name, i, s)
		require.InDelta(
			t,
			time.Duration(s.WaitMS)*time.Millisecond,
			answers[0].Wait,
			float64(tolerance),
			"%s, step %d: %+v",
			h.Name,
			i,
			s,
		)
		if answers[0].Granted {
			held[s.ID] = answers[0].Grant
		}
	}
}

// By default a third of them: the real server below plays them all.
func TestHistoriesOnMiniredis(t *testing.T) {
	t.Parallel()
	for i, h := range histories(t) {
		if i%redistest.Long(3, 1) > 0 {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				start := time.Now()
				h.play(t, h.engine(t, rdb), func(d time.Duration) {
					time.Sleep(time.Until(start.Add(d)))
					synctest.Wait()
				})
			})
		})
	}
}

func TestHistoriesOnRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	for _, h := range histories(t) {
		t.Run(h.Name, func(t *testing.T) {
			f := h.engine(t, rdb)
			h.play(t, f, setClock(t, f))
		})
	}
}

// anyServer reads from keys of its own which server runs the script, and of
// which history its data is.
const anyServer = `local redis = setmetatable({ breakpoint = true, pcall = function(name, ...)
	if name ~= 'INFO' then return redis.pcall(name, ...) end
	return redis.call('GET', KEYS[1] .. ':replication') or redis.error_reply('NOPERM')
end }, { __index = redis, __tostring = function()
	return redis.call('GET', KEYS[1] .. ':server') or 'table: 0x500000000000'
end })
`

// stillClock does so as well, and reads the time from another key. It lets keys
// live longer.
const stillClock = anyServer + `local redis = setmetatable({ call = function(name, ...)
	if name == 'PTTL' then
		local left = redis.call(name, ...)
		return left < 0 and left or math.ceil(left / 1000)
	end
	if name == 'PEXPIRE' then
		local key, ttl = ...
		return redis.call(name, key, 1000 * ttl)
	end
	if name ~= 'TIME' then return redis.call(name, ...) end
	local now = tonumber(redis.call('GET', KEYS[1] .. ':clock'))
	return { math.floor(now / 1000000), now % 1000000 }
end, pcall = function(name, ...)
	if name ~= 'PSETEX' then return redis.pcall(name, ...) end
	local key, ttl, state = ...
	return redis.pcall(name, key, 1000 * ttl, state)
end }, { __index = redis, __tostring = function() return tostring(redis) end })
`

// setClock puts the engine's scripts, otherwise as they are, under a clock of
// their own, and returns what sets that.
func setClock(t testing.TB, f *fair) func(time.Duration) {
	f.scripts = f.scripts.behind(stillClock)
	return func(d time.Duration) {
		now := strconv.FormatInt(beginning.Add(d).UnixMicro(), 10)
		require.NoError(t, f.client.Set(context.Background(), f.key+":clock", now, 0).Err())
	}
}

// behind is the scripts behind a prelude.
func (s scripts) behind(prelude string) scripts {
	return scripts{
		take: behind(prelude, s.take), share: behind(prelude, s.share), release: behind(prelude, s.release),
		status: behind(prelude, s.status), reset: behind(prelude, s.reset), look: behind(prelude, s.look),
		quotas: behind(prelude, s.quotas),
		pause:  behind(prelude, s.pause), set: behind(prelude, s.set),
	}
}

func behind(prelude string, script *lua.Script) *lua.Script {
	return lua.New(prelude + script.Source())
}
