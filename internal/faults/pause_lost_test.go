package faults_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// queue is a limiter as it pauses.
func queue(
	t *testing.T, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	t.Helper()
	return named(t, rdb, name, quota, opts...).(*fairlimit.Queue)
}

// isHeld checks that nobody goes with a limiter that was told to pause,
// whatever Redis knows of that.
func isHeld(t *testing.T, l *fairlimit.Queue) {
	t.Helper()
	allowed, err := l.Allow(t.Context())
	require.NoError(t, err)
	assert.False(t, allowed)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	start := time.Now()
	err = l.Wait(ctx)
	require.ErrorIs(t, err, fairlimit.ErrPaused)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 5*time.Second, "it is refused, and does not sleep")
}

func TestAPauseLostOnTheWayHoldsItsOwnProcess(t *testing.T) {
	t.Parallel()
	for _, how := range losses {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			proxy, direct := redistest.StartProxy(t), redistest.Standalone(t)
			rdb := proxy.Client(&redis.Options{Addr: direct.Options().Addr, ReadTimeout: 300 * time.Millisecond})
			name := redistest.Name(t)
			quota := fairlimit.PerHour(10)
			own, other := queue(t, rdb, name, quota), queue(t, direct, name, quota)
			require.NoError(t, other.Wait(t.Context()))
			require.NoError(t, own.Wait(t.Context()))
			status(t, other) // the scripts are loaded
			require.NoError(t, queue(t, direct, redistest.Name(t), quota).Pause(t.Context(), time.Hour))

			runs := sent(proxy)
			proxy.Lose(1, "evalsha", how)
			err := own.Pause(t.Context(), time.Minute)
			require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
			assert.EqualValues(t, 1, runs.Load(), "it is not sent again")
			arrived := how != redistest.Unsent
			assert.Equal(t, arrived, status(t, other).Paused > 0)
			isHeld(t, own)
			if arrived {
				isHeld(t, other)
			} else {
				require.NoError(t, other.Wait(t.Context()), "nobody has told it")
			}

			require.NoError(t, own.Pause(t.Context(), time.Minute), "it may be sent again")
			isHeld(t, other)
			left := status(t, other)
			assert.InDelta(t, time.Minute, left.Paused, float64(10*time.Second))
			assert.Zero(t, left.Queued, "whoever was refused has given back")
		})
	}
}

func TestAPauseOfAQueueThatIsNotThereHoldsEverybody(t *testing.T) {
	t.Parallel()
	const within = 100 * time.Millisecond
	rdb := redistest.Standalone(t)
	for what, prepare := range map[string]func(t *testing.T, l *fairlimit.Queue){
		"no key": func(*testing.T, *fairlimit.Queue) {},
		"nobody queued": func(t *testing.T, l *fairlimit.Queue) {
			require.NoError(t, l.WaitN(t.Context(), 10))
			r, err := l.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, r.Cancel(t.Context()))
		},
		"a queue that was reset": func(t *testing.T, l *fairlimit.Queue) {
			require.NoError(t, l.Wait(t.Context()))
			require.NoError(t, l.Reset(t.Context()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name, quota := redistest.Name(t), fairlimit.Quota{Permits: 10, Per: 200 * time.Millisecond}
			own := queue(t, rdb, name, quota, fairlimit.WithPauseWithin(within))
			prepare(t, own)
			start := time.Now()
			require.NoError(t, own.Pause(t.Context(), time.Second))
			stranger := queue(t, rdb, name, quota, fairlimit.WithPauseWithin(within))
			allowed, err := stranger.Allow(t.Context())
			require.NoError(t, err)
			left := status(t, stranger).Paused
			if time.Since(start) < time.Second {
				assert.False(t, allowed)
				assert.Positive(t, left)
			}
			require.NoError(t, stranger.Wait(t.Context()))
			assert.GreaterOrEqual(t, time.Since(start), time.Second)
			assert.Zero(t, status(t, stranger).Paused)
		})
	}
}

func TestAPauseOverWhatANeighbourLeftIsAnErrorAndHoldsItsOwnProcess(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	for what, text := range map[string]string{"nothing": "", "garbage": "fair9 ?"} {
		name := redistest.Name(t)
		own := queue(t, rdb, name, fairlimit.PerHour(10))
		require.NoError(t, rdb.Set(t.Context(), limitertest.Key(name), text, time.Hour).Err())
		require.ErrorIs(t, own.Pause(t.Context(), time.Minute), fairlimit.ErrState, what)
		assert.Equal(t, text, rdb.Get(t.Context(), limitertest.Key(name)).Val(), "it is left as it is")
		allowed, err := own.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		require.NoError(t, own.Reset(t.Context()))
		require.NoError(t, own.Wait(t.Context()), "which ends the pause, too")
	}
}

// TestAPauseComesBackAfterAFlush has those tell the server of it who paused the
// queue, or who have heard of it.
func TestAPauseComesBackAfterAFlush(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	for _, who := range []string{"who paused it", "who was refused", "who asked how it stands"} {
		// What was lost counts as full, for a Per.
		name, quota := redistest.Name(t), fairlimit.Quota{Permits: 10, Per: 100 * time.Millisecond}
		own, other := queue(t, server.Client(), name, quota), queue(t, server.Client(), name, quota)
		require.NoError(t, own.Wait(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
		require.NoError(t, own.Pause(t.Context(), time.Minute))
		knows := other
		switch who {
		case "who paused it":
			knows = own
		case "who was refused":
			isHeld(t, other)
		default:
			status(t, other)
		}
		require.NoError(t, server.Client().FlushAll(t.Context()).Err())
		isHeld(t, own)
		status(t, knows)
		stranger := queue(t, server.Client(), name, quota)
		assert.InDelta(t, time.Minute, status(t, stranger).Paused, float64(10*time.Second), who)
		isHeld(t, stranger)
	}
}

// TestAPauseOutlivesItsServer promotes a replica that has not heard of the
// pause.
func TestAPauseOutlivesItsServer(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Pair(t)
	var addr atomic.Value
	addr.Store(primary.Addr())
	rdb := redis.NewClient(&redis.Options{
		Addr: primary.Addr(),
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
		},
	})
	defer redistest.Close(rdb)
	name, quota := redistest.Name(t), fairlimit.PerHour(100)
	own, other := queue(t, rdb, name, quota), queue(t, rdb, name, quota)
	conn := primary.Client().Conn() // WAIT waits for what its own connection wrote, and what was before
	defer func() { _ = conn.Close() }()
	require.NoError(t, own.Wait(t.Context()))
	require.NoError(t, other.Wait(t.Context()))
	require.NoError(t, conn.Set(t.Context(), "seen", "", time.Minute).Err())
	require.EqualValues(t, 1, conn.Wait(t.Context(), 1, 10*time.Second).Val())
	replica.Pause()
	require.NoError(t, primary.Client().Do(t.Context(), "client", "kill", "type", "replica").Err())
	require.NoError(t, own.Pause(t.Context(), time.Minute))
	primary.Kill()
	addr.Store(replica.Addr())
	isHeldAnyway, err := own.Allow(t.Context()) // no server is there
	require.NoError(t, err)
	assert.False(t, isHeldAnyway)
	replica.Resume()
	require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Zero(t, status(t, other).Paused, "the replica has not heard of it")
	isHeld(t, own)
	assert.Positive(t, status(t, other).Paused, "it has come back")
	isHeld(t, other)
	assert.Equal(t, 0, status(t, other).Queued)
}

// TestAPauseReachesAServerThatStandsStill stops the server before it gets the
// question.
func TestAPauseReachesAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	name, quota := redistest.Name(t), fairlimit.PerHour(10)
	own, other := queue(t, server.Client(), name, quota), queue(t, server.Client(), name, quota)
	require.NoError(t, own.Wait(t.Context()))
	require.NoError(t, other.Wait(t.Context()))
	bystander := standBy(t)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := own.Pause(ctx, time.Minute)
	bystander.prompt(t, start, 200*time.Millisecond, "Pause")
	require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	allowed, err := own.Allow(t.Context())
	require.NoError(t, err, "nobody is asked")
	assert.False(t, allowed)
	server.Resume()
	assert.Eventually(t, func() bool { return status(t, other).Paused > 0 }, 10*time.Second, time.Millisecond)
	isHeld(t, own)
	isHeld(t, other)
}

// TestASilentRedisLetsThoseGoWhoWereGranted stops the server before callers
// look whether their turns still stand. A turn that was granted is a turn.
func TestASilentRedisLetsThoseGoWhoWereGranted(t *testing.T) {
	t.Parallel()
	// No turn comes when the answer that granted it is just too old to go by:
	// whoever woke a little late would look then, and wait for that. The third
	// turn is 60 ms from there, and the fourth 110 less what asking took.
	const within, callers, interval = 400 * time.Millisecond, 10, 170 * time.Millisecond
	server := redistest.StartServer(t)
	var confirmed, not atomic.Int64
	l := queue(t, server.Client(), redistest.Name(t), fairlimit.Every(interval), fairlimit.WithPauseWithin(within),
		fairlimit.WithTrace(&fairlimit.Trace{Taken: func(_ int, _ time.Duration, c bool) {
			if c {
				confirmed.Add(1)
			} else {
				not.Add(1)
			}
		}}))
	var all sync.WaitGroup
	start := time.Now()
	bystander := standBy(t)
	for i := range callers {
		r, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		patience := r.Delay()
		asked := time.Now()
		all.Go(func() {
			assert.NoError(t, r.Wait(t.Context()))
			assert.GreaterOrEqual(t, time.Since(start), time.Duration(i)*interval)
			bystander.prompt(t, asked, patience, "Wait")
		})
	}
	server.Pause()
	all.Wait()
	server.Resume()
	t.Logf("%d went on news, %d on their turn alone", confirmed.Load(), not.Load())
	assert.Positive(t, not.Load())
	assert.EqualValues(t, callers, confirmed.Load()+not.Load())
}
