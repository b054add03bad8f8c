package fairlimit_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/window"
)

func TestACallerOfAFlowIsRefusedAtOnceOnlyIfTheWholeQuotaWouldNotDo(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		quota := fairlimit.Every(50 * time.Millisecond)
		c.call(ctx, "other", flowOf(t, rdb, quota, "other", 1), 10)
		q := flowOf(t, rdb, quota, "q", 1, fairlimit.WithMaxWait(2*time.Second))
		patient := flowOf(t, rdb, quota, "p", 1)
		time.Sleep(time.Second)
		var mu sync.Mutex
		got, refused := 0, map[time.Duration]int{}
		for range 100 {
			began := time.Now()
			c.group.Go(func() {
				err := q.Wait(ctx)
				var r *fairlimit.RefusedError
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got++
				} else if assert.ErrorAs(t, err, &r) {
					refused[time.Since(began)]++
				}
			})
			time.Sleep(time.Microsecond)
		}
		time.Sleep(3 * time.Second)
		mu.Lock()
		assert.InDelta(t, 16, got, 2, "half of the quota, after one look-ahead, up to two seconds")
		assert.GreaterOrEqual(t, refused[0], 45, "the line alone was too long for them")
		assert.Equal(t, 100, got+func() (n int) {
			for waited, count := range refused {
				assert.LessOrEqual(t, waited, 2*time.Second)
				n += count
			}
			return n
		}())
		mu.Unlock()

		early, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		errs := waits(early, patient, 6)
		for range 6 {
			if err := <-errs; err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
		stop()
		c.group.Wait()
	})
}

func TestAllowOfAFlowTakesNoShareOfOthers(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := flow(t, rdb, "q", 1)
		ok, err := q.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, ok, "nobody is there")
		ok, err = q.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok, "it is not due")

		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var c tally
		c.call(ctx, "other", flow(t, rdb, "other", 1), 10)
		time.Sleep(time.Second)
		allowed := 0
		for ctx.Err() == nil {
			if ok, _ := q.Allow(ctx); ok {
				allowed++
			}
			time.Sleep(20 * time.Millisecond)
		}
		c.group.Wait()
		assert.LessOrEqual(t, allowed, 5)
		assert.GreaterOrEqual(t, c.count("other"), 90)
	})
}

func TestReservationsOfAFlowCountUntilTheirSlot(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		eight := fairlimit.WithLookAhead(8)
		c.call(ctx, "other", flow(t, rdb, "other", 1, eight), 10)
		time.Sleep(time.Second)
		q := flow(t, rdb, "q", 1, eight)
		var held []*fairlimit.Reservation
		for range 4 {
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
		}
		next := func() time.Duration {
			began := time.Now()
			r, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
			return time.Since(began)
		}
		slept := held[0].Delay()
		assert.Equal(t, slept, next(), "four are its share, so a fifth waits for the first slot")
		assert.Positive(t, slept)
		require.NoError(t, held[2].Cancel(t.Context()))
		assert.Zero(t, next(), "one was given back")
		require.NoError(t, held[1].Wait(t.Context()))
		assert.Zero(t, next(), "one has gone")
		stop()
		c.group.Wait()
		time.Sleep(time.Minute)
	})
}

func TestMaxQueuedCountsTheLineOfAFlow(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		q := flow(t, rdb, "a", 1, fairlimit.WithMaxQueued(30))
		other, err := q.Flow("b", 1)
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		errs := make(chan error, 31)
		for range 31 {
			go func() { errs <- q.Wait(ctx) }()
			time.Sleep(time.Microsecond)
		}
		require.NoError(t, <-errs, "one was due")
		for range 1 {
			go func() { errs <- q.Wait(ctx) }()
			time.Sleep(time.Microsecond)
		}
		require.ErrorIs(t, <-errs, fairlimit.ErrTooManyQueued)
		require.NoError(t, other.Wait(ctx), "another flow counts its own")
		stop()
		for range 30 {
			<-errs
		}
	})
}

func TestFlowsArePausedAndResetWithTheirQueue(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var c tally
		began := time.Now()
		a, b := flow(t, rdb, "a", 1), flow(t, rdb, "b", 1)
		c.call(ctx, "a", a, 10)
		c.call(ctx, "b", b, 10)
		time.Sleep(5 * time.Second)
		assert.LessOrEqual(t, c.widest(began.Add(time.Second), time.Now(), "a", 1, "b", 1), 4)
		require.NoError(t, a.Pause(ctx, 10*time.Second))
		before := c.count("a") + c.count("b")
		time.Sleep(9 * time.Second)
		assert.LessOrEqual(t, c.count("a")+c.count("b")-before, 20, "those who go within X")
		time.Sleep(6 * time.Second) // until 20 s: five of them after the pause
		assert.LessOrEqual(t, c.widest(began.Add(time.Second), time.Now(), "a", 1, "b", 1), 4+4,
			"and those of b who go within X")
		require.NoError(t, b.Reset(ctx))
		<-ctx.Done()
		c.group.Wait()
		all := c.count("a") + c.count("b")
		assert.LessOrEqual(t, c.widest(began.Add(22*time.Second), time.Now(), "a", 1, "b", 1), 4, "as before")
		assert.LessOrEqual(t, c.widest(began.Add(19*time.Second), time.Now(), "a", 1, "b", 1), 4+8,
			"and a look-ahead, as the first to line up again is alone")
		assert.InDelta(t, 400, all, 25, "twenty seconds without the pause")
		assert.Equal(t, 30*time.Second, time.Since(began))
	})
}

func TestFlowsObeyStoredQuotas(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		seconds := redistest.Long(5, 10)
		each := time.Duration(seconds) * time.Second
		ctx, stop := context.WithTimeout(t.Context(), 6*each)
		defer stop()
		var c tally
		quota := fairlimit.Every(50 * time.Millisecond)
		a := flowOf(t, rdb, quota, "a", 1, fairlimit.WithStoredQuota())
		c.call(ctx, "a", a, 10)
		c.call(ctx, "b", flowOf(t, rdb, quota, "b", 1, fairlimit.WithStoredQuota()), 10)
		began := time.Now()
		time.Sleep(each)
		assert.LessOrEqual(t, c.widest(began.Add(time.Second), time.Now(), "a", 1, "b", 1), 4, "a share")
		require.InDelta(t, 20*seconds, c.count("a")+c.count("b"), 2)
		require.NoError(t, a.SetQuotas(ctx, fairlimit.Every(500*time.Millisecond)))
		time.Sleep(each)
		require.InDelta(t, 22*seconds, c.count("a")+c.count("b"), 12, "narrower")
		require.NoError(t, a.SetQuotas(ctx, fairlimit.Every(25*time.Millisecond)))
		time.Sleep(each) // the turns held come first
		widened, wide := time.Now(), c.count("a")+c.count("b")
		time.Sleep(each)
		require.InDelta(t, wide+40*seconds, c.count("a")+c.count("b"), 2, "wider")
		require.ErrorIs(t, a.WaitN(ctx, 2), fairlimit.ErrExceedsQuota)
		assert.LessOrEqual(t, c.widest(widened, time.Now(), "a", 1, "b", 1), 4, "a share")
		stop()
		c.group.Wait()
	})
}

func TestATurnOfAFlowThatIsNotReplicatedCountsNoMore(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t) // without replicas
	q, err := fairlimit.NewQueue(rdb, redistest.Name(t), fairlimit.Every(time.Hour), fairlimit.WithGuard(0),
		fairlimit.WithFlow("a", 1),
		fairlimit.WithReplicas(1))
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, q.Wait(t.Context()), fairlimit.ErrNotReplicated)
	}
	s, err := q.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, fairlimit.Status{Available: 1}, s)
}

func TestFlowsGoOnWhenTheStateIsLost(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		var c tally
		c.call(ctx, "a", flow(t, rdb, "a", 1), 10)
		c.call(ctx, "b", flow(t, rdb, "b", 1), 10)
		for range 3 {
			time.Sleep(5 * time.Second)
			require.NoError(t, rdb.FlushAll(ctx).Err())
		}
		c.group.Wait()
		assert.InDelta(t, c.count("a"), c.count("b"), 20)
		assert.InDelta(t, 400, c.count("a")+c.count("b"), 3*20+5, "at most a Per is lost each time")
	})
}

func TestCallersWithoutAFlowStandInTheQueueAsItIs(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		var c tally
		began := time.Now()
		q := fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1}
		plain, err := fairlimit.NewQueue(rdb, "shared", q, fairlimit.WithGuard(0))
		require.NoError(t, err)
		c.call(ctx, "plain", plain, 4)
		c.call(ctx, "a", flow(t, rdb, "a", 1), 50)
		b, err := plain.Flow("b", 1) // and flows of the same value
		require.NoError(t, err)
		c.call(ctx, "b", b, 50)
		c.group.Wait()
		assert.LessOrEqual(t, c.widest(began.Add(2*time.Second), time.Now(), "a", 1, "b", 1), 4,
			"the flows share what is left")
		assert.InDelta(t, 133, c.count("plain"), 10, "four turns ahead beside eight of the flows")
		assert.GreaterOrEqual(t, c.count("plain")+c.count("a")+c.count("b"), 396)
	})
}

func TestATurnOfAFlowWhoseAnswerCameTooLateCountsNoMore(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		client := redis.NewClient(rdb.Options())
		defer func() { assert.NoError(t, client.Close()) }()
		q := flow(t, client, "a", 1)
		plain, err := fairlimit.NewQueue(rdb, "shared", fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1},
			fairlimit.WithGuard(0))
		require.NoError(t, err)
		require.NoError(t, q.Wait(t.Context())) // the script is there
		time.Sleep(time.Second)
		client.AddHook(late{by: 200 * time.Millisecond})
		for range 8 {
			for range 2 { // so that the next turn is 100 ms away
				_, err := plain.ReserveN(t.Context(), 1)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
			var r *fairlimit.RefusedError
			require.ErrorAs(t, q.Wait(ctx), &r, "it was granted, and would come too late")
			cancel()
			time.Sleep(time.Second)
		}
		began := time.Now()
		for range 8 {
			_, err := q.ReserveN(t.Context(), 1)
			require.NoError(t, err)
		}
		assert.Equal(t, 8*200*time.Millisecond, time.Since(began), "all of its share")
		time.Sleep(time.Minute)
	})
}

// lost is late, and loses every answer as well.
type lost struct{ late }

func (l lost) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	held := l.late.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = held(ctx, cmd)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

// A refusal says that nothing was consumed.
func TestACallerOfAFlowWhoseAnswerIsLostAsItsWaitEndsIsNotRefused(t *testing.T) {
	t.Parallel()
	for what, by := range map[string]time.Duration{"as it ends": 0, "shortly after": 10 * time.Millisecond} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				client := redis.NewClient(rdb.Options())
				defer func() { assert.NoError(t, client.Close()) }()
				q := flow(t, client, "a", 1, fairlimit.WithMaxWait(time.Second))
				require.NoError(t, q.Wait(t.Context())) // the script is there
				client.AddHook(lost{late{by: time.Second + by}})
				err := q.Wait(t.Context())
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
				require.NotErrorAs(t, err, new(*fairlimit.RefusedError))
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestFlowsFallBackWithTheirLimiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	q, err := fairlimit.NewQueue(rdb, "shared", fairlimit.PerSecond(1), fairlimit.WithFallback(fairlimit.FailOpen),
		fairlimit.WithFlow("a", 1))
	require.NoError(t, err)
	errs := waits(t.Context(), q, 4)
	for range 4 {
		require.NoError(t, <-errs)
	}
}

func TestFlowsAreCheckedWhereTheyAreMade(t *testing.T) {
	t.Parallel()
	rdb := redistest.Nowhere(t)
	for _, c := range []struct {
		option fairlimit.Option
		errs   []error
	}{
		{fairlimit.WithFlow("", 1), []error{fairlimit.ErrInvalidOption, fairlimit.ErrInvalidFlow}},
		{fairlimit.WithFlow("a", 0), []error{fairlimit.ErrInvalidOption, fairlimit.ErrInvalidFlow}},
		{fairlimit.WithFlow("a", 1001), []error{fairlimit.ErrInvalidOption, fairlimit.ErrInvalidFlow}},
		{fairlimit.WithLookAhead(0), []error{fairlimit.ErrInvalidOption}},
		{fairlimit.WithLookAhead(9), []error{fairlimit.ErrInvalidOption}}, // without a flow
	} {
		_, err := fairlimit.New(rdb, "a", fairlimit.PerSecond(1), c.option)
		for _, want := range c.errs {
			require.ErrorIs(t, err, want)
		}
	}
	_, err := fairlimit.New(rdb, "a", fairlimit.PerSecond(1), fairlimit.WithFlow("a", 1),
		fairlimit.WithEngine(window.New))
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.New(rdb, "a", fairlimit.PerSecond(1), fairlimit.WithLookAhead(9), fairlimit.WithFlow("a", 1))
	require.NoError(t, err)
	q, err := fairlimit.NewQueue(rdb, "a", fairlimit.PerSecond(1), fairlimit.WithLookAhead(9))
	require.NoError(t, err)
	_, err = q.Flow("", 1)
	require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
	_, err = q.Flow("a", -1)
	require.ErrorIs(t, err, fairlimit.ErrInvalidFlow)
}
