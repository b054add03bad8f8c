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

func TestAnErrorAmidReturnsDoesNotLookAsIfNoneHadHappened(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	f := build(t, rdb, engine.Quota{Permits: 1000, Per: time.Hour})
	grants := queued(t, f, 2000, 1)
	giveBack(t, f, grants[0]) // teaches the server the script
	left := 1                 // so many scripts get through
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if left--; left < 0 {
			return &net.OpError{Op: "dial", Err: errors.New("cut off")}
		}
		return next(ctx, cmd)
	}))
	err := f.GiveBack(t.Context(), grants[1000:])
	require.ErrorIs(t, err, engine.ErrOutcomeUnknown, "some were given back")
	left = 0
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
