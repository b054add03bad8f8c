package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Everywhere(t, func(t *testing.T, server redistest.Kind) { enginetest.Run(t, New, server) })
}

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
// miniredis, whose Lua is slow. Where FAIRLIMIT_LONG is set it is half, and a
// thirteenth. The model in internal/model is what plays many.
func (w world) many(all int) int { return max(1, redistest.Long(all/w.share, 3*all/w.share)) }

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

// ttl is how long the engine asked for a key to live.
func (w world) ttl(t testing.TB, key string) time.Duration {
	left, err := w.rdb.PTTL(t.Context(), key).Result()
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
	t.Helper()
	return status(t, f).Delay
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
			args[1], args[2] = "", "abcdefgh 0 0 0 0 0 0 0 0 - - -"
			pipe.Set(ctx, f.key+":clock", beginning.Add(a.at).UnixMicro(), 0)
			replies[i] = pipe.EvalSha(ctx, sha, []string{f.key}, args...)
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		for i, reply := range replies {
			o, err := decode(reply.Val(), f.quotaSet, []engine.Request{some[i].request})
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
	if name == 'PTTL' then return math.ceil(redis.pcall(name, ...) / 1000) end
	if name == 'PEXPIRE' then
		local key, ttl = ...
		return redis.pcall(name, key, 1000 * ttl)
	end
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
		quotas: behind(prelude, s.quotas), amounts: behind(prelude, s.amounts),
		amountsShare: behind(prelude, s.amountsShare), statusAmounts: behind(prelude, s.statusAmounts),
		settle: behind(prelude, s.settle), observe: behind(prelude, s.observe),
		pause: behind(prelude, s.pause), set: behind(prelude, s.set), pauseFlow: behind(prelude, s.pauseFlow),
	}
}

func behind(prelude string, script *lua.Script) *lua.Script {
	return lua.New(prelude + script.Source())
}

func pause(t testing.TB, f *fair, d time.Duration) {
	t.Helper()
	require.NoError(t, f.Pause(t.Context(), d))
}

func status(t testing.TB, f *fair) engine.Status {
	t.Helper()
	s, err := f.Status(t.Context())
	require.NoError(t, err)
	return s
}

// hears keeps the news that the engine tells from now on.
func hears(f *fair) *[]engine.News {
	var all []engine.News
	f.heard = func(n *engine.News) { all = append(all, *n) }
	return &all
}

// last returns the newest of the news and forgets all.
func last(t testing.TB, all *[]engine.News) *engine.News {
	t.Helper()
	require.NotEmpty(t, *all)
	n := &(*all)[len(*all)-1]
	require.False(t, n.Asked.IsZero() || n.Arrived.Before(n.Asked))
	*all = nil
	return n
}

// snapshot is a key as it was at some moment.
type snapshot struct {
	state, units string
	left         time.Duration
}

func snap(t testing.TB, f *fair) snapshot {
	return snapshot{
		f.client.Get(t.Context(), f.key).Val(), f.client.Get(t.Context(), f.unitsKey()).Val(),
		f.client.PTTL(t.Context(), f.key).Val(),
	}
}

// restore puts it onto another server, which takes over.
func (s snapshot) restore(t testing.TB, f *fair) {
	moves(t, f)
	s.put(t, f)
}

// put puts it back onto the same server.
func (s snapshot) put(t testing.TB, f *fair) {
	for key, state := range map[string]string{f.key: s.state, f.unitsKey(): s.units} {
		if s.left <= 0 || state == "" {
			require.NoError(t, f.client.Del(t.Context(), key).Err())
		} else {
			require.NoError(t, f.client.Set(t.Context(), key, state, s.left).Err())
		}
	}
}

// moves has the scripts run on another server from now on.
func moves(t testing.TB, f *fair) {
	server := fmt.Sprintf("table: 0x%x000", 1<<32+rand.Uint64N(1<<32))
	require.NoError(t, f.client.Set(t.Context(), f.key+":server", server, 0).Err())
	promotes(t, f)
}

// promotes has the server be a primary anew.
func promotes(t testing.TB, f *fair) {
	replication := fmt.Sprintf("master_replid:%016x", rand.Uint64())
	require.NoError(t, f.client.Set(t.Context(), f.key+":replication", replication, 0).Err())
}

func queuedWait(t testing.TB, f *fair) time.Duration {
	a := take(t, f, engine.Request{N: 1, MaxWait: engine.Forever})[0]
	require.True(t, a.Granted)
	return a.Wait
}

// joins makes a further engine on the same name, as a process with another
// configuration would.
func (f *fair) joins(t testing.TB, quotas ...engine.Quota) *fair { return f.joinsAs(t, quotas) }

// joinsAs makes one that counts units as well.
func (f *fair) joinsAs(t testing.TB, quotas []engine.Quota, units ...engine.Unit) *fair {
	return f.enters(t, allScripts, engine.Config{Quota: quotas[0], Extra: quotas[1:], Units: units})
}

// enters makes an engine of the queue's name, under the clock that the test has
// set for this one.
func (f *fair) enters(t testing.TB, s scripts, cfg engine.Config) *fair {
	t.Helper()
	cfg.Client, cfg.Name = f.client, f.key[len(defaultPrefix)+1:len(f.key)-1]
	e, err := New(cfg)
	require.NoError(t, err)
	other := e.(*fair)
	require.Equal(t, f.key, other.key)
	other.scripts = s.behind(f.prelude())
	return other
}

// prelude is what stands before the engine's scripts.
func (f *fair) prelude() string {
	own := allScripts
	if f.stored {
		own = storedScripts
	}
	return strings.TrimSuffix(f.scripts.take.Source(), own.take.Source())
}

// looksFor is an engine of the queue's name that looks for stored quotas, with
// the given ones in their place while there are none.
func (f *fair) looksFor(t testing.TB, given ...engine.Quota) *fair {
	t.Helper()
	cfg := engine.Config{Stored: true}
	if len(given) > 0 {
		cfg.Quota, cfg.Extra = given[0], given[1:]
	}
	return f.enters(t, storedScripts, cfg)
}

// stored is a queue for limiters that look for stored quotas, with given ones.
func (w world) stored(t testing.TB, given ...engine.Quota) (*fair, func(time.Duration)) {
	f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
	return f.looksFor(t, given...), at
}

func quotas(t testing.TB, text string) []engine.Quota {
	t.Helper()
	all, err := quotatext.Parse(text)
	require.NoError(t, err)
	return all
}

func set(t testing.TB, f *fair, text string) {
	t.Helper()
	require.NoError(t, f.SetQuotas(t.Context(), quotas(t, text)))
}

// holds requires that the quotas hold.
func holds(t testing.TB, f *fair, text string, wantStored bool) {
	t.Helper()
	all, stored, err := f.Quotas(t.Context())
	require.NoError(t, err)
	require.Equal(t, text, quotatext.FormatAll(all))
	require.Equal(t, wantStored, stored)
}

// dues are when turns come, by a look of the limiter, from now on.
func dues(t testing.TB, f *fair, held []engine.Grant) (all []time.Duration) {
	t.Helper()
	before, news := f.heard, hears(f)
	require.NoError(t, f.Look(t.Context()))
	f.heard = before
	n := last(t, news)
	for _, g := range held {
		require.Equal(t, n.Queue, g.ID, "it comes as it was told, or is missed")
		all = append(all, n.Until(g.At))
	}
	return all
}

// inspected is the queue of an engine, by the clock that the test has set.
func inspected(t testing.TB, f *fair) State {
	t.Helper()
	s, err := f.inspect(t.Context(), behind(f.prelude(), inspectScript))
	require.NoError(t, err)
	return s
}
