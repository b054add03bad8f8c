package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// world is several processes with a limiter of one name, and their callers.
type world struct {
	t        *rapid.T
	mini     *redistest.MiniServer
	client   *redis.Client
	limit    *limit
	limiters []*fairlimit.Queue
	engines  []engine.Queue // behind them

	ctx    context.Context
	leave  context.CancelFunc
	leaves []context.CancelFunc // of each caller
	all    sync.WaitGroup
	losses int  // and resets: what has gone counts no more
	healed bool // since then slots may be labels on another clock

	mu     sync.Mutex // held while an engine is asked for turns
	stand  []engine.Turn
	went   []gone
	faults []string
}

// gone is a caller that went.
type gone struct {
	at int64
	n  []int // of each unit
}

// inWorld runs a history in a bubble, where time is virtual. What rapid panics with
// must reach rapid.
func inWorld(t *testing.T, rt *rapid.T, history func(w *world)) {
	var ended any
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: rt, mini: redistest.Mini(t)}
		w.client = w.mini.Client
		w.ctx, w.leave = context.WithCancel(context.Background())
		defer func() {
			ended = recover()
			w.leave()
			w.all.Wait()
			time.Sleep(time.Minute) // what is under way ends
		}()
		w.limit = genLimit(3*time.Millisecond, 1).Draw(rt, "limit")
		if rapid.Bool().Draw(rt, "lateness") {
			w.limit.guard = 20 * time.Millisecond
		}
		for range rapid.IntRange(1, 3).Draw(rt, "limiters") {
			w.limiters = append(w.limiters, w.limiter(t))
		}
		history(w)
	})
	if fmt.Sprintf("%T", ended) == "rapid.invalidData" { // to rapid, failures on one line are one failure
		panic(ended)
	}
	if ended != nil {
		panic(ended)
	}
}

// limiter is one of a process of its own.
func (w *world) limiter(t *testing.T) *fairlimit.Queue {
	opts := []fairlimit.Option{fairlimit.WithGuard(w.limit.guard), fairlimit.WithEngine(w.watch)}
	for _, q := range quotas(w.limit.quotas[1:]) {
		opts = append(opts, fairlimit.WithExtraQuota(q))
	}
	for _, u := range w.limit.units {
		opts = append(opts, fairlimit.WithUnit(u.Name, quotas(u.Quotas)...))
	}
	q, err := fairlimit.NewQueue(w.mini.NewClient(t), name, fairlimit.Quota(w.limit.quotas[0]), opts...)
	require.NoError(w.t, err)
	return q
}

func quotas(of []engine.Quota) (all []fairlimit.Quota) {
	for _, q := range of {
		all = append(all, fairlimit.Quota(q))
	}
	return all
}

// watched is engine fair, and looks at the order: nobody is granted a turn before
// one that stands.
type watched struct {
	engine.Queue
	*world
}

func (w *world) watch(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	if err != nil {
		return nil, err
	}
	w.engines = append(w.engines, e.(engine.Queue))
	return watched{e.(engine.Queue), w}, nil
}

func (e watched) Flow(id string, weight int) engine.Queue {
	return watched{e.Queue.Flow(id, weight), e.world}
}

func (e watched) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	answers, news, err := e.Queue.Take(ctx, requests)
	for _, a := range answers {
		if a.Verdict != engine.Granted {
			continue
		}
		for _, x := range e.stand {
			if e.losses == 0 && !e.healed && news.Stands(x) && x.Slot > a.Turn.Slot {
				e.faults = append(e.faults, fmt.Sprintf("a turn at slot %d was granted behind one at %d", a.Turn.Slot, x.Slot))
			}
		}
		e.stand = append(e.stand, a.Turn)
	}
	return answers, news, err
}

func (e watched) GiveBack(ctx context.Context, returns []engine.Return) error {
	e.mu.Lock()
	for _, r := range returns {
		if i := slices.Index(e.stand, r.Turn); i >= 0 {
			e.stand = slices.Delete(e.stand, i, i+1)
		}
	}
	e.mu.Unlock()
	return e.Queue.GiveBack(ctx, returns)
}

// actions are those without a loss. A Resume is not one: callers that have not heard of
// it go later than others, and without a guard that is not strict (LIMITS).
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"call": w.call, "call more": w.call, "call again": w.call,
		"leave": func(t *rapid.T) {
			if len(w.leaves) == 0 {
				t.Skip("nobody called")
			}
			w.leaves[rapid.IntRange(0, len(w.leaves)-1).Draw(t, "who")]()
		},
		"pass": func(t *rapid.T) {
			longest := rapid.SampledFrom([]int64{20_000, second, w.limit.span()}).Draw(t, "longest")
			time.Sleep(micros(rapid.Int64Range(0, longest).Draw(t, "µs")))
		},
		"pause": func(t *rapid.T) {
			d := rapid.Int64Range(0, 5*second).Draw(t, "µs")
			w.steer(t, func(q *fairlimit.Queue) error { return q.Pause(w.ctx, micros(2*within+d)) })
		},
		"requeue": func(t *rapid.T) {
			w.steer(t, func(q *fairlimit.Queue) error { return q.Requeue(w.ctx) })
		},
		"": func(t *rapid.T) {
			synctest.Wait()
			require.Empty(t, w.faults)
			checkKeys(t, w.client)
		},
	}
}

func (w *world) by(t *rapid.T) *fairlimit.Queue {
	return w.limiters[rapid.IntRange(0, len(w.limiters)-1).Draw(t, "by")]
}

// steer asks one of the limiters. Ids of queues are in microseconds.
func (w *world) steer(t *rapid.T, ask func(*fairlimit.Queue) error) {
	time.Sleep(2 * time.Microsecond)
	require.NoError(t, ask(w.by(t)))
}

func (w *world) call(t *rapid.T) {
	q, n, longest := w.by(t), w.limit.draw(t), genMaxWait(w.limit).Draw(t, "MaxWait")
	for range rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 8)).Draw(t, "callers") {
		ctx, leave := context.WithTimeout(w.ctx, longest)
		w.leaves = append(w.leaves, leave)
		w.goes(n, func() error {
			_, err := q.Take(ctx, w.limit.take(n))
			return err
		})
		synctest.Wait()
	}
}

// goes is a caller that goes unless wait returns an error.
func (w *world) goes(n []int, wait func() error) {
	w.all.Go(func() {
		err := wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil:
			w.went = append(w.went, gone{time.Now().UnixMicro(), n})
		case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
			w.faults = append(w.faults, err.Error())
		}
	})
}

// end lets everybody go, and looks at what they did.
func (w *world) end() {
	ended := make(chan struct{})
	go func() {
		w.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(500 * micros(w.limit.span())):
		w.t.Fatal("everybody goes in the end")
	}
	require.Empty(w.t, w.faults)
	w.checkWindows()
	checkKeys(w.t, w.client)
	time.Sleep(2*time.Hour + 10*micros(w.limit.span()))
	require.Empty(w.t, w.client.Keys(ctx, "*").Val(), "once nothing counts, nothing is left")
}

// checkWindows: no window holds more than the quota, and one more for each loss.
func (w *world) checkWindows() {
	slices.SortStableFunc(w.went, func(a, b gone) int { return cmp.Compare(a.at, b.at) })
	for u, windows := range w.limit.windows() {
		var slots []int64
		for _, g := range w.went {
			slots = append(slots, slices.Repeat([]int64{g.at}, g.n[u])...)
		}
		for _, window := range windows {
			window.Permits *= 1 + w.losses
			window.Length = max(1, window.Length-w.limit.guard.Microseconds()/2) // so late may somebody go
			require.NoError(w.t, model.Strict([]model.Window{window}, slots), "unit %d, %d losses", u, w.losses)
		}
	}
}
