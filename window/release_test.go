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

func TestTheReleaseOfALapsedGrantFreesNobodyElses(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 2, 10*time.Millisecond)
		java := redisson{l}
		java.setRate(2, 10*time.Millisecond, 0)
		java.mustAcquire(1, l.serverTime())
		time.Sleep(9 * time.Millisecond)
		java.mustAcquire(1, l.serverTime())
		time.Sleep(2 * time.Millisecond)
		require.NoError(t, l.Release(t.Context(), 1))
		require.False(t, l.allowed(2), "1 of 9 ms ago and these 2")
		require.True(t, l.allowed(1))
	})
}

// What is freed before anybody asks removes no more than that from the set. So
// the lapsed grants that other releases are of are still there.
func TestLateReleasesInPartsFreeNobodyElses(t *testing.T) {
	release := func(l *limiter, _ engine.Grant) error { return l.Release(l.t.Context(), 1) }
	giveBack := func(l *limiter, last engine.Grant) error {
		return l.GiveBack(l.t.Context(), []engine.Grant{last})
	}
	for name, test := range map[string]struct {
		early, late []int
		frees       func(_ *limiter, last engine.Grant) error
	}{
		"of two grants":          {[]int{1, 1}, []int{2}, release},
		"of one grant":           {[]int{2}, []int{2}, release},
		"after one that is live": {[]int{1}, []int{2, 1}, giveBack},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				l := newLimiter(t, rdb, 4, 10*time.Millisecond)
				for _, n := range test.early {
					require.True(t, l.allowed(n))
				}
				time.Sleep(9 * time.Millisecond)
				last := engine.Answer{}
				for _, n := range test.late {
					last = l.ask(n)
					require.True(t, last.Granted)
				}
				time.Sleep(2 * time.Millisecond)
				require.NoError(t, test.frees(l, last.Grant))
				require.NoError(t, l.Release(t.Context(), 1))
				require.False(t, l.allowed(3), "2 of 2 ms ago and these 3")
				require.True(t, l.allowed(2))
			})
		})
	}
}

func TestTheReleaseOfManyLapsedGrants(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts{countingFew})
		l := newLimiter(t, rdb, 40, 10*time.Second)
		l.fill(25, 1)
		time.Sleep(5 * time.Second)
		l.fill(15, 1)
		time.Sleep(5*time.Second + time.Millisecond)
		require.NoError(t, l.Release(t.Context(), 26))
		require.Equal(t, 26, l.available(), "25 have lapsed, one of the others was released")
		require.True(t, l.allowed(26))
		require.False(t, l.allowed(1))
	})
}

func TestReleaseOfNothing(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 2, time.Minute)
		require.NoError(t, l.Release(t.Context(), 0), "without a rate")
		require.True(t, l.allowed(2))
		require.NoError(t, l.Release(t.Context(), 0))
		require.Equal(t, 0, l.available())
	})
}

func TestAGrantThatAPeerReleasedInPartCannotBeGivenBack(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := newLimiter(t, rdb, 10, time.Minute)
		grant := l.ask(6).Grant
		redisson{l}.release(2)
		require.Equal(t, 6, l.available())
		require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{grant}))
		require.Equal(t, 6, l.available(), "its other 4 permits leave with the window")
		time.Sleep(time.Minute + time.Millisecond)
		require.Equal(t, 10, l.available())
	})
}

// held is what somebody was granted.
type held struct {
	at      int64 // ms
	unused  int   // permits that may still be released
	granted int   // permits less those that were released
	grant   engine.Grant
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

func (w *log) release(n int) { w.permits = w.permits[min(n, len(w.permits)):] }

func (w *log) giveBack(at int64, n int) {
	first := slices.Index(w.permits, at)
	w.permits = slices.Delete(w.permits, first, first+n)
}

// Clients of both kinds take permits, and release some that they do not use
// before anybody asks after their grant has lapsed. Whatever the order, the
// permits that are left in use keep every window.
func TestReleaseIsStrictInEveryHistory(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for seed := range uint64(redistest.Long(12, 300)) {
			t.Log("seed", seed)
			randomReleases(t, rdb, rand.New(rand.NewPCG(18, seed)), 6)
		}
	})
}

// The same with more grants than are added up: the number that is left decides,
// and several runs remove what has lapsed.
func TestReleaseIsStrictWithMoreGrantsThanAreAddedUp(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.AddHook(editedScripts{countingFew})
		for seed := range uint64(redistest.Long(12, 300)) {
			t.Log("seed", seed)
			randomReleases(t, rdb, rand.New(rand.NewPCG(16, seed)), 24)
		}
	})
}

func randomReleases(t *testing.T, rdb redis.UniversalClient, random *rand.Rand, most int) {
	rate, per := 1+random.IntN(most), int64(4+random.IntN(12))
	l := newLimiter(t, rdb, rate, time.Duration(per)*time.Millisecond)
	java := redisson{l}
	java.setRate(rate, time.Duration(per)*time.Millisecond, 0)
	want := &log{rate: rate, per: per}
	var all []*held
	settled := int64(0) // when somebody last asked

	for range 40 {
		time.Sleep(time.Duration(random.Int64N(per/2+1)) * time.Millisecond)
		now := l.serverTime()
		n := 1 + random.IntN(min(rate, 6))
		fits := n <= want.available(now)
		switch random.IntN(5) {
		case 0, 1:
			a := l.ask(n)
			require.Equal(t, fits, a.Granted)
			if settled = now; a.Granted {
				all = append(all, &held{at: now, unused: random.IntN(n + 1), granted: n, grant: a.Grant})
			}
		case 2:
			if l.do("GET", l.leftKey()) != nil {
				settled = now
			}
			require.Equal(t, fits, java.acquired(n, now))
			if fits {
				all = append(all, &held{at: now, unused: random.IntN(n + 1), granted: n})
			}
		default:
			mine := slices.DeleteFunc(slices.Clone(all), func(h *held) bool {
				return h.unused == 0 || h.at <= settled-per
			})
			if len(mine) == 0 {
				continue
			}
			h := mine[random.IntN(len(mine))]
			want.give(t, l, h, 1+random.IntN(h.unused))
			fits = false
		}
		want.settle(settled)
		if fits {
			want.add(now, n)
		}
		require.Equal(t, max(0, want.available(now)), l.available())
		keeps(t, all, rate, per)
	}
}

// give releases n permits of a grant. If that is all of it, it gives it back.
func (w *log) give(t *testing.T, l *limiter, h *held, n int) {
	if n == h.granted && n == h.grant.N {
		if l.do("ZSCORE", l.grantsKey(), h.grant.ID) != nil { // nobody released a part of it
			w.giveBack(h.at, n)
		}
		require.NoError(t, l.GiveBack(t.Context(), []engine.Grant{h.grant}))
	} else {
		require.NoError(t, l.Release(t.Context(), n))
		w.release(n)
	}
	h.unused -= n
	h.granted -= n
}

// keeps holds the permits in use against the rate, in every window.
func keeps(t *testing.T, all []*held, rate int, per int64) {
	for _, first := range all {
		used := 0
		for _, h := range all {
			if h.at >= first.at && h.at < first.at+per {
				used += h.granted
			}
		}
		require.LessOrEqual(t, used, rate, "in the window from %d", first.at)
	}
}
