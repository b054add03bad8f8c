package fairlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// laggard lets every command take a random while, on the way there and back.
type laggard struct {
	most time.Duration
	mu   *sync.Mutex
	rnd  *rand.Rand
}

func (s laggard) nap() {
	if s.most == 0 {
		return
	}
	s.mu.Lock()
	d := time.Duration(s.rnd.Int64N(int64(s.most)))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s laggard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, n, a string) (net.Conn, error) { return next(ctx, n, a) }
}

func (s laggard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.nap()
		err := next(ctx, cmd)
		s.nap()
		return err
	}
}

func (s laggard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, c []redis.Cmder) error { s.nap(); err := next(ctx, c); s.nap(); return err }
}

type wentAt struct {
	who, n int
	at     time.Duration
	queue  *fairlimit.Queue
}

// steeredHistory plays one random history: several limiters of one queue, callers
// that wait, reserve, leave, have deadlines; pauses, and resets if asked for.
// With flows, all but one of the limiters are of one.
func steeredHistory(t *testing.T, seed uint64, latency time.Duration, resets, flushes, narrows, flows bool) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := redistest.Mini(t)
		name := redistest.Name(t)
		x := []time.Duration{time.Second, 200 * time.Millisecond, 3 * time.Second}[rnd.IntN(3)]
		if latency > 0 {
			x = time.Second
		}
		quota := fairlimit.Quota{Permits: 1 + rnd.IntN(6), Per: time.Duration(1+rnd.IntN(4)) * 500 * time.Millisecond}
		if rnd.IntN(2) == 0 {
			quota.Burst = 1 + rnd.IntN(quota.Permits)
		}
		extra := fairlimit.Quota{Permits: quota.Permits * 2, Per: quota.Per * time.Duration(2+rnd.IntN(4))}
		opts := []fairlimit.Option{fairlimit.WithPauseWithin(x)}
		hasExtra := rnd.IntN(3) == 0 && !narrows
		if hasExtra {
			opts = append(opts, fairlimit.WithExtraQuota(extra))
		}
		if narrows {
			opts = append(opts, fairlimit.WithStoredQuota())
		}
		var queues []*fairlimit.Queue
		for range 3 {
			c := m.NewClient(t)
			c.AddHook(laggard{latency, new(sync.Mutex), rand.New(rand.NewPCG(seed, 2))})
			its := opts
			if flows && len(queues) > 0 {
				its = append(slices.Clone(opts), fairlimit.WithFlow(strconv.Itoa(len(queues)), 1+rnd.IntN(3)))
			}
			queues = append(queues, queueOf(t, c, name, quota, its...))
		}
		admin := queueOf(t, m.Client, name, quota, opts...)
		if narrows {
			all := []fairlimit.Quota{quota}
			if hasExtra {
				all = append(all, extra)
			}
			require.NoError(t, admin.SetQuotas(t.Context(), all...))
		}
		start := time.Now()
		var mu sync.Mutex
		var goers []wentAt
		type paused struct{ from, to time.Duration }
		var pauses []paused
		var lastReset, narrowed time.Duration
		isNarrow := false
		var callers sync.WaitGroup
		who := 0
		gone := func(who, n int, queue *fairlimit.Queue) {
			mu.Lock()
			defer mu.Unlock()
			goers = append(goers, wentAt{who, n, time.Since(start), queue})
		}
		fits := quota.Permits
		if quota.Burst > 0 {
			fits = quota.Burst
		}
		for range 30 + rnd.IntN(60) {
			q := queues[rnd.IntN(len(queues))]
			time.Sleep(time.Microsecond) // no two questions go at one moment
			switch k := rnd.IntN(20); {
			case k < 11:
				for range 1 + rnd.IntN(4) {
					n, id, until := 1, who, time.Duration(0)
					if rnd.IntN(4) == 0 {
						n = 1 + rnd.IntN(fits)
					}
					who++
					if rnd.IntN(3) == 0 {
						until = time.Duration(rnd.Int64N(int64(20 * time.Second)))
					}
					cancels := rnd.IntN(2) == 0
					callers.Go(func() {
						ctx, cancel := context.WithCancel(context.Background())
						if until > 0 && cancels {
							stop := time.AfterFunc(until, cancel)
							defer stop.Stop()
						} else if until > 0 {
							ctx, cancel = context.WithTimeout(ctx, until)
						}
						defer cancel()
						err := q.WaitN(ctx, n)
						if err == nil {
							gone(id, n, q)
						} else if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, fairlimit.ErrExceedsQuota) {
							t.Errorf("seed %d: %v", seed, err)
						}
					})
					if latency == 0 {
						synctest.Wait()
					}
				}
			case k < 14:
				id, what, d := who, rnd.IntN(4), time.Duration(rnd.Int64N(int64(8*time.Second)))
				who++
				callers.Go(func() {
					r, err := q.ReserveN(context.Background(), 1)
					if err != nil {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
					switch what {
					case 0:
						if err := r.Cancel(context.Background()); err != nil {
							t.Errorf("seed %d: cancel %v", seed, err)
						}
						return
					case 1:
						stop := time.AfterFunc(d, func() { _ = r.Cancel(context.Background()) })
						defer stop.Stop()
					}
					switch err := r.Wait(context.Background()); {
					case err == nil:
						gone(id, 1, q)
					case !errors.Is(err, fairlimit.ErrReservationOver):
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				if latency == 0 {
					synctest.Wait()
				}
			case k == 14:
				d := 2*x + time.Duration(rnd.Int64N(int64(8*time.Second)))
				if rnd.IntN(3) == 0 {
					d = 1 + time.Duration(rnd.Int64N(int64(2*x)))
				}
				if err := q.Pause(context.Background(), d); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				from := time.Since(start)
				pauses = append(pauses, paused{from, from - 2*latency + max(d, 2*x)})
			case k == 15 && resets:
				require.NoError(t, q.Reset(t.Context()))
				lastReset = time.Since(start)
				for i := range pauses {
					pauses[i].to = min(pauses[i].to, lastReset-2*latency)
				}
			case k == 16 && flushes:
				_, err := q.Status(context.Background()) // somebody remembers
				require.NoError(t, err)
				m.FlushAll()
				for _, q := range queues {
					_, err := q.Status(context.Background())
					require.NoError(t, err)
				}
			case k == 17 && narrows && !isNarrow:
				isNarrow = true
				narrow := quota
				narrow.Per = quota.Per * time.Duration(2+rnd.IntN(2))
				require.NoError(t, admin.SetQuotas(context.Background(), narrow))
				quota = narrow
				hasExtra = false
				narrowed = time.Since(start)
			default:
				time.Sleep(time.Duration(rnd.Int64N(int64(1500 * time.Millisecond))))
			}
		}
		callers.Wait()
		time.Sleep(2*latency + time.Millisecond)
		slices.SortStableFunc(goers, func(a, b wentAt) int { return int(a.at - b.at) })
		// nobody goes in a pause, but for those within X
		for _, p := range pauses {
			for _, g := range goers {
				if g.at > p.from+x+2*latency && g.at < p.to-2*time.Microsecond {
					t.Errorf("seed %d: %d went at %v in a pause from %v to %v, X %v", seed, g.who, g.at, p.from, p.to, x)
				}
			}
		}
		if latency == 0 && !flushes {
			strict := func(q fairlimit.Quota, from time.Duration) {
				for i, g := range goers {
					if lastReset > 0 && g.at <= lastReset+x+time.Millisecond || g.at < from {
						continue
					}
					in := 0
					for _, h := range goers[i:] {
						if h.at-g.at < q.Per-2*time.Microsecond {
							in += h.n
						}
					}
					if in > q.Permits {
						t.Errorf("seed %d: %d permits from %v in %v, at most %d; X %v, narrowed at %v, reset at %v, pauses %v", seed, in, g.at, q.Per, q.Permits, x, narrowed, lastReset, pauses)
						break
					}
				}
			}
			from := time.Duration(0)
			if isNarrow {
				from = narrowed + x
			}
			strict(quota, from)
			if hasExtra {
				strict(extra, from)
			}
			if lastReset == 0 && len(pauses) == 0 {
				before := map[*fairlimit.Queue]wentAt{}
				for _, g := range goers {
					line := g.queue
					if !flows {
						line = nil // all of them stand in one
					}
					last, some := before[line]
					if some && g.at > last.at+time.Microsecond && g.who < last.who {
						t.Errorf("seed %d: %d went at %v, after %d at %v", seed, g.who, g.at, last.who, last.at)
						break
					}
					before[line] = g
				}
			}
		}
		s, err := admin.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Queued, "seed %d: debt", seed)
		if flows {
			time.Sleep(time.Second + s.Delay + s.Paused) // all flows are forgotten
			holdNothing(t, seed, latency, queues[1:])
		}
		if s.Paused == 0 && !flushes {
			assert.LessOrEqual(t, s.Delay, 5*max(quota.Per, extra.Per), "seed %d: debt", seed)
		}
	})
}

// holdNothing requires of flows, one after the other, that none counts permits
// that it does not hold: each can reserve all of the least look-ahead at once.
func holdNothing(t *testing.T, seed uint64, latency time.Duration, queues []*fairlimit.Queue) {
	for _, q := range queues {
		began := time.Now()
		for range 8 {
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Wait(context.WithoutCancel(t.Context()))) }()
		}
		assert.LessOrEqual(t, time.Since(began), 8*2*latency, "seed %d: a flow counts what it does not hold", seed)
		require.NoError(t, q.Reset(t.Context())) // the other flow is alone, too
	}
}

// TestRandomHistoriesOfSteeredQueues plays several limiters of one name, each
// with callers of all kinds, while the queue is paused, reset, flushed and made
// narrower, against what is promised.
func TestRandomHistoriesOfSteeredQueues(t *testing.T) {
	for _, c := range []struct {
		what                            string
		latency                         time.Duration
		resets, flushes, narrows, flows bool
	}{
		{"plain", 0, false, false, false, false},
		{"resets", 0, true, false, false, false},
		{"narrower", 0, false, false, true, false},
		{"slow", 60 * time.Millisecond, true, false, false, false},
		{"all", 60 * time.Millisecond, true, true, true, false},
		{"flows", 0, false, false, false, true},
		{"flows, resets", 0, true, false, false, true},
		{"flows, narrower", 0, false, false, true, true},
		{"flows, all", 60 * time.Millisecond, true, true, true, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			for seed := range uint64(redistest.Long(2, 20)) {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					steeredHistory(t, seed+1, c.latency, c.resets, c.flushes, c.narrows, c.flows)
				})
			}
		})
	}
}
