package window_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestEveryHistoryIsStrict has clients of both kinds take permits, and release
// some that they do not use before anybody asks after their grant has lapsed.
// Meanwhile the rate changes. Whatever the order, the permits that are left in
// use keep every window, under the rate of their time.
func TestEveryHistoryIsStrict(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for seed := range uint64(redistest.Long(16, 150)) {
			t.Log("seed", seed)
			randomHistory(t, rdb, rand.New(rand.NewPCG(18, seed)))
		}
	})
}

// held is what somebody was granted.
type held struct {
	at      int64 // ms
	rate    int   // at that time
	unused  int   // permits that may still be released
	granted int   // permits less those that were released
	turn    engine.Turn
}

func randomHistory(t *testing.T, rdb redis.UniversalClient, random *rand.Rand) {
	const most = 6
	rate, per := 1+random.IntN(most), int64(4+random.IntN(12))
	length := time.Duration(per) * time.Millisecond
	l := newLimiter(t, rdb, rate, length)
	java := redisson{l}
	java.setRate(rate, length, 0)
	want := &log{rate: rate, per: per}
	var all []*held
	settled := int64(0) // when somebody last asked

	for range 40 {
		time.Sleep(time.Duration(random.Int64N(per/2+1)) * time.Millisecond)
		now := l.serverTime()
		n := 1 + random.IntN(want.rate)
		fits, taken := n <= want.available(now), &held{at: now, rate: want.rate, unused: random.IntN(n + 1), granted: n}
		switch random.IntN(6) {
		case 0, 1:
			a := l.ask(n)
			require.Equal(t, fits, a.Verdict == engine.Granted)
			if n <= want.rate {
				require.Equal(t, want.wait(now, n), a.Wait)
			}
			settled, taken.turn = now, a.Turn
		case 2:
			if l.do("GET", l.leftKey()) != nil {
				settled = now
			}
			require.Equal(t, fits, java.acquired(n, now))
		case 3:
			want.rate, settled, fits = 1+random.IntN(most), now, false
			l.update(want.rate, length)
		default:
			fits = false
			mine := slices.DeleteFunc(slices.Clone(all), func(h *held) bool {
				return h.unused == 0 || h.at <= settled-per
			})
			if len(mine) == 0 {
				continue
			}
			h := mine[random.IntN(len(mine))]
			want.give(t, l, h, 1+random.IntN(h.unused))
		}
		want.settle(settled)
		if fits {
			want.add(now, n)
			all = append(all, taken)
		}
		require.Equal(t, max(0, want.available(now)), l.available())
		keeps(t, all, per)
	}
}

// keeps holds the permits in use against the rate of the newest, in every window.
func keeps(t *testing.T, all []*held, per int64) {
	for i, last := range all {
		used := 0
		for _, h := range all[:i+1] {
			if h.at > last.at-per {
				used += h.granted
			}
		}
		require.LessOrEqual(t, used, last.rate, "in the window to %d", last.at)
	}
}

// log is when each permit was granted that the set must hold, oldest first.
type log struct {
	rate    int
	per     int64
	permits []int64
}

func (w *log) add(at int64, n int) { w.permits = append(w.permits, slices.Repeat([]int64{at}, n)...) }

// settle removes what had lapsed at that time.
func (w *log) settle(now int64) {
	lapsed, _ := slices.BinarySearch(w.permits, now-w.per+1)
	w.permits = w.permits[lapsed:]
}

func (w *log) available(now int64) int {
	left := w.rate
	for _, at := range w.permits {
		if at > now-w.per {
			left--
		}
	}
	return left
}

// wait is how long it takes until n permits are free.
func (w *log) wait(now int64, n int) time.Duration {
	until := now
	for free := w.available(now); free < n; until++ {
		free = w.available(until + 1)
	}
	return time.Duration(until-now) * time.Millisecond
}

// give releases n permits of a grant. If that is all of it, it gives it back.
func (w *log) give(t *testing.T, l *limiter, h *held, n int) {
	if n == h.granted && n == h.turn.N {
		if l.do("ZSCORE", l.grantsKey(), h.turn.Entry) != nil { // nobody released a part of it
			first := slices.Index(w.permits, h.at)
			w.permits = slices.Delete(w.permits, first, first+n)
		}
		l.giveBack(h.turn)
	} else {
		require.NoError(t, l.Release(t.Context(), n))
		w.permits = w.permits[min(n, len(w.permits)):]
	}
	h.unused -= n
	h.granted -= n
}
