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
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
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
	t.Parallel()
	const (
		machines = 4
		callers  = 75 // of each
	)
	quota := fairlimit.Quota{Permits: 10, Per: 100 * time.Millisecond}
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name, kept := redistest.Name(t), &record{}
		visits := make([]visit, machines*callers)
		var wg sync.WaitGroup
		for machine := range machines {
			l := named(t, rdb, name, quota, fairlimit.WithEngine(kept.build))
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
		}
		require.Less(t, len(served), len(visits), "some deadlines should be too short, or this tests little")
		require.Greater(t, len(served), len(visits)/2)
		kept.isInOrder(t)
		require.Eventually(t, func() bool { return kept.permits() == len(served) }, 10*time.Second, time.Millisecond,
			"those who were refused should have consumed nothing")
		require.Zero(t, status(t, named(t, rdb, name, quota)).Queued)
		if strings.HasSuffix(t.Name(), "/miniredis") {
			exact(t, quota, visits, served)
		}
	})
}

// exact compares the callers by the clock. In a bubble nobody is held up
// between a call, its turn, and a look at the clock.
func exact(t *testing.T, quota fairlimit.Quota, visits, served []visit) {
	for _, v := range visits {
		if v.err != nil {
			require.Equal(t, v.called, v.gone, "one who cannot be served is told at once")
		}
	}
	slices.SortFunc(served, func(a, b visit) int { return a.gone.Compare(b.gone) })
	for i, a := range served {
		for _, b := range served[:i] {
			if a.called.Before(b.called) {
				require.Equal(t, b.gone, a.gone, "called %v earlier and went later", b.called.Sub(a.called))
			}
		}
		if i >= quota.Permits {
			require.GreaterOrEqual(t, a.gone.Sub(served[i-quota.Permits].gone), quota.Per)
		}
	}
	took := served[len(served)-1].gone.Sub(served[0].gone)
	require.LessOrEqual(t, took, time.Duration(len(served)/quota.Permits+2)*quota.Per, "no room is left unused")
}

// record keeps what engines of package fair were asked, and what they answered.
type record struct {
	mu       sync.Mutex
	all      []answered
	returned int
}

// answered is one question and its answers.
type answered struct {
	asked, arrived time.Time
	answers        []engine.Answer
	afterReturns   bool // some turns had been given back, and may have been granted again
}

func (r *record) build(cfg engine.Config) (engine.Engine, error) {
	e, err := fair.New(cfg)
	return recorded{e, r}, err
}

// permits are those granted and not given back.
func (r *record) permits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	permits := -r.returned
	for _, a := range r.all {
		for _, answer := range a.answers {
			if answer.Granted {
				permits += answer.Grant.N
			}
		}
	}
	return permits
}

// isInOrder compares questions of which one was answered before the other was
// asked. The turns of the first come first. A turn is known as well as its
// question was short.
func (r *record) isInOrder(t *testing.T) {
	for _, later := range r.all {
		for _, earlier := range r.all {
			if later.afterReturns || !earlier.arrived.Before(later.asked) {
				continue
			}
			for _, a := range earlier.answers {
				for _, b := range later.answers {
					if a.Granted && b.Granted {
						require.False(t, later.arrived.Add(b.Wait).Before(earlier.asked.Add(a.Wait)),
							"asked %v later, and goes before", later.asked.Sub(earlier.arrived))
					}
				}
			}
		}
	}
}

// recorded is an engine whose questions and answers are kept.
type recorded struct {
	engine.Engine
	record *record
}

func (e recorded) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	asked := time.Now()
	answers, err := e.Engine.Take(ctx, requests)
	arrived := time.Now()
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	e.record.all = append(e.record.all, answered{asked, arrived, answers, e.record.returned > 0})
	return answers, err
}

func (e recorded) GiveBack(ctx context.Context, grants []engine.Grant) error {
	e.record.mu.Lock()
	for _, g := range grants {
		e.record.returned += g.N
	}
	e.record.mu.Unlock()
	return e.Engine.GiveBack(ctx, grants)
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
		var ahead []bool                 // whether it lay ahead, so that others have it wait
		for i := range 100 {
			asked := time.Now()
			r, err := machines[i%2].ReserveN(t.Context(), 1)
			require.NoError(t, err)
			earliest, latest = append(earliest, r.Slot().Add(-time.Since(asked))), append(latest, r.Slot())
			ahead = append(ahead, r.Delay() > 0)
		}
		for i := range 99 {
			assert.False(t, latest[i+1].Before(earliest[i]), "turn %d lies before turn %d", i+1, i)
		}
		for i := range 97 {
			assert.GreaterOrEqual(t, latest[i+3].Sub(earliest[i]), quota.Per, "turns %d to %d", i, i+3)
			if ahead[i+3] {
				assert.LessOrEqual(t, earliest[i+3].Sub(latest[i]), quota.Per, "turns %d to %d", i, i+3)
			}
		}
	})
}

// TestNobodyGoesEarly holds the moments at which callers go against the
// earliest that the quota allows.
func TestNobodyGoesEarly(t *testing.T) {
	t.Parallel()
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
