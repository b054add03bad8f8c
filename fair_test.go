package fairlimit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// visit is one caller's way through a limiter.
type visit struct {
	patience     time.Duration // 0 for one who waits for ever
	called, gone time.Time
	err          error
}

// TestFirstComeFirstServedAcrossMachines lets hundreds of callers, with
// deadlines of all kinds, call several limiters of one name.
func TestFirstComeFirstServedAcrossMachines(t *testing.T) {
	const (
		machines = 4
		callers  = 75 // of each
	)
	quota := fairlimit.Quota{Permits: 10, Per: 100 * time.Millisecond}
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		// In a bubble all is exact. Elsewhere a goroutine may be held up
		// between its call, its turn and our clock.
		exact := strings.HasSuffix(t.Name(), "/miniredis")
		blur, late := 40*time.Millisecond, quota.Per*9/10
		if exact {
			blur, late = 0, 0
		}

		name := redistest.Name(t)
		visits := make([]visit, machines*callers)
		var wg sync.WaitGroup
		for machine := range machines {
			l := named(t, rdb, name, quota)
			random := rand.New(rand.NewPCG(7, uint64(machine)))
			wg.Go(func() {
				for i := range callers {
					v := &visits[machine*callers+i]
					if random.IntN(3) == 0 {
						v.patience = time.Duration(1+random.IntN(1500)) * time.Millisecond
					}
					wg.Go(func() { v.wait(t.Context(), l) })
					time.Sleep(time.Duration(1000+random.IntN(2000)) * time.Microsecond) // so that calls have an order
				}
			})
		}
		wg.Wait()

		var served []visit
		for _, v := range visits {
			if v.err == nil {
				served = append(served, v)
				continue
			}
			require.ErrorIs(t, v.err, context.DeadlineExceeded)
			require.Positive(t, v.patience, "one who waits for ever is never refused")
			if exact {
				require.Equal(t, v.called, v.gone, "one who cannot be served is told at once")
			}
		}
		require.Greater(t, len(served), machines*callers/2)
		require.Less(t, len(served), machines*callers, "some deadlines should be too short, or this tests little")

		slices.SortFunc(served, func(a, b visit) int { return a.gone.Compare(b.gone) })
		for i, a := range served {
			for _, b := range served[:i] {
				if a.called.Add(blur).Before(b.called) {
					require.LessOrEqual(t, a.gone.Sub(b.gone), late, "called %v later and went before", b.called.Sub(a.called))
				}
			}
			if exact && i >= quota.Permits {
				require.GreaterOrEqual(t, a.gone.Sub(served[i-quota.Permits].gone), quota.Per)
			}
		}
		took := served[len(served)-1].gone.Sub(served[0].gone)
		assert.LessOrEqual(t, took, time.Duration(len(served)/quota.Permits+2)*quota.Per, "those who were refused should have consumed nothing")
		assert.Zero(t, status(t, named(t, rdb, name, quota)).Queued)
	})
}

func (v *visit) wait(ctx context.Context, l fairlimit.Limiter) {
	v.called = time.Now()
	if v.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, v.called.Add(v.patience))
		defer cancel()
	}
	v.err = l.Wait(ctx)
	v.gone = time.Now()
}

// TestTurnsKeepTheOrderOfTheCalls looks at the turns themselves: they never go
// back, never exceed the quota, and leave no room unused.
func TestTurnsKeepTheOrderOfTheCalls(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		quota := fairlimit.Quota{Permits: 3, Per: 300 * time.Millisecond}
		name := redistest.Name(t)
		machines := []fairlimit.Reserver{named(t, rdb, name, quota), named(t, rdb, name, quota)}
		var earliest, latest []time.Time // of each slot, by when the call was sent and when it came back
		for i := range 100 {
			asked := time.Now()
			r, err := machines[i%2].ReserveN(t.Context(), 1)
			require.NoError(t, err)
			earliest, latest = append(earliest, r.Slot().Add(-time.Since(asked))), append(latest, r.Slot())
		}
		for i := range 99 {
			assert.False(t, latest[i+1].Before(earliest[i]), "turn %d lies before turn %d", i+1, i)
		}
		for i := range 97 {
			assert.GreaterOrEqual(t, latest[i+3].Sub(earliest[i]), quota.Per, "turns %d to %d", i, i+3)
			if i > 3 {
				assert.LessOrEqual(t, earliest[i+3].Sub(latest[i]), quota.Per, "turns %d to %d", i, i+3)
			}
		}
	})
}

// TestNobodyGoesEarly holds the moments at which callers go against the
// earliest that the quota allows.
func TestNobodyGoesEarly(t *testing.T) {
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
