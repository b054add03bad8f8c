package window_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

// contest is callers of both kinds that ask for one permit after another, as
// fast as they can. Each of them counts what its kind was granted.
type contest struct {
	*limiter
	end   time.Time
	redis sync.Mutex // the commands of Redisson are one script there
	java  int
	ours  int
}

const roundTrip = 300 * time.Microsecond

// redisson is one process of Redisson. Its callers share a wheel timer.
func (c *contest) redisson(callers int, tick time.Duration) {
	start := time.Now()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for time.Now().Before(c.end) {
				time.Sleep(roundTrip)
				c.redis.Lock()
				wait := redisson{c.limiter}.acquire(1, c.serverTime())
				if wait < 0 {
					c.java++
				}
				c.redis.Unlock()
				if wait >= 0 {
					due := time.Since(start) + time.Duration(wait)*time.Millisecond
					time.Sleep((due/tick+1)*tick - time.Since(start))
				}
			}
		})
	}
	group.Wait()
}

// window is one process of ours.
func (c *contest) window(callers int, opts ...window.Option) {
	l := namedLimiter(c.t, c.rdb, c.name, 1, time.Second, opts...)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for time.Now().Before(c.end) {
				time.Sleep(roundTrip)
				c.redis.Lock()
				a := l.ask(1)
				if a.Granted {
					c.ours++
				}
				c.redis.Unlock()
				time.Sleep(a.Wait)
			}
		})
	}
	group.Wait()
}

// shares has 4 callers of each kind, in one process of each or in one each,
// take 18 permits a second for some seconds, and returns what each kind got.
func shares(
	t *testing.T, rdb redis.UniversalClient, seed uint64, seconds int, tick time.Duration, opts ...window.Option,
) (java, ours int) {
	random := rand.New(rand.NewPCG(21, seed))
	for _, processes := range []int{1, 4} {
		c := &contest{limiter: newLimiter(t, rdb, 1, time.Second)}
		c.end = time.Now().Add(time.Duration(seconds) * time.Second)
		redisson{c.limiter}.setRate(18, time.Second, 0)
		var group sync.WaitGroup
		for range processes {
			for _, process := range []func(){
				func() { c.redisson(4/processes, tick) },
				func() { c.window(4/processes, opts...) },
			} {
				begins := time.Duration(random.Int64N(int64(tick)))
				group.Go(func() {
					time.Sleep(begins)
					process()
				})
			}
		}
		group.Wait()
		t.Logf("%d processes of each kind: Redisson %d, window %d", processes, c.java, c.ours)
		java, ours = java+c.java, ours+c.ours
	}
	return java, ours
}

func TestWithoutRetryTickRedissonGetsLittle(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
			java, ours := shares(t, rdb, 0, redistest.Long(10, 60), tick)
			require.Less(t, java*5, ours, "which the documentation says, for ticks of %v", tick)
		}
	})
}

func TestWithRetryTickBothSidesGetAShare(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
			var java, ours int
			for seed := range uint64(3) {
				j, o := shares(t, rdb, seed, redistest.Long(12, 200), tick, window.RetryTick(tick))
				java, ours = java+j, ours+o
			}
			t.Logf("ticks of %v: Redisson %d, window %d", tick, java, ours)
			require.Greater(t, java*3, ours)
			require.Greater(t, ours*3, java)
		}
	})
}

func TestARetryIsLateByAMarginAndAtMostTwoTicks(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		const tick = 100 * time.Millisecond
		l := newLimiter(t, rdb, 1, time.Second, window.RetryTick(tick))
		require.True(t, l.allowed(1))
		var ticks []time.Time
		for range 9 {
			free, a := l.status().Delay, l.ask(1)
			require.False(t, a.Granted)
			require.GreaterOrEqual(t, a.Wait, free+3*time.Millisecond)
			require.LessOrEqual(t, a.Wait, free+3*time.Millisecond+2*tick)
			ticks = append(ticks, time.Now().Add(a.Wait))
			time.Sleep(tick)
		}
		for _, other := range ticks {
			require.Equal(t, ticks[0], other, "whenever it is asked, the retry is at one tick")
		}
		time.Sleep(time.Until(ticks[0]))
		require.True(t, l.allowed(1))
		time.Sleep(128 * tick) // after which the ticks shift
		require.True(t, l.allowed(1))
		require.NotZero(t, time.Now().Add(l.ask(1).Wait).Sub(ticks[0])%tick, "or two processes would tick together for ever")

		again := namedLimiter(t, rdb, l.name, 1, time.Second)
		require.Equal(t, again.status().Delay, again.ask(1).Wait, "without the option as soon as it can be")
	})
}
