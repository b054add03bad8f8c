package verify

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
)

// Several limiters, or flows, with pauses, callers that leave, and requeues: strict, in
// order, and everybody goes.
func TestStorm(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, s)
		if rapid.Bool().Draw(t, "flows") {
			w.limiters = nil
			for i := range rapid.IntRange(2, 4).Draw(t, "flows") {
				queue := w.limit.engine(t, s.client).Flow(fmt.Sprint("flow", i), rapid.IntRange(1, 3).Draw(t, "weight"))
				w.limiters = append(w.limiters, &limiter{world: w, queue: queue, isFlow: true})
			}
		}
		t.Repeat(w.actions())
		w.end()
	})
}

// The same with losses. If all limiters ask before anybody is granted a turn, it is
// strict, but a loss can undo a requeue. Else at most one quota more goes for each.
func TestStormWithLosses(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, s)
		actions := w.actions()
		if rapid.Bool().Draw(t, "heal at once") {
			delete(actions, "requeue")
			actions["lose, and heal"] = w.loseAndHeal
		} else {
			w.addLosses(actions)
		}
		t.Repeat(actions)
		w.end()
	})
}

func (w *world) loseAndHeal(t *rapid.T) {
	w.healed = true
	w.mini.FlushAll()
	for _, l := range w.limiters {
		news, err := l.queue.Pause(ctx, 0)
		require.NoError(t, err)
		l.hear(news)
	}
}

func (w *world) addLosses(actions map[string]func(*rapid.T)) {
	var replica *copied
	actions["lose"] = func(*rapid.T) {
		w.losses++
		w.mini.FlushAll()
	}
	actions["copy"] = func(t *rapid.T) { replica = w.copy(t) }
	actions["fail over"] = func(t *rapid.T) {
		if replica == nil {
			t.Skip("there is no copy")
		}
		w.losses++
		w.failOver(t, replica)
	}
	actions["reset"] = func(t *rapid.T) {
		w.losses++ // what has gone counts no more
		w.steer(t, func(q engine.Queue) (engine.News, error) { return q.Reset(ctx) })
	}
}

// Whoever waits keeps its place, on whatever limiter.
func TestRequeueKeepsTheOrder(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, s)
		for range rapid.IntRange(2, 10).Draw(t, "calls") {
			w.call(t)
			w.let(rapid.Int64Range(0, 100_000).Draw(t, "µs"))
		}
		w.steer(t, func(q engine.Queue) (engine.News, error) { return q.Requeue(ctx) })
		w.call(t)
		w.end()
		for _, callers := range w.reasked {
			for i := 1; i < len(callers); i++ {
				a, b := callers[i-1], callers[i]
				require.LessOrEqual(t, a.before, b.before+50_000, "in the order of the slots that they had")
				require.LessOrEqual(t, a.turn.Slot, b.turn.Slot)
			}
		}
	})
}
