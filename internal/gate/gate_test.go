package gate_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/gate"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// pausing is a limiter whose Pause is the test's.
type pausing struct {
	fairlimit.Limiter
	pause func(ctx context.Context, d time.Duration) error
}

func (p pausing) Pause(ctx context.Context, d time.Duration) error { return p.pause(ctx, d) }

// unpausing is a limiter that cannot pause, as one on window is.
type unpausing struct{ fairlimit.Limiter }

// inBubble runs f with a gate before a limiter that cannot pause.
func inBubble(t *testing.T, quota fairlimit.Quota, f func(t *testing.T, g *gate.Gate, l unpausing)) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		f(t, new(gate.Gate), unpausing{limitertest.New(t, rdb, quota)})
	})
}

// enter lets callers in one after the other and returns when they came through,
// counted from start.
func enter(t *testing.T, g *gate.Gate, l gate.Waiter, start time.Time, callers int) []time.Duration {
	t.Helper()
	through := make([]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			assert.NoError(t, g.Enter(t.Context(), l, 1))
			through[i] = time.Since(start)
		})
		synctest.Wait()
	}
	wg.Wait()
	return through
}

// Who of those that wake at one moment asks first is open.
func TestATurnThatComesDuringAPauseIsNotUsed(t *testing.T) {
	inBubble(t, fairlimit.Every(10*time.Second), func(t *testing.T, g *gate.Gate, l unpausing) {
		start := time.Now()
		time.AfterFunc(15*time.Second, func() { g.Shut(t.Context(), l, time.Minute, nil) })
		through := enter(t, g, l, start, 4)
		assert.Equal(t, []time.Duration{0, 10 * time.Second}, through[:2])
		assert.ElementsMatch(t, []time.Duration{75 * time.Second, 85 * time.Second}, through[2:])
	})
}

func TestTheLongestPauseCounts(t *testing.T) {
	inBubble(t, fairlimit.PerSecond(5), func(t *testing.T, g *gate.Gate, l unpausing) {
		start := time.Now()
		g.Shut(t.Context(), l, time.Minute, nil)
		g.Shut(t.Context(), l, time.Second, nil)
		require.NoError(t, g.Enter(t.Context(), l, 0), "no permits need no turn")
		time.AfterFunc(30*time.Second, func() { g.Shut(t.Context(), l, time.Minute, nil) })
		assert.Equal(t, []time.Duration{90 * time.Second}, enter(t, g, l, start, 1), "those who sleep hear of it")
	})
}

func TestWhoeverCannotWaitOutAPauseLeavesAtOnce(t *testing.T) {
	inBubble(t, fairlimit.PerSecond(5), func(t *testing.T, g *gate.Gate, l unpausing) {
		start := time.Now()
		g.Shut(t.Context(), l, time.Minute, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		err := g.Enter(ctx, l, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, time.Minute, refused.Wait)
		assert.Zero(t, time.Since(start))

		leaving, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(assert.AnError) })
		err = g.Enter(leaving, l, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, assert.AnError)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 5, limitertest.Status(t, l).Available)

		longer, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, g.Enter(longer, l, 1))
	})
}

type key struct{}

// Redis does not answer.
func TestASlowPauseGoesOnWithoutItsCaller(t *testing.T) {
	for patience, stays := range map[time.Duration]time.Duration{
		20 * time.Millisecond: 20 * time.Millisecond, time.Minute: 100 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			l := pausing{pause: func(ctx context.Context, pause time.Duration) error {
				assert.Equal(t, time.Minute, pause)
				assert.Equal(t, "value", ctx.Value(key{}), "a trace goes on")
				<-ctx.Done()
				return ctx.Err()
			}}
			told := make(chan error, 1)
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), patience)
			new(gate.Gate).Shut(ctx, l, time.Minute, func(err error) { told <- err })
			assert.Equal(t, stays, time.Since(start))
			cancel()
			require.ErrorIs(t, <-told, context.DeadlineExceeded)
			assert.Equal(t, 5*time.Second, time.Since(start))
		})
	}
}

func TestAPauseThatIsRecordedLeavesTheRestToTheLimiter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := &limitertest.Pausing{Queue: limitertest.New(t, rdb, fairlimit.PerSecond(5))}
		var g gate.Gate
		start := time.Now()
		g.Shut(t.Context(), l, time.Minute, func(err error) { t.Error(err) })
		assert.Equal(t, []time.Duration{time.Minute}, l.Pauses())
		assert.Equal(t, []time.Duration{0}, enter(t, &g, l, start, 1))
	})
}

func TestAPauseThatFailsShutsTheGateFromTheCallOn(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		l := pausing{
			Limiter: limitertest.New(t, rdb, fairlimit.PerSecond(5)),
			pause:   func(context.Context, time.Duration) error { time.Sleep(2 * time.Second); return assert.AnError },
		}
		var g gate.Gate
		told := make(chan error, 1)
		start := time.Now()
		g.Shut(t.Context(), l, time.Minute, func(err error) { told <- err })
		require.ErrorIs(t, <-told, assert.AnError)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, []time.Duration{time.Minute}, enter(t, &g, l, start, 1))
	})
}

// bare is a limiter that can do nothing but wait.
type bare struct{ fairlimit.Limiter }

func (b bare) WaitN() {}

func TestWhatCannotBeAskedIsAnError(t *testing.T) {
	inBubble(t, fairlimit.PerSecond(5), func(t *testing.T, g *gate.Gate, l unpausing) {
		require.ErrorIs(t, g.Enter(t.Context(), nil, 1), fairlimit.ErrInvalidOption)
		require.ErrorIs(t, g.Enter(t.Context(), l, -1), fairlimit.ErrInvalidPermits)
		require.ErrorIs(t, g.Enter(t.Context(), bare{l}, 2), fairlimit.ErrUnsupported)
		_, err := g.Take(t.Context(), nil, nil)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
		_, err = g.Take(t.Context(), l, nil)
		require.ErrorIs(t, err, fairlimit.ErrUnsupported)
		assert.Equal(t, 5, limitertest.Status(t, l).Available)
		require.NoError(t, g.Enter(t.Context(), bare{l}, 1))
		require.NoError(t, g.Enter(t.Context(), l, 2))
		assert.Equal(t, 2, limitertest.Status(t, l).Available)
	})
}
