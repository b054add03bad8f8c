package fair

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

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
