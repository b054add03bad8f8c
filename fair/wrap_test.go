package fair

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

const totals = 689869781056 // 94⁶: a cell counts permits up to this

// countFrom is the state as it would be if the generation had begun with so
// many permits, long ago.
func countFrom(f *fair, state string, permits int64) string {
	bytes := []byte(state)
	add := func(at int) {
		at += len(f.head)
		n, _ := strconv.ParseInt(strings.TrimSpace(state[at:at+16]), 10, 64)
		copy(bytes[at:], fmt.Sprintf("%16d", n+permits))
	}
	add(28)
	add(174)
	for i := range f.windows {
		add(headerBytes + windowBytes*i)
	}
	for at := headerOf(f); at+15 <= len(bytes); at += 15 {
		total := int64(0)
		for _, b := range bytes[at+8 : at+14] {
			total = total*94 + int64(b-'!')
		}
		total = (total + permits) % totals
		for i := 13; i >= 8; i-- {
			bytes[at+i], total = byte('!'+total%94), total/94
		}
	}
	return string(bytes)
}

// Two queues live through the same. One of them counts from close to a border
// on: nobody notices.
func TestNobodyNoticesWhereTheCountBegan(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		borders := []int64{totals - 1, totals, 2 * totals, 94 * 94, 1e10, 1 << 32, 1 << 51}
		for seed := range uint64(w.many(30)) {
			rng := rand.New(rand.NewPCG(seed, 4))
			quotas := []engine.Quota{anyQuota(rng)}
			if rng.IntN(2) == 0 {
				quotas = append(quotas, anyQuota(rng))
			}
			one, oneAt := w.queue(t, quotas...)
			two, twoAt := w.queue(t, quotas...)
			play := func(from, steps int) {
				for step := range steps {
					now := time.Duration(from+step) * microseconds(one.windows[0].Length) / 150
					oneAt(now)
					twoAt(now)
					n, back := 1+rng.IntN(max(1, one.most/40)), rng.IntN(3)
					a, b := queued(t, one, 1+step%3, n), queued(t, two, 1+step%3, n)
					for i := range a {
						require.Equal(t, a[i].At, b[i].At, "seed %d, step %d, %v", seed, step, quotas)
					}
					if back == 0 {
						giveBack(t, one, a[0])
						giveBack(t, two, b[0])
					}
				}
			}
			play(0, 80)
			state := w.rdb.Get(t.Context(), two.key).Val()
			from := borders[rng.IntN(len(borders))] - rng.Int64N(300*int64(1+one.most/40))
			changed := countFrom(two, state, max(1, from))
			require.NoError(t, w.rdb.Set(t.Context(), two.key, changed, redis.KeepTTL).Err())
			two.memory = memory{}
			play(80, 300)
		}
	})
}
