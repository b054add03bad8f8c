package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// askFor asks for as many single permits for a flow that holds some ahead.
func askFor(t testing.TB, f *fair, flow engine.Flow, count int) (granted []engine.Answer, share int) {
	t.Helper()
	requests := make([]engine.Request, count)
	for i := range requests {
		requests[i] = engine.Request{N: 1, MaxWait: engine.Forever, Flow: &flow}
	}
	answers, err := f.Take(t.Context(), requests)
	require.NoError(t, err)
	for _, a := range answers {
		require.NoError(t, a.Err)
		require.NotEqual(t, a.Granted, a.Left)
		if a.Granted {
			granted = append(granted, a)
		}
		share = a.Share
	}
	return granted, share
}

func TestAFlowIsGrantedUpToItsShareAndTheRestIsLeft(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		other := f.joins(t, engine.Quota{Permits: 1, Per: time.Second})
		granted, share := askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 20)
		assert.Equal(t, 8, share, "a flow alone has the whole look-ahead")
		assert.Len(t, granted, 8)
		assert.Equal(t, 7*time.Second, granted[7].Wait)
		granted, share = askFor(t, other, engine.Flow{ID: "b", Weight: 3}, 20)
		assert.Equal(t, 6, share)
		assert.Len(t, granted, 6)
		assert.Equal(t, 8*time.Second, granted[0].Wait)
		granted, share = askFor(t, f, engine.Flow{ID: "a", Weight: 1, Ahead: 8}, 5)
		assert.Equal(t, 2, share)
		assert.Empty(t, granted, "until it holds less")
		at(8 * time.Second)
		granted, _ = askFor(t, f, engine.Flow{ID: "a", Weight: 1, Ahead: 0}, 5)
		assert.Len(t, granted, 2)
		at(30 * time.Second)
		_, share = askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 1)
		assert.Equal(t, 8, share, "the others are gone")

		f, _ = w.queue(t, engine.Quota{Permits: 10, Per: time.Second})
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 1)
		granted, _ = askFor(t, f, engine.Flow{ID: "b", Weight: 1}, 1)
		next := take(t, f, engine.Request{N: 3, MaxWait: engine.Forever, Flow: &engine.Flow{ID: "c", Weight: 1}})[0]
		assert.Equal(t, 300*time.Millisecond, next.Wait-granted[0].Wait, "beside others each permit takes its time")
	})
}

func TestAFlowThatHoldsNothingGetsOneRequestHoweverLarge(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 10, Per: time.Second})
		ask := func(ahead int, sizes ...int) (answers []engine.Answer) {
			flow := &engine.Flow{ID: "a", Weight: 1, LookAhead: 4, Ahead: ahead}
			var requests []engine.Request
			for _, n := range sizes {
				requests = append(requests, engine.Request{N: n, MaxWait: engine.Forever, Flow: flow})
			}
			answers, err := f.Take(t.Context(), requests)
			require.NoError(t, err)
			require.Len(t, answers, len(sizes))
			return answers
		}
		answers := ask(0, 9, 1)
		assert.True(t, answers[0].Granted)
		assert.True(t, answers[1].Left)
		answers = ask(3, 2, 1)
		assert.True(t, answers[0].Left)
		assert.True(t, answers[1].Left, "nobody goes before one that has no room")
	})
}

// entries are those of the flows that the state has.
func entries(t *testing.T, f *fair) []string {
	t.Helper()
	const behind, long = ringCells*cellBytes + noteBytes, entryBytes // the ring and the notes, an entry
	state := f.client.Get(t.Context(), f.key).Val()
	if len(state) <= len(f.head)+headerBytes+windowBytes*len(f.windows)+behind {
		return nil
	}
	var all []string
	for entry := range slices.Chunk([]byte(state[len(f.head)+headerBytes+windowBytes*len(f.windows)+behind:]), long) {
		require.Len(t, entry, long)
		if text := strings.TrimSpace(string(entry)); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func TestSharesAreThoseOfTheModel(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(redistest.Long(2, 24)) {
			rng := rand.New(rand.NewPCG(seed, 8))
			quota, heaviest, most := engine.Quota{Permits: 20, Per: time.Second, Burst: 1}, 3, 1
			if seed%2 > 0 { // long numbers
				quota, heaviest, most = engine.Quota{Permits: 1_000_000_000, Per: time.Second}, 1000, 20_000
			}
			f, at := w.queue(t, quota)
			members := make([]*fair, 4)
			for i := range members {
				members[i] = f.joins(t, quota)
				members[i].member = fmt.Sprintf("%03d", i)
			}
			lookAhead := rng.IntN(2) * (8 + rng.IntN(100)) // 0 for the engine's choice
			m := &model.Flows{Grace: defaultGrace.Microseconds(), Most: lookAhead, Least: lookAhead}
			flows := 2 + rng.IntN(200)
			now := time.Duration(0)
			for step := range redistest.Long(80, 250) {
				now += time.Duration(rng.IntN(100)) * time.Millisecond
				at(now)
				p := members[rng.IntN(1+rng.IntN(4))]
				flow := &engine.Flow{
					ID: fmt.Sprint(rng.IntN(flows)), Weight: 1 + rng.IntN(1+rng.IntN(heaviest)), LookAhead: lookAhead,
					Wanted: rng.IntN(2) * rng.IntN(200),
				}
				n := 1 + rng.IntN(1+rng.IntN(most))
				if lookAhead == 0 {
					m.Most, m.Least = p.lookAhead(p.latency.longest())
				}
				answers, err := p.Take(t.Context(), []engine.Request{{N: n, MaxWait: engine.Forever, Flow: flow}})
				require.NoError(t, err)
				id := flowWord(flow.ID) + p.member
				clock := beginning.Add(now).UnixMicro()
				asker := model.Asker{ID: id, Weight: flow.Weight, Need: n, Wants: min(m.Most, max(n, flow.Wanted))}
				require.Equal(t, m.Enter(clock, asker)[0], answers[0].Share, "seed %d, step %d", seed, step)
				require.True(t, answers[0].Granted)
				m.Holds(id, answers[0].Grant.At)
				require.Len(t, entries(t, f), m.Written())
			}
		}
	})
}

func TestTheStateKeepsSixtyFourFlowsAtMost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		quota := engine.Quota{Permits: 1_000_000, Per: day}
		f, _ := w.queue(t, quota)
		for _, c := range []struct{ n, weight int }{{1, 1}, {100, 1}, {10_000, 1000}, {1, 1}} {
			for i := range 80 {
				flow := &engine.Flow{ID: fmt.Sprint(i), Weight: c.weight, LookAhead: 64}
				require.True(t, take(t, f, engine.Request{N: c.n, MaxWait: engine.Forever, Flow: flow})[0].Granted)
			}
			require.Len(t, entries(t, f), 64, c)
		}
		_, share := askFor(t, f, engine.Flow{ID: "0", Weight: 1, LookAhead: 640}, 3)
		require.Equal(t, 1, share, "beside more than there are entries each holds one request ahead")
	})
}

func TestTheStateOfFlowsEndsByItself(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: 10 * time.Millisecond})
		plain := f.joins(t, engine.Quota{Permits: 1, Per: 10 * time.Millisecond})
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 3)
		require.Len(t, entries(t, f), 1)
		require.Greater(t, w.ttl(t, f.key), 500*time.Millisecond, "it is kept for as long as the grace")
		at(100 * time.Millisecond)
		queued(t, plain, 1, 1)
		require.Len(t, entries(t, f), 1, "callers without a flow leave it as it is")
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 3)
		require.Greater(t, inspected(t, f).Flows[0].Ends, 500*time.Millisecond, "and a turn of it lets it last longer")
		require.Greater(t, w.ttl(t, f.key), 400*time.Millisecond)
	})
}

func TestDamagedFlowsAreAnErrorOrCountAsNone(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, damage := range []string{
			strings.Repeat("x", 81), strings.Repeat(" ", 81), "\n", "0000000000", strings.Repeat("9", 81),
			strings.Repeat("\x00", 81),
		} {
			f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Hour})
			askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 1)
			at := len(f.head) + headerBytes + windowBytes*len(f.windows) + ringCells*cellBytes + noteBytes
			for _, within := range []int{0, 20, 50, 60} {
				require.NoError(t, w.rdb.SetRange(t.Context(), f.key, int64(at+within), damage).Err())
				before := w.rdb.Get(t.Context(), f.key).Val()
				request := engine.Request{N: 1, MaxWait: engine.Forever, Flow: &engine.Flow{ID: "a", Weight: 1}}
				answers, err := f.Take(t.Context(), []engine.Request{request})
				if err != nil {
					require.ErrorIs(t, err, engine.ErrState)
					require.Equal(t, before, w.rdb.Get(t.Context(), f.key).Val())
					continue
				}
				require.LessOrEqual(t, answers[0].Share, 1<<40)
			}
		}
	})
}

// owes is a turn as it is settled that used so many calls more.
func owes(g engine.Grant, calls int) engine.Grant {
	g.Settles, g.N, g.Amounts = true, -calls, ""
	return g
}

// manyCells is a quota under which a debt of three hundred has more slots than
// one question books.
var manyCells = engine.Quota{Permits: 2, Per: time.Second}

// What one question does not book of a debt is owed to the queue that answered,
// whatever turns are settled with it.
func TestTheRestOfADebtIsBookedBesideTurnsOfAQueueThatIsOver(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, manyCells)
		over := queued(t, f, 1, 1)[0]
		require.NoError(t, f.Reset(t.Context()))
		g := queued(t, f, 1, 1)[0]
		at(time.Second)
		giveBack(t, f, owes(over, 100), owes(g, 300))
		require.Equal(t, 298, status(t, f).Queued, "two of them are due at once")
	})
}

// A debt that is lost between two questions is forgiven.
func TestTheRestOfADebtIsNotBookedInAnotherQueue(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, manyCells)
		other := f.joins(t, manyCells)
		g := queued(t, f, 1, 1)[0]
		at(time.Second)
		questions := 0
		client := redis.NewClient(f.client.(*redis.Client).Options())
		t.Cleanup(func() { _ = client.Close() })
		client.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if cmd.Name() == "evalsha" {
				if questions++; questions == 2 {
					require.NoError(t, other.Reset(ctx))
				}
			}
			return next(ctx, cmd)
		}))
		f.client = client
		giveBack(t, f, owes(g, 300))
		require.Greater(t, questions, 1)
		require.Zero(t, status(t, f).Queued)
	})
}

// A flow pays for what it owes, until that has passed, and only to the queue that
// it is owed to.
func TestADebtOfAFlowEndsWithItsQueue(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, manyCells)
		other := f.joins(t, manyCells)
		flow := &engine.Flow{ID: "a", Weight: 1, LookAhead: 50}
		owe := func() engine.Answer {
			g := take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0].Grant
			at(time.Second)
			giveBack(t, f, owes(g, 20))
			flow.Ahead = 1
			a := take(t, f, engine.Request{N: 1, MaxWait: engine.Forever, Flow: flow})[0]
			flow.Ahead = 0
			at(0)
			return a
		}
		share := owe().Share
		require.Less(t, share, 50)
		pause(t, f, time.Hour)
		require.Positive(t, f.debts.ahead(&engine.Flow{ID: "a", Ahead: 1}, &f.memory))
		require.Zero(t, f.debts.ahead(&engine.Flow{ID: "b", Ahead: 1}, &f.memory))
		require.NoError(t, other.Reset(t.Context()))
		require.Equal(t, share, owe().Share, "of one debt, as before")
		require.NoError(t, f.Reset(t.Context()))
		require.Zero(t, f.debts.ahead(&engine.Flow{ID: "a", Ahead: 1}, &f.memory))
	})
}
