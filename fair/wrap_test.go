package fair

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const totals = 689869781056 // 94⁶: a cell counts permits up to this

// countFrom is the state as it would be if the generation had begun with so
// many permits, long ago.
func countFrom(state string, permits int64) string {
	bytes, head := []byte(state), state[:strings.IndexByte(state, '\n')+1]
	windows := 1 + strings.Count(head, ",")
	ring := len(head) + headerBytes + windowBytes*windows
	add := func(at int) {
		at += len(head)
		n, _ := strconv.ParseInt(strings.TrimSpace(state[at:at+16]), 10, 64)
		copy(bytes[at:], fmt.Sprintf("%16d", n+permits))
	}
	add(28)
	add(174)
	for i := range windows {
		add(headerBytes + windowBytes*i)
	}
	for at := ring; at+cellBytes <= min(len(bytes), ring+ringCells*cellBytes); at += cellBytes {
		if bytes[at] == 0 { // no cell has been there
			continue
		}
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

// countsOn lets the queue count from close to a border on. Nobody notices.
func (h *modelled) countsOn(f *fair) {
	borders := []int64{totals - 1, totals, 2 * totals, 94 * 94, 1e10, 1 << 32, 1 << 48}
	from := max(1, borders[h.rng.IntN(len(borders))]-h.rng.Int64N(300*int64(1+f.most/40)))
	require.NoError(h, h.w.rdb.Set(h.Context(), f.key, countFrom(h.state(f), from), redis.KeepTTL).Err())
	for _, f := range h.callers {
		f.memory = memory{}
	}
}
