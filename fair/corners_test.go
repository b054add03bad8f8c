package fair

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// What was forgotten before a longer window came goes on counting for it, also
// when somebody leaves.
func TestAReturnDoesNotForgetWhatALongerWindowCounts(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 10, Per: time.Second})
		now := time.Duration(0)
		for i := range 500 {
			now += time.Duration(100+i%7) * time.Millisecond
			at(now)
			queued(t, f, 1, 1)
		}
		other := f.joins(t, engine.Quota{Permits: 300, Per: 60 * time.Second})
		before := wait(t, other)
		require.Greater(t, before, 40*time.Second, "its window is full")
		require.False(t, take(t, other, engine.Request{N: 1})[0].Granted)
		g := queued(t, f, 20, 1)
		giveBack(t, f, g[19])
		require.Greater(t, wait(t, other), 40*time.Second, "its window is full")
		require.False(t, take(t, other, engine.Request{N: 1, MaxWait: 30 * time.Second})[0].Granted)
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
