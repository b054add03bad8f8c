package verify

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// world is several limiters of one name, each with its own memory.
type world struct {
	*server
	t        *rapid.T
	limit    *limit
	limiters []*limiter

	went   []gone
	losses int  // and resets: what has gone counts no more
	healed bool // since then slots may be labels on another clock

	reasked map[int64][]*caller // by requeue, in the order in which they were granted
}

// gone is a caller that went.
type gone struct {
	at int64
	*caller
}

func newWorld(t *rapid.T, s *server) *world {
	s.begin()
	l := genLimit(3*time.Millisecond, 1).Draw(t, "limit")
	if rapid.Bool().Draw(t, "lateness") {
		l.guard = 20 * time.Millisecond
	}
	w := &world{server: s, t: t, limit: l, reasked: map[int64][]*caller{}}
	for range rapid.IntRange(1, 3).Draw(t, "limiters") {
		w.limiters = append(w.limiters, &limiter{world: w, queue: l.engine(t, s.client)})
	}
	return w
}

func (w *world) by(t *rapid.T) *limiter {
	return w.limiters[rapid.IntRange(0, len(w.limiters)-1).Draw(t, "by")]
}

// let lets time pass, with all that happens meanwhile.
func (w *world) let(d int64) {
	end := w.now + d
	for range 20_000 {
		first := event{at: end}
		for _, l := range w.limiters {
			if e := l.next(); e.do != nil && (e.at < first.at || first.do == nil && e.at <= end) {
				first = e
			}
		}
		w.pass(max(0, first.at-w.now))
		if first.do == nil {
			return
		}
		first.do()
	}
	w.t.Fatalf("no end: %d callers went", len(w.went))
}

func (w *world) note(format string, args ...any) {
	w.t.Logf("%d: "+format, append([]any{w.now - beginning}, args...)...)
}

// granted looks at the order: nobody goes before one who has a turn that stands.
func (w *world) granted(c *caller, news *engine.News) {
	if c.WasVoid {
		w.reasked[c.requeue] = append(w.reasked[c.requeue], c)
	}
	if w.losses > 0 || w.healed {
		return
	}
	for _, l := range w.limiters {
		if !c.WasVoid && !l.isFlow && len(l.again) > 0 {
			w.t.Fatalf("whoever was made void asks before others")
		}
		for _, x := range l.sleepers {
			if news.Stands(x.turn) && x.turn.Slot > c.turn.Slot {
				w.t.Fatalf("a turn at slot %d was granted behind one at %d", c.turn.Slot, x.turn.Slot)
			}
		}
	}
}

// end lets everybody go, and looks at what they did.
func (w *world) end() {
	for range 500 {
		if !slices.ContainsFunc(w.limiters, func(l *limiter) bool { return l.next().do != nil }) {
			break
		}
		w.let(w.limit.span())
	}
	for _, l := range w.limiters {
		require.Nil(w.t, l.next().do, "everybody goes in the end")
	}
	w.checkWindows()
	checkKeys(w.t, w.client)
	w.pass(3600*second + 10*w.limit.span() + 3600*second)
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

// actions are those without a loss. A Resume is not one: callers that have not heard of
// it go later than others, and without a guard that is not strict (LIMITS).
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"call": w.call, "call more": w.call, "call again": w.call, "leave": func(t *rapid.T) { w.by(t).leave(t) },
		"pass": func(t *rapid.T) {
			longest := rapid.SampledFrom([]int64{20_000, second, w.limit.span()}).Draw(t, "longest")
			w.let(rapid.Int64Range(0, longest).Draw(t, "µs"))
		},
		"pause": func(t *rapid.T) {
			d := rapid.Int64Range(0, 5*second).Draw(t, "µs")
			w.steer(t, func(q engine.Queue) (engine.News, error) { return q.Pause(ctx, micros(2*within+d)) })
		},
		"requeue": func(t *rapid.T) {
			w.steer(t, func(q engine.Queue) (engine.News, error) { return q.Requeue(ctx) })
		},
		"": func(t *rapid.T) { checkKeys(t, w.client) },
	}
}

func (w *world) call(t *rapid.T) {
	l, n := w.by(t), w.limit.draw(t)
	request := engine.Request{N: n[0], Amounts: w.limit.amounts(n), MaxWait: genMaxWait(w.limit).Draw(t, "MaxWait")}
	for range rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 8)).Draw(t, "callers") {
		l.call(&caller{Request: request, n: n})
	}
}

func (w *world) steer(t *rapid.T, ask func(engine.Queue) (engine.News, error)) {
	w.let(2) // ids are in microseconds
	l := w.by(t)
	news, err := ask(l.queue)
	require.NoError(t, err)
	l.hear(news)
}
