package fairlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// What an attack on the design broke, each with what happened.

// A grant was joined with the refusal of the same slot: both callers went.
func TestARefusalIsNotJoinedWithAGrantOfItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rdb, w := wayTo(t, server)
		trace := &fairlimit.Trace{GivenBack: func(int, error) { t.Error("nothing more was granted") }}
		q := queueOf(t, rdb, "q", fairlimit.PerMinute(3), fairlimit.WithTrace(trace))
		require.NoError(t, q.WaitN(t.Context(), 3))
		w.is(traffic{back: time.Millisecond})
		first := background(func() error { _, err := q.ReserveN(t.Context(), 1); return err })
		granted := waits(t.Context(), q) // in the next question, with the others
		refused := waits(within(t, time.Second), q)
		third := waits(t.Context(), q)
		require.NoError(t, <-first)
		require.ErrorAs(t, <-refused, new(*fairlimit.RefusedError))
		require.NoError(t, <-granted)
		require.NoError(t, <-third)
	})
}

// The head expired before what another limiter was told of, so that its next
// question booked all of it again: 28 s of wait in an empty queue.
func TestAHeadThatWasShortenedIsNoLoss(t *testing.T) {
	each(t, map[string]func(*fairlimit.Queue, ...*fairlimit.Reservation) error{
		"by returns": func(_ *fairlimit.Queue, held ...*fairlimit.Reservation) error {
			return errors.Join(held[1].Cancel(context.Background()), held[0].Cancel(context.Background()))
		},
		"by a reset": func(q *fairlimit.Queue, _ ...*fairlimit.Reservation) error { return q.Reset(context.Background()) },
	}, func(
		t *testing.T, server *redistest.MiniServer, shorten func(*fairlimit.Queue, ...*fairlimit.Reservation) error,
	) {
		lost := fairlimit.WithTrace(&fairlimit.Trace{Lost: func() { t.Error("nothing was lost") }})
		all := processes(t, server, 2, fairlimit.Every(10*time.Second), lost)
		reserve(t, all[0], 1)
		held := []*fairlimit.Reservation{reserve(t, all[0], 1), reserve(t, all[0], 1)}
		require.NoError(t, reserve(t, all[1], 1).Cancel(t.Context())) // it knows of both
		require.NoError(t, shorten(all[0], held...))
		time.Sleep(15 * time.Second)
		require.True(t, allow(t, all[1]))
		time.Sleep(2 * time.Hour)
		require.Empty(t, server.Keys())
	})
}

// A Status of an idle name, and a flow that was refused, left keys without a
// TTL. Opening deleted the stored quotas.
func TestReadingLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(time.Minute), fairlimit.WithStoredQuota())
		require.NoError(t, q.Resume(t.Context()))
		_, _, err := q.Quotas(t.Context())
		require.NoError(t, err)
		require.Equal(t, fairlimit.Status{Available: 1}, status(t, q))
		require.Empty(t, server.Keys())

		require.NoError(t, q.SetQuotas(t.Context(), fairlimit.Every(time.Hour)))
		require.NoError(t, q.Pause(t.Context(), time.Minute))
		flow, err := q.Flow("a", 1)
		require.NoError(t, err)
		require.False(t, allow(t, flow))
		opened, err := fairlimit.Open(server.Client, "q")
		require.NoError(t, err)
		status(t, opened)
		require.Equal(t, []string{"fairlimit:{q}", "fairlimit:{q}:quota"}, server.Keys())
		time.Sleep(3 * time.Hour)
		require.Equal(t, []string{"fairlimit:{q}:quota"}, server.Keys())
	})
}

// Answers to callers that were refused every 100 ms counted as news, with an
// old offset: whoever slept beside them did not hear of a pause.
func TestRefusalsDoNotDeafenWhoSleepsBesideThem(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, began := processes(t, server, 2, fairlimit.Every(10*time.Second)), time.Now()
		require.NoError(t, all[0].Wait(t.Context()))
		sleeps := waits(t.Context(), all[0])
		for i := range 50 {
			if i == 20 {
				require.NoError(t, all[1].Pause(t.Context(), time.Minute))
			}
			require.False(t, allow(t, all[0]))
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, <-sleeps)
		assert.Equal(t, 70*time.Second, time.Since(began))
	})
}

// After a loss each of 20 limiters booked all that it knew, whatever the others
// had brought back: 128 s in place of 8.
func TestWhatSeveralKnowIsBookedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all := processes(t, server, 20, fairlimit.PerSecond(10))
		for range 3 {
			for _, q := range all {
				reserve(t, q, 1)
			}
		}
		server.FlushAll()
		began, last := time.Now(), time.Time{}
		for _, q := range all {
			last = reserve(t, q, 1).Slot()
		}
		assert.LessOrEqual(t, last.Sub(began), 10*time.Second)
	})
}

// The clock went back an hour after the loss: the pause that the limiter knew
// of lasted an hour longer.
func TestAClockThatWasSetBackAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := queueOf(t, server.Client, "q", fairlimit.Every(10*time.Second))
		reserve(t, q, 1)
		reserve(t, q, 1)
		server.FlushAll()
		server.SetTime(time.Now().Add(-time.Hour))
		assert.Equal(t, 20*time.Second, reserve(t, q, 1).Delay())
		assert.Equal(t, 30*time.Second, status(t, q).Delay)
	})
}

// A queue of one permit that was requeued every few seconds never moved.
func TestARequeueNowAndThenHoldsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, c := queueOf(t, server.Client, "q", fairlimit.Every(10*time.Second)), newCrowd(t)
		c.line(q, 4)
		for range 12 {
			time.Sleep(3 * time.Second)
			require.NoError(t, q.Requeue(t.Context()))
		}
		c.inOrder()
		assert.LessOrEqual(t, c.went[3].at, 32*time.Second)
	})
}

// The second of two requeues let a turn stand that the first had made void, of
// a process that had heard of neither.
func TestTwoRequeuesWithinASecond(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, c := processes(t, server, 4, fairlimit.Quota{Permits: 4, Per: time.Second, Burst: 1}), newCrowd(t)
		for i := range 40 { // a turn each 250 ms
			c.line(all[i%3], 1)
		}
		time.Sleep(2150 * time.Millisecond)
		require.NoError(t, all[3].Requeue(t.Context()))
		time.Sleep(150 * time.Millisecond)
		require.NoError(t, all[3].Requeue(t.Context()))
		require.Len(t, c.gone(), 40)
		assert.LessOrEqual(t, c.most(250*time.Millisecond-2*time.Microsecond), 1)
	})
}

// A debt of a unit of which nothing was taken yet was lost.
func TestADebtOfAnEmptyLogCounts(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q := tokens(t, server.Client)
		turn, err := q.Take(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, turn.Settle(t.Context(), fairlimit.Amounts{"tokens": 400}))
		assert.Equal(t, 600, status(t, q).Units["tokens"].Available)
	})
}

// A request of 6 permits starved behind small ones of its own flow, which had
// room.
func TestALargeRequestOfAFlowKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		q, ctx, c := queueOf(t, server.Client, "q", fairlimit.PerSecond(50)), within(t, 4*time.Second), newCrowd(t)
		one, err := q.Flow("one", 1)
		require.NoError(t, err)
		other, err := q.Flow("other", 1)
		require.NoError(t, err)
		busy(ctx, other, 10)
		time.Sleep(time.Second)
		for i := range 40 {
			c.call(t.Context(), one, 1+i%10/9*5) // one, and a large one now and then
			synctest.Wait()
		}
		c.inOrder()
		<-ctx.Done()
	})
}

// Callers that were requeued waited behind those that came new.
func TestWhoWasRequeuedGoesBeforeWhoComesNew(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		all, c := processes(t, server, 3, fairlimit.Every(time.Second)), newCrowd(t)
		for range 8 {
			c.line(all[0], 1)
			c.line(all[1], 1)
		}
		time.Sleep(2500 * time.Millisecond)
		require.NoError(t, all[2].Requeue(t.Context()))
		for range 4 { // with the quota that the others wait for
			c.line(all[0], 1)
			c.line(all[2], 1)
			time.Sleep(100 * time.Millisecond)
		}
		c.gone()
		for i := range 16 {
			assert.InDelta(t, float64(i), c.went[i].at.Seconds(), 0.1, i)
		}
	})
}

// A caller behind one that has to wait until it may ask waited for that moment,
// only to be refused then.
func TestWhoeverStandsBehindOneThatMayNotAskIsToldAtOnce(t *testing.T) {
	each(t, map[string]func(t *testing.T, q *fairlimit.Queue) (in *fairlimit.Queue){
		"a requeue a moment ago": func(t *testing.T, q *fairlimit.Queue) *fairlimit.Queue {
			reserve(t, q, 1)
			reserve(t, q, 1)
			require.NoError(t, q.Requeue(t.Context()))
			return q
		},
		"a flow without room": func(t *testing.T, q *fairlimit.Queue) *fairlimit.Queue {
			one, err := q.Flow("one", 1)
			require.NoError(t, err)
			other, err := q.Flow("other", 1)
			require.NoError(t, err)
			reserve(t, other, 1)
			reserve(t, one, 1)
			return one
		},
	}, func(t *testing.T, server *redistest.MiniServer, held func(*testing.T, *fairlimit.Queue) *fairlimit.Queue) {
		q := held(t, queueOf(t, server.Client, "q", fairlimit.Every(10*time.Second)))
		ctx, leave := context.WithCancel(t.Context())
		first, began := waits(ctx, q), time.Now()
		assert.False(t, allow(t, q))
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, q.Wait(within(t, 200*time.Millisecond)), &refused)
		assert.Greater(t, refused.Wait, 200*time.Millisecond)
		assert.Zero(t, time.Since(began))
		leave()
		require.ErrorIs(t, <-first, context.Canceled)
	})
}
