package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit"
)

// Several limiters, or flows, with pauses, callers that leave, and requeues: strict, in
// order, and everybody goes.
func TestStorm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inWorld(t, rt, func(w *world) {
			if rapid.Bool().Draw(rt, "flows") {
				for i, q := range w.limiters {
					flow, err := q.Flow(fmt.Sprint("flow", i), rapid.IntRange(1, 3).Draw(rt, "weight"))
					require.NoError(rt, err)
					w.limiters[i] = flow
				}
			}
			rt.Repeat(w.actions())
			w.end()
		})
	})
}

// The same with losses. If all limiters ask before anybody is granted a turn, it is
// strict, but a loss can undo a requeue. Else at most one quota more goes for each.
func TestStormWithLosses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inWorld(t, rt, func(w *world) {
			actions := w.actions()
			if rapid.Bool().Draw(rt, "heal at once") {
				delete(actions, "requeue")
				actions["lose, and heal"] = w.loseAndHeal
			} else {
				w.addLosses(actions)
			}
			rt.Repeat(actions)
			w.end()
		})
	})
}

func (w *world) loseAndHeal(t *rapid.T) {
	w.healed = true
	w.mini.FlushAll()
	for _, e := range w.engines {
		_, err := e.Pause(ctx, 0)
		require.NoError(t, err)
	}
}

func (w *world) addLosses(actions map[string]func(*rapid.T)) {
	var replica []copied
	actions["lose"] = func(*rapid.T) {
		w.losses++
		w.mini.FlushAll()
	}
	actions["copy"] = func(*rapid.T) { replica = copyOf(w.client) }
	actions["fail over"] = func(t *rapid.T) {
		if replica == nil {
			t.Skip("there is no copy")
		}
		w.losses++
		w.mini.FlushAll()
		for _, c := range replica {
			c.restore(t, w.client)
		}
	}
	actions["reset"] = func(t *rapid.T) {
		w.losses++ // what has gone counts no more
		w.steer(t, func(q *fairlimit.Queue) error { return q.Reset(w.ctx) })
	}
}

// copied is a key as a replica holds it that lags behind.
type copied struct {
	key, text string
	cells     []redis.Z
	ends      time.Time
}

func copyOf(client *redis.Client) (all []copied) {
	for _, k := range client.Keys(ctx, "*").Val() {
		all = append(all, copied{
			key: k, text: client.Get(ctx, k).Val(), cells: client.ZRangeWithScores(ctx, k, 0, -1).Val(),
			ends: time.Now().Add(client.PTTL(ctx, k).Val()),
		})
	}
	return all
}

func (c copied) restore(t *rapid.T, client *redis.Client) {
	switch ttl := time.Until(c.ends); {
	case ttl < time.Millisecond:
	case c.cells == nil:
		require.NoError(t, client.Set(ctx, c.key, c.text, ttl).Err())
	default:
		require.NoError(t, client.ZAdd(ctx, c.key, c.cells...).Err())
		require.NoError(t, client.PExpire(ctx, c.key, ttl).Err())
	}
}

// Whoever waits keeps its place, on whatever limiter. Whoever calls later goes later.
func TestRequeueKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inWorld(t, rt, func(w *world) {
			type caller struct {
				had, went time.Time
			}
			var callers []*caller
			waits := func(had time.Time, n []int, wait func() error) {
				c := &caller{had: had}
				callers = append(callers, c)
				w.goes(n, func() error {
					err := wait()
					c.went = time.Now()
					return err
				})
			}
			for range rapid.IntRange(2, 30).Draw(rt, "calls") {
				n := w.limit.draw(rt)
				r, err := w.by(rt).ReserveAmounts(w.ctx, w.limit.take(n))
				require.NoError(rt, err)
				waits(r.Slot(), n, func() error { return r.Wait(w.ctx) })
				time.Sleep(micros(rapid.Int64Range(0, 100_000).Draw(rt, "µs")))
			}
			w.steer(rt, func(q *fairlimit.Queue) error { return q.Requeue(w.ctx) })
			last := w.by(rt)
			waits(time.Now().Add(time.Hour), []int{1, 0}, func() error { return last.Wait(w.ctx) })
			w.end()
			for _, a := range callers {
				for _, b := range callers {
					overtook := a.went.Add(time.Millisecond).Before(b.went) && a.had.After(b.had.Add(50*time.Millisecond))
					require.False(rt, overtook, "in the order of the slots that they had")
				}
			}
		})
	})
}
