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

func TestTurnsOfOthers(t *testing.T) {
	tell(t, []story{
		// A row that others' windows have cut into pieces, and as many new moments in
		// the same question as fill the ring.
		{"the first question under other windows may fill the ring", "1/1s", "a takes 143, b has 2/3s burst 1, b takes 64"},
		// Its caller left at its slot, and the return was slow.
		{"a return frees nothing in a window that was begun later", "2/1s", "b has 2/3s, a takes 1, at 1s, a takes 1, " +
			"b takes 1, at 1.000001s, a returns 0 unused, b refused"},
		{"a window that another one implies delays nobody", "100/150s 10/5s 1/1s", "a takes 101, a stands 100 at 150s"},

		// A quota that the others imply is no window of its own, but while turns count
		// that were granted under others. Then the queue is one of its own windows again.
		{"where one a second is allowed", "20/1s 100/2m", "a takes 100, b has 1/2s 100/2m, " +
			"b takes 1 after 2m, b takes 1 after 122s, at 1h, b takes 3, b owns"},
		{"where bursts are less", "100/1m", "a takes 100, b has 100/1m burst 10, " +
			"b takes 1 after 1m, b takes 1 after 1m, at 1h, b takes 3, b owns"},
		{"where single ones go", "10/1s", "a takes 10, b has 20/1s burst 1, " +
			"b takes 1 after 50ms, b takes 1 after 100ms, at 1h, b takes 3, b owns"},
		{"where the others' window is longer", "10/10s", "a takes 20, b has 20/1s burst 1, " +
			"b takes 1 after 10.05s, b takes 1 after 10.1s, at 1h, b takes 3, b owns"},
		{"where the others' is narrower", "1/1s", "a takes 5, b has 100/1m burst 10, " +
			"b takes 1 after 4s, b takes 1 after 4s, at 1h, b takes 3, b owns"},
	})
}

func TestWhoeverHasNoQuotasHasNoOtherOnes(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.stored(t)
		pause(t, f, time.Second)
		other := f.joinsAs(t, quotas(t, "1/1s"))
		news := hears(other)
		queued(t, other, 1, 1)
		require.False(t, (*news)[0].Differs)
	})
}

// Turns have gone, and whoever asks first after the loss does not know for how long
// they count: it has no quotas, or a shorter Per.
func TestTurnsCountThoughNothingCountsForWhoeverAsksFirst(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, asks := range map[string]func(f *fair){
			"looks":  func(f *fair) { require.NoError(t, f.Look(t.Context())) },
			"asks":   func(f *fair) { status(t, f) },
			"pauses": func(f *fair) { pause(t, f, 9*time.Second) },
		} {
			for _, config := range []engine.Config{{}, {Quota: quotas(t, "5/1s")[0]}} {
				t.Run(name, func(t *testing.T) {
					f, at := w.queue(t, quotas(t, "5/1h")...)
					other := f.enters(t, allScripts, config)
					queued(t, f, 5, 1)
					at(2 * time.Second)
					pause(t, other, 8*time.Second)
					require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
					asks(other)
					require.Greater(t, status(t, f).Paused, 7*time.Second)
					require.Greater(t, queuedWait(t, f), 59*time.Minute)
				})
			}
		}
	})
}

// A limiter without quotas has restored turns, and asks once more as they have come.
func TestWhatCountsAsFullDoesSoBesideWhoeverHasNoQuotas(t *testing.T) {
	w := realWorld(t)
	f, at := w.queue(t, quotas(t, "5/1s")...)
	other := f.enters(t, allScripts, engine.Config{})
	queued(t, f, 15, 1) // at 0, 1 and 2 s
	pause(t, other, time.Microsecond)
	require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
	at(time.Millisecond)
	require.NoError(t, other.Look(t.Context()))
	at(2*time.Second + 500*time.Microsecond)
	pause(t, other, 100*time.Millisecond)
	at(2200 * time.Millisecond)
	require.Greater(t, queuedWait(t, f), 700*time.Millisecond)
}
