package fair

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

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
var sizes = []string{
	"1/1s", "1000/10s", "1000000/1h burst 70001", "1000000000/87600h", "1000/1m 20/1s",
	"2000/61.7s 900/23.1s burst 301", "5000/1000s 900/170s 300/47s 150/19s",
}

func TestAGrantWritesAFewBytes(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, text := range sizes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, quotas(t, text)...)
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
			require.LessOrEqual(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(3686), "3.6 KB")
		})
	}
}
