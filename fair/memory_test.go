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

// The pause that was told last counts, even if the replies arrive the other way
// round.
func TestALongerPauseIsNotForgottenForAShorterOne(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		pause(t, f, 10*time.Second)
		early, told := f.memory.watermark, f.memory.news
		pause(t, f, time.Minute)
		f.memory.learn(early, told, f.quotaSet) // arrives late
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(time.Second)
		require.Equal(t, 59*time.Second, status(t, f).Paused)
	})
}

func TestAResetForgetsNothingThatWasGrantedAfterIt(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	f := build(t, rdb, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, f.Reset(t.Context()), "teaches the server the script")
	resets := true
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if resets && cmd.Name() == "evalsha" && err == nil { // answered, and the answer has not arrived
			resets = false
			queued(t, f, 2, 1)
		}
		return err
	}))
	require.NoError(t, f.Reset(t.Context()))
	require.NoError(t, rdb.Del(t.Context(), f.key).Err())
	require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
}

// The queue that a limiter knows has ended. Others begin one of their own, and
// the limiter hears of its clock. That makes its old turns no lost ones.
func TestAQueueThatHasEndedIsNotLostWhenANewOneIsSlow(t *testing.T) {
	w := realWorld(t)
	f, at := w.stored(t)
	other := f.looksFor(t)
	set(t, f, "1/100ms")
	queued(t, f, 1, 1)
	at(time.Minute)
	f.memory.news.Arrived = f.memory.news.Arrived.Add(-time.Minute)
	require.NoError(t, f.client.Del(t.Context(), f.key).Err())
	queued(t, other, 3, 1)
	set(t, f, "1/2s")
	watermark, _ := f.memory.recall("")
	require.Empty(t, watermark)
}
