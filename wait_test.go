package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestATurnAfterTheDeadlineIsRefusedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(time.Hour), e)
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		before := status(t, l)

		ctx := within(t, 30*time.Minute)
		start := time.Now()
		err = l.Wait(ctx)
		assert.Less(t, time.Since(start), 10*time.Second)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &refused)
		assert.InDelta(t, time.Hour, refused.Wait, float64(10*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, errors.Is(err, context.Canceled))

		after := status(t, l)
		assert.Equal(t, before.Queued, after.Queued)
		assert.LessOrEqual(t, after.Delay, before.Delay, "a refusal consumes nothing")
	})
}

func TestTheTimeInLineCountsAgainstTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newStub(t)
		lineUp(t.Context(), l, 1, 1)
		first := <-e.calls
		ctx := within(t, 3*time.Second)
		errs := lineUp(ctx, l, 2, 2)
		time.Sleep(time.Second)
		first.grants(1)
		second := <-e.calls
		assert.Equal(t, 2*time.Second, second.requests[0].MaxWait)
		second.grants(1)
		require.NoError(t, <-errs)
	})
}

func TestAnAnswerThatComesTooLateIsARefusalAtOnce(t *testing.T) {
	for what, answer := range map[string]engine.Answer{
		"a turn":                 granted(2500*time.Millisecond, 1),
		"where nobody has turns": refused(2500 * time.Millisecond),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := newStub(t)
				e.queues = answer.Granted
				ctx := within(t, 3*time.Second)
				start := time.Now()
				errs := lineUp(ctx, e.limiter(t), 1, 1)
				c := <-e.calls
				time.Sleep(time.Second)
				c.answers(answer)
				var refused *fairlimit.RefusedError
				require.ErrorAs(t, <-errs, &refused)
				assert.Equal(t, 2500*time.Millisecond, refused.Wait)
				assert.Equal(t, time.Second, time.Since(start))
				assert.Equal(t, answer.Granted, len(e.givenBack()) == 1)
			})
		})
	}
}

func TestWhoIsRefusedForNowSleepsAndAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		e.queues = false
		l := e.limiter(t, fairlimit.WithMaxWait(10*time.Second))
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(refused(4 * time.Second))
		again := <-e.calls
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 6*time.Second, again.requests[0].MaxWait, "what is left of its patience")
		again.answers(refused(7 * time.Second))
		require.ErrorAs(t, <-errs, new(*fairlimit.RefusedError))
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}

// Redis may have granted a turn to whoever has had no answer within its MaxWait.
func TestWhoeverHasNoAnswerWithinMaxWaitIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newStub(t)
		errs := lineUp(t.Context(), e.limiter(t, fairlimit.WithMaxWait(time.Second), fairlimit.WithRetry()), 1, 1)
		asked := <-e.calls
		err := <-errs
		require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
		require.False(t, errors.As(err, new(*fairlimit.RefusedError)))
		asked.answers(granted(0, 1))
		synctest.Wait()
		assert.Len(t, e.givenBack(), 1)
	})
}

// losesNext has an answer lost, the first one that it counts down to.
type losesNext struct {
	commands
	in   int
	then func() // what happens next
}

func (l *losesNext) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.in--; l.in == 0 {
			err = io.EOF
			cmd.SetErr(err)
			l.then()
		}
		return err
	}
}

// The lost answer had granted turns. The call is sent again, and granted none.
func TestWhoeverLostAnAnswerIsNotToldThatNothingWasConsumed(t *testing.T) {
	type called struct {
		*losesNext
		one, other *fairlimit.Queue
	}
	for what, ask := range map[string]func(context.Context, called) error{
		"Wait, refused": func(ctx context.Context, c called) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return c.one.Wait(ctx)
		},
		"ReserveN, refused": func(ctx context.Context, c called) error {
			_, err := c.one.ReserveN(ctx, 1)
			return err
		},
		"Wait, a narrower quota": func(ctx context.Context, c called) error {
			c.then = func() { assert.NoError(t, c.other.SetQuotas(ctx, fairlimit.Every(time.Hour))) }
			err := c.one.WaitN(ctx, 2)
			assert.ErrorIs(t, err, fairlimit.ErrExceedsQuota)
			return err
		},
		"Wait of a Reservation, refused": func(ctx context.Context, c called) error {
			c.in = -1
			require.NoError(t, c.other.Reset(ctx))
			require.NoError(t, c.other.WaitN(ctx, 2))
			time.Sleep(15 * time.Second)
			r, err := c.one.ReserveN(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, c.other.Reset(ctx))
			require.NoError(t, c.other.Wait(ctx))
			_, err = c.one.Status(ctx)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			c.in = 1
			return r.Wait(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				client := redis.NewClient(rdb.Options())
				defer func() { assert.NoError(t, client.Close()) }()
				quota := fairlimit.Quota{Permits: 2, Per: 30 * time.Second}
				one := queueOf(t, client, "q", quota,
					fairlimit.WithRetry(), fairlimit.WithMaxWait(20*time.Second), fairlimit.WithStoredQuota())
				c := called{&losesNext{in: 1, then: func() {}}, one, queueOf(t, rdb, "q", quota)}
				require.NoError(t, c.one.Wait(t.Context())) // the script is there
				require.NoError(t, c.one.Reset(t.Context()))
				if !strings.Contains(what, "narrower") {
					require.NoError(t, c.one.Wait(t.Context()))
				}
				client.AddHook(c.losesNext)
				err := ask(t.Context(), c)
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
				require.NotErrorAs(t, err, new(*fairlimit.RefusedError))
				s, err := c.other.Status(t.Context())
				require.NoError(t, err)
				require.Zero(t, s.Available)
			})
		})
	}
}

func TestATurnThatIsDueAtOnceIsTakenOnNewNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb, name := m.NewClient(t), redistest.Name(t)
		var way onTheWay
		rdb.AddHook(&way)
		one, other := queueOf(t, rdb, name, fairlimit.PerSecond(5)), queueOf(t, m.Client, name, fairlimit.PerSecond(5))
		require.NoError(t, one.Wait(t.Context()))
		way.back.Store(int64(3 * time.Second))
		start, went := time.Now(), make(chan time.Duration)
		go func() {
			assert.NoError(t, one.Wait(t.Context()))
			went <- time.Since(start)
		}()
		time.Sleep(time.Second)
		require.NoError(t, other.Pause(t.Context(), 10*time.Second))
		require.GreaterOrEqual(t, <-went, 11*time.Second, "the pause began while the answer was on its way")
	})
}

// TestNobodyGoesEarly holds the moments at which callers go against the
// earliest that the quota allows.
func TestNobodyGoesEarly(t *testing.T) {
	t.Parallel()
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		const interval, callers = 20 * time.Millisecond, 50
		l := limiter(t, rdb, fairlimit.Every(interval))
		start := time.Now() // the first turn lies after it, and every other one an interval further
		went := make([]time.Duration, callers)
		var wg sync.WaitGroup
		for i := range went {
			wg.Go(func() {
				assert.NoError(t, l.Wait(t.Context()))
				went[i] = time.Since(start)
			})
		}
		wg.Wait()
		slices.Sort(went)
		for i, at := range went {
			assert.GreaterOrEqual(t, at, time.Duration(i)*interval, "caller %d", i)
		}
	})
}

func TestAllowTellsThatItsTurnMayHavePassed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		answer, missed := time.Duration(0), 0
		rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			defer time.Sleep(answer)
			return next(ctx, cmd)
		}))
		trace := &fairlimit.Trace{Missed: func(int, time.Duration) { missed++ }}
		q := queueOf(t, rdb, "a", fairlimit.PerSecond(2),
			fairlimit.WithMaxLateness(25*time.Millisecond), fairlimit.WithTrace(trace))
		for i, slow := range []time.Duration{0, 100 * time.Millisecond} {
			answer = slow
			allowed, err := q.Allow(t.Context())
			require.NoError(t, err)
			require.Equal(t, slow == 0, allowed)
			require.Equal(t, i, missed)
		}
		synctest.Wait()
		require.Equal(t, 1, status(t, q).Available, "it was given back")
	})
}

// One question asks for both. Whoever called first goes first.
func TestAllowTakesItsTurnBesideAWaitThatCalledLater(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			time.Sleep(5 * time.Millisecond)
			return next(ctx, cmd)
		}))
		q := queueOf(t, rdb, "a", fairlimit.PerSecond(2), fairlimit.WithMaxLateness(100*time.Millisecond))
		waits := func() { assert.NoError(t, q.Wait(t.Context())) }
		for range 10 {
			var wg sync.WaitGroup
			wg.Go(waits)
			time.Sleep(time.Millisecond)
			wg.Go(func() {
				allowed, err := q.Allow(t.Context())
				assert.NoError(t, err)
				assert.True(t, allowed)
			})
			time.Sleep(time.Millisecond)
			wg.Go(waits)
			wg.Wait()
			time.Sleep(time.Second)
		}
	})
}
