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

func TestACallerThatComesByWithinTwiceItsPerIsHeldToItsQuota(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		busy, at := w.queue(t, engine.Quota{Permits: 5, Per: time.Second})
		careful := busy.joins(t, engine.Quota{Permits: 10, Per: 10 * time.Second})
		require.True(t, take(t, careful, engine.Request{N: 1})[0].Granted)
		for now := w.step; now < 22*time.Second; now += w.step {
			at(now)
			if now == 9*time.Second {
				require.False(t, take(t, careful, engine.Request{N: 1})[0].Granted)
			}
			take(t, busy, engine.Request{N: 1})
		}
		at(24 * time.Second)
		require.False(t, take(t, careful, engine.Request{N: 1})[0].Granted)
	})
}

// Questions that only restore do not compact; a refusal behind them must not
// either.
func TestARefusalBehindALossLeavesTheRingAsItIs(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for cells := 174; cells < 179; cells++ { // the ring is compacted from 177 on
			f, at := w.queue(t, engine.Quota{Permits: 1000, Per: time.Hour})
			now := time.Duration(0)
			comes := func() {
				now += time.Second
				at(now)
				queued(t, f, 1, 1)
			}
			for range cells {
				comes()
			}
			older := w.rdb.Get(t.Context(), f.key).Val()
			comes()
			require.NoError(t, w.rdb.Set(t.Context(), f.key, older, redis.KeepTTL).Err())
			now += time.Second
			at(now)
			status(t, f) // restores it
			before := w.rdb.Get(t.Context(), f.key).Val()
			stranger := f.joins(t, f.quotas...)
			require.False(t, take(t, stranger, engine.Request{N: 1000})[0].Granted)
			require.Equal(t, before, w.rdb.Get(t.Context(), f.key).Val(), "a refusal writes nothing, %d cells", cells)
		}
	})
}

// A row that others' windows have cut into pieces, and as many new moments in
// the same question as fill the ring.
func TestTheFirstQuestionUnderOtherWindowsMayFillTheRing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		queued(t, f, 143, 1)
		other := f.joins(t, engine.Quota{Permits: 2, Per: 3 * time.Second, Burst: 1})
		queued(t, other, 64, 1)
	})
}

// A run looks at a bounded number of cells: those that it refuses must each look
// for their own place.
func TestManyRefusalsOfDifferentSizesAreAnsweredInParts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 600, Per: time.Minute})
		for i := range 170 {
			at(time.Duration(i) * 100 * time.Millisecond)
			queued(t, f, 1, 2+i%2)
		}
		requests := make([]engine.Request, 256)
		for i := range requests {
			requests[i] = engine.Request{N: 600 - i}
		}
		answers, err := f.Take(t.Context(), requests)
		require.NoError(t, err)
		require.NotEmpty(t, answers)
		require.Less(t, len(answers), 64)
		for _, a := range take(t, f, requests...) {
			require.False(t, a.Granted)
			require.NoError(t, a.Err)
		}
	})
}

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

// A quota that the others imply is no window of its own: but it is one while
// turns count that were granted under others.
func TestAQuotaThatOthersImplyHoldsForTurnsOfOthers(t *testing.T) {
	for _, c := range []struct {
		before, after string
		granted       int
		first, next   time.Duration // of the turns that come then
	}{
		{"20/1s 100/2m", "1/2s 100/2m", 100, 2 * time.Minute, 122 * time.Second},
		{"100/1m", "100/1m burst 10", 100, time.Minute, time.Minute},
		{"10/1s", "20/1s burst 1", 10, 50 * time.Millisecond, 100 * time.Millisecond},
		{"10/10s", "20/1s burst 1", 20, 10050 * time.Millisecond, 10100 * time.Millisecond},
		{"1/1s", "100/1m burst 10", 5, 4 * time.Second, 4 * time.Second},
	} {
		t.Run(c.before+", then "+c.after, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				f, at := w.queue(t, quotas(t, c.before)...)
				queued(t, f, c.granted, 1)
				other := f.joins(t, quotas(t, c.after)...)
				require.Equal(t, c.first, queuedWait(t, other))
				require.Equal(t, c.next, queuedWait(t, other))
				at(time.Hour)
				queued(t, other, 3, 1)
				require.NotContains(t, w.rdb.Get(t.Context(), f.key).Val(), f.head, "the queue is one of its own windows again")
				require.Contains(t, w.rdb.Get(t.Context(), f.key).Val(), other.head)
			})
		})
	}
}
