package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Callers sleep, and nobody asks: they only look.
func TestAServerClockSetBackHoldsNobodyWhoOnlyLooks(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(testing.TB, *fair){
		"set back":                  func(testing.TB, *fair) {},
		"another server takes over": moves,
	} {
		t.Run(what, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				for _, back := range []time.Duration{10 * time.Second, time.Hour} {
					f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
					news := hears(f)
					held := queued(t, f, 6, 1)
					change(t, f)
					for now := 600 * time.Millisecond; now < 6*time.Second; now += 250 * time.Millisecond {
						at(now - back)
						require.NoError(t, f.Look(t.Context()))
						n := last(t, news)
						for i, g := range held {
							comes := time.Duration(i)*time.Second + 600*time.Millisecond
							require.Equal(t, max(0, comes-now), n.Until(g.At), "turn %d, %v after the first", i, now)
						}
					}
				}
			})
		})
	}
}

// A queue whose clock were a TTL, read and written again, would lose or gain
// what the script takes in between.
func TestTheQueuesClockDoesNotDriftUnderASlowScript(t *testing.T) {
	t.Parallel()
	const slow = `for i = 1, 10 do redis.call('TIME') end local burnt = 0 for i = 1, 5000 do burnt = burnt + i end
		local redis = setmetatable({ pcall = function(...)
			for i = 1, 5000 do burnt = burnt + i end return redis.pcall(...)
		end }, { __index = redis })
		`
	for name, rdb := range map[string]world{
		"miniredis": {rdb: redistest.Mini(t).Client},
		"redis":     {rdb: redistest.StartServer(t).Client()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := build(t, rdb.rdb, engine.Quota{Permits: 1, Per: 5 * time.Millisecond})
			f.scripts = f.scripts.behind(slow)
			begin := serverTime(t, f)
			end := begin + redistest.Long(time.Second, 3*time.Second).Microseconds()
			for before, last := begin, int64(0); before < end; {
				answers := take(t, f, engine.Request{N: 1, MaxWait: 20 * time.Millisecond},
					engine.Request{N: 1, MaxWait: 20 * time.Millisecond})
				after := serverTime(t, f)
				for _, a := range answers {
					if !a.Granted {
						continue
					}
					now := a.Grant.At - a.Wait.Microseconds()
					require.True(t, before <= now && now <= after,
						"the queue's clock is at %d, the server's between %d and %d", now, before, after)
					require.GreaterOrEqual(t, a.Grant.At, last+5000)
					if a.Wait > 0 {
						require.Equal(t, last+5000, a.Grant.At, "a turn that is waited for follows the last")
					}
					last = a.Grant.At
				}
				before = after
			}
		})
	}
}

func serverTime(t *testing.T, f *fair) int64 {
	now, err := f.client.Time(t.Context()).Result()
	require.NoError(t, err)
	return now.UnixMicro()
}
