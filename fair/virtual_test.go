package fair

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// beginning is when the clocks begin that tests set: 16 digits of microseconds,
// of which none may get lost.
var beginning = time.Unix(1_700_000_000, 123_456_000)

func build(t testing.TB, rdb redis.UniversalClient, quotas ...engine.Quota) *fair {
	e, err := New(engine.Config{Client: rdb, Name: redistest.Name(t), Quota: quotas[0], Extra: quotas[1:]})
	require.NoError(t, err)
	return e.(*fair)
}

// world is a server whose clock stands still until the test sets it.
type world struct {
	rdb   redis.UniversalClient
	clock func(testing.TB, *fair) func(time.Duration)
	// How much longer a key lives than the engine asked for, so that it does
	// not expire on the real clock.
	scale time.Duration
	share int           // of all histories that are played by default
	step  time.Duration // in which time passes where nothing else says
}

// many is how many of all histories are played: a sixth, and a fortieth on
// miniredis, whose Lua is slow. Where FAIRLIMIT_LONG is set it is all, and a
// sixth. The model in internal/model is what plays many.
func (w world) many(all int) int { return max(1, redistest.Long(all/w.share, 6*all/w.share)) }

// inBothWorlds runs the test against miniredis and against a real server, beside
// other tests.
func inBothWorlds(t *testing.T, test func(*testing.T, world)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m := redistest.Mini(t)
		test(t, world{m.Client, func(_ testing.TB, f *fair) func(time.Duration) {
			f.scripts = f.scripts.behind(anyServer)
			return func(d time.Duration) { m.SetTime(beginning.Add(d)) }
		}, 1, 40, redistest.Long(500*time.Millisecond, 100*time.Millisecond)})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, realWorld(t))
	})
}

func realWorld(t testing.TB) world {
	return world{redistest.Standalone(t), setClock, 1000, 6, 100 * time.Millisecond}
}

// queue makes an engine on a name of its own, and what sets its clock, at first
// to 0.
func (w world) queue(t testing.TB, quotas ...engine.Quota) (*fair, func(time.Duration)) {
	f := build(t, w.rdb, quotas...)
	at := w.clock(t, f)
	at(0)
	return f, at
}

// ttl is how long the engine asked for the key to live.
func (w world) ttl(t testing.TB, f *fair) time.Duration {
	left, err := w.rdb.PTTL(t.Context(), f.key).Result()
	require.NoError(t, err)
	return (left + w.scale*time.Millisecond - 1).Truncate(w.scale*time.Millisecond) / w.scale
}

// take asks in as many questions as it needs.
func take(t testing.TB, f *fair, requests ...engine.Request) []engine.Answer {
	var all []engine.Answer
	for len(all) < len(requests) {
		answers, err := f.Take(t.Context(), requests[len(all):])
		require.NoError(t, err)
		require.NotEmpty(t, answers)
		all = append(all, answers...)
	}
	require.Len(t, all, len(requests))
	return all
}

// queued is count turns of n permits each, however late.
func queued(t testing.TB, f *fair, count, n int) []engine.Grant {
	requests := make([]engine.Request, count)
	for i := range requests {
		requests[i] = engine.Request{N: n, MaxWait: engine.Forever}
	}
	grants := make([]engine.Grant, count)
	for i, a := range take(t, f, requests...) {
		require.True(t, a.Granted)
		grants[i] = a.Grant
	}
	return grants
}

func giveBack(t testing.TB, f *fair, grants ...engine.Grant) {
	require.NoError(t, f.GiveBack(t.Context(), grants))
}

// wait is how long a caller of one permit would have to wait now.
func wait(t testing.TB, f *fair) time.Duration {
	status, err := f.Status(t.Context())
	require.NoError(t, err)
	return status.Delay
}

// arrival is one request at a moment.
type arrival struct {
	at      time.Duration
	request engine.Request
}

// arrive sends each request at its moment, many in one pipeline, and returns
// the slots: a script call takes about 20 µs this way. It is that of a stranger
// each time. The clock is one that setClock made.
func arrive(t testing.TB, f *fair, arrivals []arrival) []engine.Grant {
	ctx := t.Context()
	sha, err := f.client.ScriptLoad(ctx, f.scripts.take.Source()).Result()
	require.NoError(t, err)
	var grants []engine.Grant
	for some := range slices.Chunk(arrivals, 500) {
		pipe := f.client.Pipeline()
		replies := make([]*redis.Cmd, len(some))
		for i, a := range some {
			args, _, _ := f.takeArgs(f.quotaSet, []engine.Request{a.request})
			args[1], args[2] = "", "abcdefgh 0 0 0 0 0 0 0 0 0 0 0 0 -"
			pipe.Set(ctx, f.key+":clock", beginning.Add(a.at).UnixMicro(), 0)
			replies[i] = pipe.EvalSha(ctx, sha, []string{f.key}, args...)
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		for i, reply := range replies {
			o, err := decode(reply.Val(), []engine.Request{some[i].request})
			require.NoError(t, err)
			require.True(t, o.answers[0].Granted)
			grants = append(grants, o.answers[0].Grant)
		}
	}
	return grants
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
