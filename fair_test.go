package fairlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
	machine, place int           // which limiter, and the how manieth of its callers
	patience       time.Duration // 0 for one who waits for ever
	called, gone   time.Time
	refused        *fairlimit.RefusedError
}

// TestFirstComeFirstServedAcrossMachines lets hundreds of callers, with deadlines of all kinds, call several limiters of one name.
func TestFirstComeFirstServedAcrossMachines(t *testing.T) {
	const (
		machines = 4
		callers  = 75 // of each
	)
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		quota := fairlimit.Quota{Permits: 10, Per: 100 * time.Millisecond}
		name := redistest.Name(t)
		var (
			mu     sync.Mutex
			visits []visit
			wg     sync.WaitGroup
		)
		for machine := range machines {
			l := named(t, rdb, name, quota)
			random := rand.New(rand.NewPCG(7, uint64(machine)))
			wg.Go(func() {
				for place := range callers {
					v := visit{machine: machine, place: place, called: time.Now()}
					ctx := t.Context()
					if random.IntN(3) == 0 {
						v.patience = time.Duration(1+random.IntN(1500)) * time.Millisecond
					}
					wg.Go(func() {
						if v.patience > 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithDeadline(ctx, v.called.Add(v.patience))
							defer cancel()
						}
						err := l.Wait(ctx)
						v.gone = time.Now()
						if err != nil && !errors.As(err, &v.refused) && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Wait: %v", err)
						}
						if err != nil && v.refused == nil {
							v.refused = &fairlimit.RefusedError{} // left in line
						}
						mu.Lock()
						defer mu.Unlock()
						visits = append(visits, v)
					})
					time.Sleep(time.Duration(500+random.IntN(1000)) * time.Microsecond) // so that calls have an order
				}
			})
		}
		wg.Wait()

		var served []visit
		for _, v := range visits {
			if v.refused == nil {
				served = append(served, v)
				continue
			}
			require.Positive(t, v.patience, "one who waits for ever is never refused")
			if v.refused.Wait > 0 {
				assert.Less(t, v.gone.Sub(v.called), v.patience, "one who cannot be served is told before its deadline")
			}
		}
		require.Greater(t, len(served), machines*callers/2)
		require.Less(t, len(served), machines*callers, "some deadlines should be too short, or this tests little")

		slices.SortFunc(served, func(a, b visit) int { return a.gone.Compare(b.gone) })
		newest := map[int]visit{}
		for _, v := range served {
			before, seen := newest[v.machine]
			if seen && before.place > v.place {
				// Those who go at one moment may be seen in any order.
				assert.Less(t, v.gone.Sub(before.gone), quota.Per/2, "machine %d: caller %d went after caller %d", v.machine, v.place, before.place)
			} else {
				newest[v.machine] = v
			}
		}

		// No queue but one in order of arrival has everybody wait no longer than those who came before need.
		require.LessOrEqual(t, served[len(served)-1].gone.Sub(served[0].gone),
			time.Duration(len(served)/quota.Permits+1)*quota.Per+2*quota.Per, "those who were refused should have consumed nothing")
		s := status(t, named(t, rdb, name, quota))
		assert.Zero(t, s.Queued)
	})
}

// TestTurnsKeepTheOrderOfTheCalls looks at the turns themselves: they never go back, never exceed the quota, and leave no room unused.
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

// TestNobodyGoesEarly holds the moments at which callers go against the earliest that the quota allows.
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
