package fair

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestASlotThatHasPassedIsFreeOnlyIfNobodyUsedIt(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "4/10s 3/2s")...)
		available := func() int {
			s, err := f.Status(t.Context())
			require.NoError(t, err)
			return s.Available
		}
		grants := queued(t, f, 3, 1)
		at(time.Second)
		grants = append(grants, queued(t, f, 1, 1)...)
		at(4 * time.Second)
		require.Zero(t, available())

		giveBack(t, f, grants[0])
		require.Zero(t, available(), "it may have been used")
		grants[1].Unused = true
		giveBack(t, f, grants[1])
		require.Equal(t, 1, available(), "it has left the shorter window and is free in the longer")
		at(10*time.Second + 500*time.Millisecond)
		require.Equal(t, 3, available())
		grants[2].Unused = true
		giveBack(t, f, grants[2])
		require.Equal(t, 3, available(), "what has left every window is not given back to another")
		giveBack(t, f, grants[3])
		grants[3].Unused = true
		giveBack(t, f, grants[3])
		require.Equal(t, 3, available(), "no more than the short window holds")
	})
}

// cutOff lets so many scripts through and then no more.
type cutOff struct {
	redis.Hook
	left int
}

func (c *cutOff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.left--; c.left < 0 {
			return &net.OpError{Op: "dial", Err: errors.New("cut off")}
		}
		return next(ctx, cmd)
	}
}

func (c *cutOff) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cutOff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAnErrorAmidReturnsDoesNotLookAsIfNoneHadHappened(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	f := build(t, rdb, engine.Quota{Permits: 1000, Per: time.Hour})
	grants := queued(t, f, 2000, 1)
	giveBack(t, f, grants[0]) // teaches the server the script
	hook := &cutOff{left: 1}
	rdb.AddHook(hook)
	err := f.GiveBack(t.Context(), grants[1000:])
	require.ErrorIs(t, err, engine.ErrOutcomeUnknown, "some were given back")
	hook.left = 0
	err = f.GiveBack(t.Context(), grants[1500:])
	require.ErrorIs(t, err, engine.ErrUnreachable)
	require.NotErrorIs(t, err, engine.ErrOutcomeUnknown, "none were given back")
}

// A turn that another window never knew frees nothing in it.
func TestAReturnFreesNothingInAWindowThatWasBegunLater(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		short, at := w.queue(t, engine.Quota{Permits: 2, Per: time.Second})
		long := short.joins(t, engine.Quota{Permits: 2, Per: 3 * time.Second})
		first := queued(t, short, 1, 1)[0]
		at(time.Second)
		queued(t, short, 1, 1)
		queued(t, long, 1, 1)
		at(time.Second + time.Microsecond)
		first.Unused = true // its caller left at its slot, and the return was slow
		giveBack(t, short, first)
		require.False(t, take(t, long, engine.Request{N: 1})[0].Granted, "two were taken since it began to count")
	})
}
