package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// countsBytes adds up the bytes that a script writes.
const countsBytes = `local redis = setmetatable({}, { __index = function(_, how)
	if how ~= 'call' and how ~= 'pcall' then return redis[how] end
	return function(...)
		local bytes, words = 0, { ... }
		if words[1] == 'PSETEX' or words[1] == 'SETRANGE' or words[1] == 'PEXPIRE' then
			for i = 3, #words do bytes = bytes + #tostring(words[i]) end -- behind the key
			redis.call('INCRBY', KEYS[1] .. ':written', bytes)
			redis.call('INCR', KEYS[1] .. ':writes')
		end
		return redis[how](...)
	end
end, __tostring = function() return tostring(redis) end })
`

// sizes are quotas of one to four windows, none of which another one implies.
var sizes = [][]engine.Quota{
	{{Permits: 1, Per: time.Second}},
	{{Permits: 1000, Per: 10 * time.Second}},
	{{Permits: 1_000_000, Per: time.Hour, Burst: 70_001}},
	{{Permits: mostPermits, Per: longestPer}},
	{{Permits: 1000, Per: time.Minute}, {Permits: 20, Per: time.Second}},
	{{Permits: 2000, Per: 61_700 * time.Millisecond}, {Permits: 900, Per: 23_100 * time.Millisecond, Burst: 301}},
	{
		{Permits: 5000, Per: 1000 * time.Second},
		{Permits: 900, Per: 170 * time.Second},
		{Permits: 300, Per: 47 * time.Second},
		{Permits: 150, Per: 19 * time.Second},
	},
}

// Whatever the queue holds: as many moments as are kept apart, a backlog with
// gaps, a pause, what was given back, the widest numbers.
func TestTheStateIsBounded(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, quotas := range sizes {
		t.Run(fmt.Sprint(quotas), func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, quotas...)
			rng, now, largest := rand.New(rand.NewPCG(1, 1)), time.Duration(0), int64(0)
			length, most := f.windows[0].Length, f.most
			if quotas[0].Per == longestPer { // slots are years within the next hundred
				most /= 10_000
			}
			check := func() {
				largest = max(largest, w.rdb.StrLen(t.Context(), f.key).Val())
				require.LessOrEqual(t, largest, int64(3686), "3.6 KB")
			}
			for range 3 {
				for range redistest.Long(200, 600) {
					now += microseconds(1 + rng.Int64N(length/300))
					at(now)
					queued(t, f, 1, 1+rng.IntN(min(100, most)))
					check()
				}
				moves(t, f)
				grants := queued(t, f, 400, max(1, most/100))
				check()
				pause(t, f, microseconds(length/10+1000))
				check()
				giveBack(t, f, shuffled(grants, now)[:90]...)
				check()
			}
			t.Logf("%d bytes", largest)
		})
	}
}

func TestAGrantWritesAFewBytes(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, quotas := range sizes {
		t.Run(fmt.Sprint(quotas), func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, quotas...)
			f.scripts = f.scripts.behind(countsBytes)
			rng, now, grants := rand.New(rand.NewPCG(1, 2)), 0.0, redistest.Long(600, 2000)
			pace := 0.0
			for _, window := range f.windows {
				pace = max(pace, float64(window.Length)/float64(window.Permits))
			}
			written := func(what string) int { n, _ := w.rdb.Get(t.Context(), f.key+what).Int(); return n }
			crowd := func(count int) {
				for range count {
					now += rng.ExpFloat64() * pace
					at(microseconds(int64(now)))
					queued(t, f, 1, 1)
				}
			}
			crowd(grants / 2) // nothing merges at first
			bytes, writes := written(":written"), written(":writes")
			crowd(grants)
			bytes, writes = written(":written")-bytes, written(":writes")-writes
			t.Logf("%d bytes a grant in %.1f writes", bytes/grants, float64(writes)/float64(grants))
			require.LessOrEqual(t, bytes/grants, 250)
		})
	}
}
