package fair

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// kept is a queue beside all turns that are held.
type kept struct {
	*fair
	turns  []model.Turn
	grants []engine.Grant
}

// comes takes a turn, and requires that it is not early.
func (k *kept) comes(t *testing.T, n int, what string) engine.Grant {
	t.Helper()
	return k.comesUnder(t, k.fair, n, what)
}

func (k *kept) comesUnder(t *testing.T, f *fair, n int, what string) engine.Grant {
	t.Helper()
	earliest := model.Earliest(modelsOf(f.windows), k.turns, n)
	g := queued(t, f, 1, n)[0]
	assert.GreaterOrEqual(t, g.At, earliest, "%s: never early", what)
	k.holds(g)
	return g
}

func (k *kept) holds(grants ...engine.Grant) {
	for _, g := range grants {
		k.turns, k.grants = append(k.turns, model.Turn{Slot: g.At, N: g.N}), append(k.grants, g)
	}
}

// leave gives them back.
func (k *kept) leave(t *testing.T, grants ...engine.Grant) {
	giveBack(t, k.fair, grants...)
	for _, g := range grants {
		i := slices.Index(k.grants, g)
		k.turns, k.grants = slices.Delete(k.turns, i, i+1), slices.Delete(k.grants, i, i+1)
	}
}

// A batch whose permits stand in two pieces of a row that was cut.
func TestABatchThatLeavesAPieceOfARowTakesNobodyElsesPermits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		const n = 100
		f, _ := w.queue(t, engine.Quota{Permits: n, Per: time.Second})
		k := &kept{fair: f}
		k.holds(queued(t, f, 192, n)...)
		other := f.joins(t, engine.Quota{Permits: n, Per: time.Second}, engine.Quota{Permits: 290, Per: 5 * time.Second})
		require.False(t, take(t, other, engine.Request{N: 1})[0].Granted)
		k.leave(t, k.grants[191-3])
		k.leave(t, k.grants[191-4])
		k.comesUnder(t, other, 1, "after")
	})
}

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
			k := &kept{fair: f}
			now := time.Duration(0)
			comes := func() {
				now += time.Second
				at(now)
				k.comes(t, 1, "before")
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

// Fifty who leave a row take it apart into more cells than the ring has, of
// which enough have passed.
func TestReturnsThatTakeARowApartLeaveTheLogWhole(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second}, engine.Quota{Permits: 100, Per: 110 * time.Second})
		k := &kept{fair: f}
		now := time.Duration(0)
		for range 172 {
			now += 10 * time.Second
			at(now)
			k.comes(t, 1, "before")
		}
		grants := queued(t, f, 87, 1)
		k.holds(grants...)
		var leaving []engine.Grant
		for i := 1; i < 87; i += 2 {
			leaving = append(leaving, grants[i])
		}
		k.leave(t, leaving...)
		for range 100 {
			now += 500 * time.Millisecond
			at(now)
			k.comes(t, 1, "after")
		}
		require.NoError(t, model.Strict(modelsOf(f.windows), k.turns))
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

// Places are what a loop counts up from.
func TestWindowsWithoutPlacesAreDamaged(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		grants := queued(t, f, 5, 1)
		state := strings.Replace(w.rdb.Get(t.Context(), f.key).Val(), "/64 ", "/0 ", 1)
		require.NoError(t, w.rdb.Set(t.Context(), f.key, state, redis.KeepTTL).Err())
		require.ErrorIs(t, f.GiveBack(t.Context(), grants[4:]), engine.ErrState)
		_, err := readState(state)
		require.ErrorIs(t, err, errDamaged)
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
