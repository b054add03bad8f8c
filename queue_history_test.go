package fairlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
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
	commands
	most time.Duration
	mu   *sync.Mutex
	rng  *rand.Rand
}

func (s laggard) nap() {
	if s.most == 0 {
		return
	}
	s.mu.Lock()
	d := time.Duration(s.rng.Int64N(int64(s.most)))
	s.mu.Unlock()
	time.Sleep(d)
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

// steering is what happens to a queue beside pauses, and how long a question
// takes at most, there and back each.
type steering struct {
	latency                         time.Duration
	resets, flushes, narrows, flows bool // with flows, all limiters but the first are of one
	misses                          bool // turns are missed whose answers took long
}

// steeredHistory is one random history: several limiters of one queue, callers
// that wait, reserve, leave and have deadlines, while somebody steers it. Times
// count from its start.
type steeredHistory struct {
	*testing.T
	steering
	seed    uint64
	rng     *rand.Rand
	server  *redistest.MiniServer
	within  time.Duration // X
	quotas  []fairlimit.Quota
	longest time.Duration // of their Pers
	queues  []*fairlimit.Queue
	admin   *fairlimit.Queue
	start   time.Time

	called    int
	from      time.Duration // since when the quotas hold
	lastReset time.Duration
	pauses    []spell
	losses    []spell // from a flush until somebody told what it remembers
	callers   sync.WaitGroup

	mu    sync.Mutex
	goers []goer
}

type spell struct{ from, to time.Duration }

type goer struct {
	who, n int
	at     time.Duration
	queue  *fairlimit.Queue
}

func newSteeredHistory(t *testing.T, seed uint64, s steering) *steeredHistory {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := &steeredHistory{
		T: t, steering: s, seed: seed, rng: rng, server: redistest.Mini(t), start: time.Now(),
		within: []time.Duration{time.Second, 200 * time.Millisecond, 3 * time.Second}[rng.IntN(3)],
	}
	switch {
	case s.latency > 0 && s.narrows:
		// A look that learns of other quotas takes three questions, and two of
		// their scripts may have to be sent as well. All that is within X/4.
		h.within = 3 * time.Second
	case s.latency > 0:
		h.within = time.Second
	}
	quota := fairlimit.Quota{Permits: 1 + rng.IntN(6), Per: time.Duration(1+rng.IntN(4)) * 500 * time.Millisecond}
	if rng.IntN(2) == 0 {
		quota.Burst = 1 + rng.IntN(quota.Permits)
	}
	extra := fairlimit.Quota{Permits: quota.Permits * 2, Per: quota.Per * time.Duration(2+rng.IntN(4))}
	h.quotas, h.longest = []fairlimit.Quota{quota}, extra.Per
	opts := []fairlimit.Option{fairlimit.WithPauseWithin(h.within)}
	if s.misses {
		opts = append(opts, fairlimit.WithMaxLateness(s.latency))
	}
	switch {
	case s.narrows:
		opts = append(opts, fairlimit.WithStoredQuota())
	case rng.IntN(3) == 0:
		opts = append(opts, fairlimit.WithExtraQuota(extra))
		h.quotas = append(h.quotas, extra)
	}
	name := redistest.Name(t)
	for range 3 {
		rdb := h.server.NewClient(t)
		rdb.AddHook(laggard{commands{}, s.latency, new(sync.Mutex), rand.New(rand.NewPCG(seed, 2))})
		its := opts
		if s.flows && len(h.queues) > 0 {
			its = append(slices.Clone(opts), fairlimit.WithFlow(strconv.Itoa(len(h.queues)), 1+rng.IntN(3)))
		}
		h.queues = append(h.queues, queueOf(t, rdb, name, quota, its...))
	}
	h.admin = queueOf(t, h.server.Client, name, quota, opts...)
	if s.narrows {
		require.NoError(t, h.admin.SetQuotas(t.Context(), quota))
	}
	return h
}

func (h *steeredHistory) now() time.Duration { return time.Since(h.start) }

// random is a time below the longest.
func (h *steeredHistory) random(longest time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(longest)))
}

// play returns when all have gone or left.
func (h *steeredHistory) play() {
	for range 30 + h.rng.IntN(60) {
		q := h.queues[h.rng.IntN(len(h.queues))]
		time.Sleep(time.Microsecond) // no two questions go at one moment
		switch k := h.rng.IntN(20); {
		case k < 11:
			for range 1 + h.rng.IntN(4) {
				h.wait(q)
			}
		case k < 14:
			h.reserve(q)
		case k == 14:
			h.pause(q)
		case k == 15 && h.resets:
			h.reset(q)
		case k == 16 && h.flushes:
			h.flush(q)
		case k == 17 && h.narrows && h.from == 0:
			h.narrow()
		default:
			time.Sleep(h.random(1500 * time.Millisecond))
		}
	}
	h.callers.Wait()
	time.Sleep(2*h.latency + time.Millisecond)
	slices.SortStableFunc(h.goers, func(a, b goer) int { return int(a.at - b.at) })
}

// call lets somebody call, whose number tells when it came.
func (h *steeredHistory) call(f func(who int)) {
	who := h.called
	h.called++
	h.callers.Go(func() { f(who) })
	if h.latency == 0 {
		synctest.Wait()
	}
}

func (h *steeredHistory) gone(who, n int, queue *fairlimit.Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goers = append(h.goers, goer{who, n, h.now(), queue})
}

// wait is a caller that may want several permits, leave, or have a deadline.
func (h *steeredHistory) wait(q *fairlimit.Queue) {
	n, patience, leaves := 1, time.Duration(0), h.rng.IntN(2) == 0
	if h.rng.IntN(4) == 0 {
		most := h.quotas[0].Permits
		if h.quotas[0].Burst > 0 {
			most = h.quotas[0].Burst
		}
		n = 1 + h.rng.IntN(most)
	}
	if h.rng.IntN(3) == 0 {
		patience = h.random(20 * time.Second)
	}
	h.call(func(who int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		switch {
		case patience == 0:
		case leaves:
			defer time.AfterFunc(patience, cancel).Stop()
		default:
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		switch err := q.WaitN(ctx, n); {
		case err == nil:
			h.gone(who, n, q)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case errors.Is(err, fairlimit.ErrExceedsQuota):
		case h.misses && errors.Is(err, fairlimit.ErrMissed):
		default:
			h.Errorf("seed %d: %v", h.seed, err)
		}
	})
}

// reserve is a caller that sleeps by hand, and may cancel at once or later.
func (h *steeredHistory) reserve(q *fairlimit.Queue) {
	what, patience := h.rng.IntN(4), h.random(8*time.Second)
	h.call(func(who int) {
		r, err := q.ReserveN(context.Background(), 1)
		if !assert.NoError(h, err, "seed %d", h.seed) {
			return
		}
		switch what {
		case 0:
			assert.NoError(h, r.Cancel(context.Background()), "seed %d", h.seed)
			return
		case 1:
			defer time.AfterFunc(patience, func() { _ = r.Cancel(context.Background()) }).Stop()
		}
		switch err := r.Wait(context.Background()); {
		case err == nil:
			h.gone(who, 1, q)
		case h.misses && errors.Is(err, fairlimit.ErrMissed):
		case !errors.Is(err, fairlimit.ErrReservationOver):
			h.Errorf("seed %d: %v", h.seed, err)
		}
	})
}

// pause is for at least twice X, whatever is asked for.
func (h *steeredHistory) pause(q *fairlimit.Queue) {
	d := 2*h.within + h.random(8*time.Second)
	if h.rng.IntN(3) == 0 {
		d = 1 + h.random(2*h.within)
	}
	require.NoError(h, q.Pause(context.Background(), d), "seed %d", h.seed)
	from := h.now()
	h.pauses = append(h.pauses, spell{from, from - 2*h.latency + max(d, 2*h.within)})
}

// reset ends the pauses, no sooner than it begins. It may ask several times after
// that.
func (h *steeredHistory) reset(q *fairlimit.Queue) {
	began := h.now()
	require.NoError(h, q.Reset(h.Context()))
	h.lastReset = h.now()
	for i := range h.pauses {
		h.pauses[i].to = min(h.pauses[i].to, began)
	}
}

// flush loses the queue, which somebody remembers, who asks first, and all learn
// of.
func (h *steeredHistory) flush(q *fairlimit.Queue) {
	_, err := q.Status(context.Background())
	require.NoError(h, err)
	flushed := h.now()
	h.server.FlushAll()
	_, err = q.Status(context.Background())
	require.NoError(h, err)
	h.losses = append(h.losses, spell{flushed, h.now()})
	for _, q := range h.queues {
		_, err := q.Status(context.Background())
		require.NoError(h, err)
	}
}

func (h *steeredHistory) narrow() {
	h.quotas[0].Per *= time.Duration(2 + h.rng.IntN(2))
	h.longest = max(h.longest, h.quotas[0].Per)
	require.NoError(h, h.admin.SetQuotas(context.Background(), h.quotas[0]))
	h.from = h.now() + h.within
}

// unaware reports whether somebody may go at the moment without knowing of a
// pause that others know of: nobody has told Redis again since it lost the pause,
// or somebody has for less than X.
func (h *steeredHistory) unaware(at time.Duration) bool {
	return slices.ContainsFunc(h.losses, func(l spell) bool {
		return at >= l.from && at <= l.to+h.within+2*h.latency
	})
}

// nobodyGoesInAPause is but for those whose turn came within X.
func (h *steeredHistory) nobodyGoesInAPause() {
	for _, p := range h.pauses {
		for _, g := range h.goers {
			if g.at > p.from+h.within+2*h.latency && g.at < p.to-2*time.Microsecond && !h.unaware(g.at) {
				h.Errorf("seed %d: %d went at %v in a pause %v, X %v", h.seed, g.who, g.at, p, h.within)
			}
		}
	}
}

// keeps is for those who went after X was over since the last reset, and since
// the quota changed. What an answer takes on its way back may delay whoever it is
// for.
func (h *steeredHistory) keeps(q fairlimit.Quota) {
	for i, g := range h.goers {
		if h.lastReset > 0 && g.at <= h.lastReset+h.within+2*h.latency+time.Millisecond || g.at < h.from {
			continue
		}
		in := 0
		for _, other := range h.goers[i:] {
			if other.at-g.at < q.Per-2*h.latency-2*time.Microsecond {
				in += other.n
			}
		}
		if in > q.Permits {
			h.Errorf("seed %d: %d permits from %v in %v, at most %d; X %v, narrower from %v, reset at %v, pauses %v",
				h.seed, in, g.at, q.Per, q.Permits, h.within, h.from, h.lastReset, h.pauses)
			return
		}
	}
}

// inOrder is for all of a queue, and with flows for those of each limiter. Within
// X after quotas became narrower, whoever has not heard of it goes before those
// who have.
func (h *steeredHistory) inOrder() {
	last := map[*fairlimit.Queue]goer{}
	for _, g := range h.goers {
		line := g.queue
		if !h.flows {
			line = nil // all of them stand in one
		}
		if before, some := last[line]; some && g.at > before.at+time.Microsecond && g.who < before.who {
			h.Errorf("seed %d: %d went at %v, after %d at %v", h.seed, g.who, g.at, before.who, before.at)
			return
		}
		if h.from == 0 || g.at < h.from-h.within || g.at >= h.from {
			last[line] = g
		}
	}
}

func (h *steeredHistory) leavesNoDebt() {
	s, err := h.admin.Status(h.Context())
	require.NoError(h, err)
	assert.LessOrEqual(h, s.Queued, h.wentAhead(), "seed %d: debt", h.seed)
	if h.flows {
		time.Sleep(time.Hour) // all flows are forgotten, also where the last turns were cancelled
		h.flowsHoldNothing()
	}
	if s.Paused == 0 && !h.flushes {
		assert.LessOrEqual(h, s.Delay, 5*h.longest, "seed %d: debt", h.seed)
	}
}

// wentAhead is how many permits may have been used before their slots: those of
// callers who went within X of a pause. The clock stood still before it came to
// their slots.
func (h *steeredHistory) wentAhead() (permits int) {
	for _, g := range h.goers {
		if slices.ContainsFunc(h.pauses, func(p spell) bool {
			return g.at >= p.from-2*h.latency && g.at <= p.from+h.within+2*h.latency
		}) {
			permits += g.n
		}
	}
	return permits
}

// flowsHoldNothing requires of flows, one after the other, that none counts
// permits that it does not hold: each can reserve all of the least look-ahead at
// once.
func (h *steeredHistory) flowsHoldNothing() {
	for _, q := range h.queues[1:] {
		began := time.Now()
		for range 8 {
			r, err := q.ReserveN(h.Context(), 1)
			require.NoError(h, err)
			defer func() { require.NoError(h, r.Wait(context.WithoutCancel(h.Context()))) }()
		}
		assert.LessOrEqual(h, time.Since(began), 8*2*h.latency, "seed %d: a flow counts what it does not hold", h.seed)
		require.NoError(h, q.Reset(h.Context())) // the other flow is alone, too
	}
}

// TestRandomHistoriesOfSteeredQueues plays several limiters of one name, each
// with callers of all kinds, while the queue is paused, reset, flushed and made
// narrower, against what is promised.
func TestRandomHistoriesOfSteeredQueues(t *testing.T) {
	for name, s := range map[string]steering{
		"plain":           {},
		"resets":          {resets: true},
		"narrower":        {narrows: true},
		"slow, misses":    {latency: 60 * time.Millisecond, resets: true, misses: true},
		"slow":            {latency: 60 * time.Millisecond, resets: true},
		"all":             {latency: 60 * time.Millisecond, resets: true, flushes: true, narrows: true},
		"flows":           {flows: true},
		"flows, resets":   {resets: true, flows: true},
		"flows, narrower": {narrows: true, flows: true},
		"flows, all":      {latency: 60 * time.Millisecond, resets: true, flushes: true, narrows: true, flows: true},
	} {
		for seed := range uint64(redistest.Long(1, 20)) {
			t.Run(name+"/"+strconv.FormatUint(seed, 10), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newSteeredHistory(t, seed+1, s)
					h.play()
					h.nobodyGoesInAPause()
					if !h.flushes {
						for _, q := range h.quotas {
							h.keeps(q)
						}
						if h.latency == 0 && h.lastReset == 0 && len(h.pauses) == 0 {
							h.inOrder()
						}
					}
					h.leavesNoDebt()
				})
			})
		}
	}
}
