package fairlimit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// The promises of fair, from callers of several limiters down to Redis. Each
// test is named after one.

var (
	short = fairlimit.Quota{Permits: 10, Per: time.Second, Burst: 4}
	long  = fairlimit.Quota{Permits: 25, Per: 8 * time.Second}
)

// No window of a quota, wherever it begins, holds more permits than the quota
// has, over all clients: whoever leaves, and whatever is paused and requeued.
func TestStrict(t *testing.T) {
	for seed := range uint64(2) {
		bubble(t, func(t *testing.T, server *redistest.MiniServer) {
			rng := rand.New(rand.NewPCG(seed, 1))
			all := processes(t, server, 3, short, fairlimit.WithExtraQuota(long))
			c := newCrowd(t)
			for i := range 120 {
				q, ctx := all[rng.IntN(3)], t.Context()
				if rng.IntN(4) == 0 {
					ctx = within(t, time.Duration(rng.IntN(9000))*time.Millisecond)
				}
				c.call(ctx, q, 1+rng.IntN(3))
				switch {
				case i%40 == 20:
					require.NoError(t, q.Requeue(t.Context()))
				case i%40 == 30:
					require.NoError(t, q.Pause(t.Context(), 3*time.Second))
				}
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			assert.Greater(t, len(c.gone()), 80)
			const exact = time.Microsecond // the scripts count in these
			assert.LessOrEqual(t, c.most(short.Per-exact), short.Permits)
			assert.LessOrEqual(t, c.most(short.Per*4/10-exact), short.Burst)
			assert.LessOrEqual(t, c.most(long.Per-exact), long.Permits)
		})
	}
}

// Slots are given in the order in which questions reach Redis. A small request
// does not overtake a large one.
func TestFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rng, c := rand.New(rand.NewPCG(1, 1)), newCrowd(t)
		all := processes(t, server, 4, fairlimit.PerSecond(50), fairlimit.WithUnit("tokens", fairlimit.PerSecond(100)))
		for range 100 {
			q, take := all[rng.IntN(4)], fairlimit.Amounts{"": 1 + rng.IntN(5), "tokens": rng.IntN(101) * rng.IntN(2)}
			c.goes(take[""], func() error { _, err := q.Take(t.Context(), take); return err })
			synctest.Wait()
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		}
		require.Len(t, c.gone(), 100)
		c.inOrder()
	})
}

// A slot is the earliest that Strict and FIFO allow.
func TestEarliest(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rng, all := rand.New(rand.NewPCG(1, 2)), processes(t, server, 3, short, fairlimit.WithExtraQuota(long))
		windows := append(model.Windows(10, 1e6, 4), model.Windows(25, 8e6, 0)...)
		definition := model.Queue{Units: [][]model.Window{windows}}
		for i := range 150 {
			n := 1 + rng.IntN(4)
			want, _ := definition.Take(time.Now().UnixMicro(), 1e15, n)
			require.Equal(t, want, reserve(t, all[rng.IntN(3)], n).Slot().UnixMicro(), "turn %d", i)
			time.Sleep(time.Duration(rng.IntN(900)) * time.Millisecond * time.Duration(rng.IntN(2)))
		}
	})
}

// A turn costs one script run, and one more to give it back. While callers
// sleep, their process reads twice a second.
func TestOneQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.Every(10*time.Second))
		costs := func(want int, what string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, w.commands(), what)
			w.is(traffic{})
		}
		require.NoError(t, q.Wait(t.Context()))
		costs(1, "a turn")
		r := reserve(t, q, 1)
		costs(1, "a reservation")
		require.NoError(t, r.Cancel(t.Context()))
		costs(1, "what is given back")

		c := newCrowd(t)
		c.line(q, 20)
		costs(20, "callers that come one after the other")
		time.Sleep(9900 * time.Millisecond)
		costs(19, "twice a second, however many sleep")
		require.NoError(t, q.Reset(t.Context()))
		c.gone()
	})
}

// Nobody returns before its slot, however long the way is. Wall clocks of
// clients do not count: the server's is three hours ahead.
func TestNeverEarly(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		const every = 100 * time.Millisecond
		c, first := newCrowd(t), sync.Once{}
		var began time.Duration // when the first question reached the server, and so the first slot
		for i := range 3 {
			q, w := onAWay(t, server, fairlimit.Every(every))
			there, back := time.Duration(5+7*i)*time.Millisecond, time.Duration(50-13*i)*time.Millisecond
			w.is(traffic{there: there, back: back, at: func() {
				server.SetTime(time.Now().Add(3 * time.Hour))
				first.Do(func() { began = time.Since(c.began) })
			}})
			for range 25 {
				c.call(t.Context(), q, 1)
			}
		}
		slices.SortFunc(c.gone(), func(a, b went) int { return int(a.at - b.at) })
		for i, w := range c.went {
			require.GreaterOrEqual(t, w.at, began+time.Duration(i)*every)
		}
	})
}

// A caller that leaves gives its permits back. Those at the tail shorten the
// queue, others make room for who asks later, and nobody's slot moves.
func TestGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all := processes(t, server, 2, fairlimit.PerMinute(2))
		c := newCrowd(t)
		c.line(all[0], 2) // now
		leaver, leave := context.WithCancel(t.Context())
		inTheMiddle := waits(leaver, all[0]) // in a minute
		c.line(all[1], 2)                    // one in a minute, one in two
		require.Equal(t, 2*time.Minute, status(t, all[1]).Delay)
		leave()
		require.ErrorIs(t, <-inTheMiddle, context.Canceled)
		synctest.Wait()
		require.Equal(t, 2, status(t, all[1]).Queued)

		leaver, leave = context.WithCancel(t.Context())
		last := background(func() error { return all[0].WaitN(leaver, 2) })
		require.Equal(t, 4*time.Minute, status(t, all[1]).Delay)
		leave()
		require.ErrorIs(t, <-last, context.Canceled)
		synctest.Wait()
		require.Equal(t, 2*time.Minute, status(t, all[1]).Delay, "the tail is where it was")
		c.line(all[1], 1)
		assert.Equal(t, []went{
			{0, 1, 0}, {1, 1, 0}, {2, 1, time.Minute}, {3, 1, 2 * time.Minute}, {4, 1, 2 * time.Minute},
		}, c.gone())
	})
}

// A pause, a resume, a reset and a requeue reach everybody who sleeps within a
// second. Twenty callers of one process have a turn each second. Another
// process acts at 3.5 s, so those of up to 4.5 s may not have heard of it.
func TestHeard(t *testing.T) {
	const acts, hears = 3500 * time.Millisecond, 4500 * time.Millisecond
	for what, heard := range map[string]struct {
		steer func(*fairlimit.Queue, context.Context) error
		quiet time.Duration // nobody goes from hears until then
		last  time.Duration // and the last one goes then, or up to a second later
	}{
		"pause": {
			func(q *fairlimit.Queue, ctx context.Context) error { return q.Pause(ctx, time.Minute) },
			acts + time.Minute, 29*time.Second + time.Minute,
		},
		"resume": {
			func(q *fairlimit.Queue, ctx context.Context) error {
				if err := q.Pause(ctx, time.Hour); err != nil {
					return err
				}
				time.Sleep(10 * time.Second)
				return q.Resume(ctx)
			},
			acts + 10*time.Second, 29*time.Second + 10*time.Second,
		},
		"reset":   {(*fairlimit.Queue).Reset, 0, 18 * time.Second},
		"requeue": {(*fairlimit.Queue).Requeue, 0, 19 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *redistest.MiniServer) {
				all := processes(t, server, 3, fairlimit.Every(time.Second))
				c := newCrowd(t)
				c.line(all[0], 10)
				for range 10 {
					reserve(t, all[2], 1) // of a process that was killed
				}
				c.line(all[0], 10)
				time.Sleep(acts)
				require.NoError(t, heard.steer(all[1], t.Context()))
				c.inOrder()
				require.Len(t, c.went, 20)
				assert.False(t, slices.ContainsFunc(c.went, func(w went) bool { return hears < w.at && w.at < heard.quiet }))
				assert.InDelta(t, heard.last.Seconds()+0.5, c.went[19].at.Seconds(), 0.6)
				if what != "reset" {
					assert.LessOrEqual(t, c.most(time.Second-time.Microsecond), 1)
				}
			})
		})
	}
}

// If Redis fails, callers get an error and no turn. Turns told before stand.
func TestLoud(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, w := onAWay(t, server, fairlimit.Quota{Permits: 2, Per: 10 * time.Second})
		began := time.Now()
		require.NoError(t, q.WaitN(t.Context(), 2))
		told := waits(t.Context(), q)
		w.is(traffic{before: noConnection})
		for _, call := range calls(q) {
			require.ErrorIs(t, call(t.Context()), fairlimit.ErrUnreachable)
		}
		require.NoError(t, <-told)
		assert.Equal(t, 10*time.Second, time.Since(began))
		w.is(traffic{})
		assert.Zero(t, status(t, q).Queued, "nobody else was granted anything")
	})
}

// What Redis has lost counts again once a Limiter asks that was told of it.
func TestHealing(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		lost := 0
		all := processes(t, server, 2, fairlimit.PerMinute(3), fairlimit.WithTrace(&fairlimit.Trace{Lost: func() { lost++ }}))
		reserve(t, all[0], 3)
		held := reserve(t, all[0], 2)
		require.NoError(t, all[0].Pause(t.Context(), 20*time.Second))
		server.FlushAll()
		require.False(t, allow(t, all[0]), "who knows asks")
		require.Equal(t, 1, lost)
		require.Equal(t, 20*time.Second, status(t, all[1]).Paused)
		require.Equal(t, 140*time.Second, reserve(t, all[1], 1).Delay(), "all count at the newest slot, in 80 s")
		require.NoError(t, held.Cancel(t.Context()))
		require.Equal(t, 3+1, status(t, all[1]).Queued, "a turn of before can be given back")
	})
}

// All keys but stored quotas expire by themselves, once nothing counts any
// more.
func TestBounded(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.PerHour(900), fairlimit.WithFlow("a", 1),
			fairlimit.WithUnit("tokens", fairlimit.PerHour(1_000_000)))
		require.NoError(t, q.SetQuotas(t.Context(), fairlimit.Every(time.Second)))
		_, err := q.Take(t.Context(), fairlimit.Amounts{"tokens": 9})
		require.NoError(t, err)
		require.Len(t, server.Keys(), 6)
		for _, key := range server.Keys() {
			assert.Equal(t, !strings.HasSuffix(key, ":quota"), server.TTL(key) > 0, key)
		}
		time.Sleep(time.Hour + time.Second)
		assert.Equal(t, []string{"fairlimit:{q}:quota"}, server.Keys())
	})
}

// Once more, on a real server and the real clock. Nobody goes early.
func TestStrictOnAServer(t *testing.T) {
	t.Parallel()
	rdb, name, c := redistest.Standalone(t), redistest.Name(t), newCrowd(t)
	quota := fairlimit.Quota{Permits: 10, Per: 500 * time.Millisecond}
	for range 4 {
		q := queueOf(t, rdb, name, quota, fairlimit.WithGuard(100*time.Millisecond))
		for range 15 {
			c.call(t.Context(), q, 1)
		}
	}
	time.Sleep(time.Second)
	require.NoError(t, queueOf(t, rdb, name, quota).Requeue(t.Context()))
	require.Len(t, c.gone(), 60)
	assert.LessOrEqual(t, c.most(quota.Per), quota.Permits)
}
