package fair

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// oracle is the definition, with the grants of what is held.
type oracle struct {
	model.Exact
	grants  []engine.Grant // of each turn held
	cancels bool           // a history with cancels: what lies further back than a window counts too

	// blurred tells which windows have held more distinct moments than the
	// engine keeps apart.
	blurred []bool
}

func newOracle(f *fair) *oracle {
	o := &oracle{blurred: make([]bool, len(f.windows))}
	for _, w := range f.windows {
		o.Windows = append(o.Windows, model.Window{Permits: w.Permits, Length: w.Length})
	}
	return o
}

// moments is how many distinct moments of one window the engine keeps apart.
const moments = 130

// between returns the earliest slot, and the latest that the engine may give
// instead.
func (o *oracle) between(now int64, n int) (earliest, latest int64) {
	earliest = o.Earliest(now, n)
	latest = earliest
	for i, w := range o.Windows {
		if o.blurred[i] {
			latest = max(latest, w.Free(o.Held, n)+w.Length/64)
		}
	}
	return earliest, latest
}

// holds notes a grant.
func (o *oracle) holds(g engine.Grant) {
	o.Held, o.grants = append(o.Held, model.Turn{Slot: g.At, N: g.N}), append(o.grants, g)
}

// granted notes a grant, and which windows hold too many distinct moments
// since.
func (o *oracle) granted(now int64, g engine.Grant) {
	o.holds(g)
	for i, w := range o.Windows {
		if o.blurred[i] {
			continue
		}
		from := g.At
		if o.cancels {
			from = now
		}
		distinct, before := 0, int64(0)
		for j := len(o.Held) - 1; j >= 0 && o.Held[j].Slot > from-w.Length; j-- {
			if o.Held[j].Slot != before {
				distinct, before = distinct+1, o.Held[j].Slot
			}
		}
		o.blurred[i] = distinct > moments
	}
}

// cancel forgets a turn that lies ahead.
func (o *oracle) cancel(now int64, i int) {
	if o.Held[i].Slot > now {
		o.Held, o.grants = slices.Delete(o.Held, i, i+1), slices.Delete(o.grants, i, i+1)
	}
}

// keeps checks every window over all slots that are held, and their order.
func (o *oracle) keeps(t *testing.T) {
	require.True(t, slices.IsSortedFunc(o.Held, func(a, b model.Turn) int { return cmp.Compare(a.Slot, b.Slot) }))
	require.NoError(t, model.Strict(o.Windows, o.Held))
}

// traffic is a random way to use a queue. Its zero value asks for one permit
// after the other, whenever they come, without a pause.
type traffic struct {
	seed    uint64
	quotas  []engine.Quota
	steps   int
	largest int             // permits of one request
	pauses  []time.Duration // one of them passes between two calls, or any part of it
	hurry   float64         // how many have a deadline
	batches float64         // how many calls ask for several turns
	cancels float64         // how many calls are cancels, of any turn granted so far
}

func (f traffic) String() string {
	return fmt.Sprintf("seed %d: %d steps, quotas %v, up to %d permits, pauses %v, hurry %v, batches %v, cancels %v",
		f.seed, f.steps, f.quotas, f.largest, f.pauses, f.hurry, f.batches, f.cancels)
}

// play sends the traffic through the engine and asks the oracle about every
// answer.
func (f traffic) play(t *testing.T, w world) {
	rng := rand.New(rand.NewPCG(f.seed, 1))
	queue, at := w.queue(t, f.quotas...)
	o := newOracle(queue)
	o.cancels = f.cancels > 0
	var now time.Duration
	for step := range f.steps {
		if pause := f.pauses[rng.IntN(len(f.pauses))]; rng.IntN(2) == 0 {
			now += pause
		} else {
			now += time.Duration(rng.Float64() * float64(pause)).Truncate(time.Microsecond)
		}
		at(now)
		micros := beginning.Add(now).UnixMicro()
		if rng.Float64() < f.cancels && len(o.Held) > 0 {
			i := rng.IntN(len(o.Held))
			if rng.IntN(2) == 0 {
				i = len(o.Held) - 1 - rng.IntN(min(len(o.Held), 50))
			}
			giveBack(t, queue, o.grants[i])
			o.cancel(micros, i)
			continue
		}
		requests := []engine.Request{f.request(rng)}
		for rng.Float64() < f.batches && len(requests) < 300 {
			next := f.request(rng)
			for range 1 + rng.IntN(20) {
				requests = append(requests, next)
			}
		}
		for i, a := range take(t, queue, requests...) {
			r := requests[i]
			earliest, latest := o.between(micros, r.N)
			slot := micros + a.Wait.Microseconds()
			require.GreaterOrEqual(t, slot, earliest, "step %d of %v: %+v got %+v", step, f, r, a)
			if !o.cancels || !slices.Contains(o.blurred, true) {
				require.LessOrEqual(
					t,
					slot,
					latest,
					"step %d of %v: %+v got %+v, %v later than needed",
					step,
					f,
					r,
					a,
					microseconds(slot-earliest),
				)
			}
			require.Equal(t, a.Wait <= r.MaxWait, a.Granted, "step %d of %v: %+v got %+v", step, f, r, a)
			if a.Granted {
				require.Equal(t, slot, a.Grant.At)
				o.granted(micros, a.Grant)
			}
		}
	}
	o.keeps(t)
	require.LessOrEqual(t, w.rdb.StrLen(t.Context(), queue.key).Val(), int64(mostState), "%v", f)
}

// mostState is how many bytes a state of eight windows takes at most, without
// flows.
const mostState = 3900

func (f traffic) request(rng *rand.Rand) engine.Request {
	r := engine.Request{N: 1, MaxWait: engine.Forever}
	if rng.IntN(3) > 0 {
		r.N = 1 + rng.IntN(f.largest)
	}
	if rng.Float64() < f.hurry {
		r.MaxWait = time.Duration(
			rng.IntN(4),
		) * time.Duration(
			rng.Int64N(int64(f.quotas[0].Per)+1),
		).Truncate(
			time.Microsecond,
		)
	}
	return r
}

// anyTraffic is traffic of any kind, made from the seed.
func anyTraffic(seed uint64, steps int) traffic {
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...time.Duration) time.Duration { return of[rng.IntN(len(of))] }
	f := traffic{seed: seed, steps: steps}
	for range 1 + rng.IntN(3)*rng.IntN(2) {
		q := engine.Quota{
			Permits: []int{1, 1, 2, 3, 7, 10, 100, 130, 1000, 1_000_000}[rng.IntN(10)],
			Per: pick(
				time.Second,
				time.Second,
				999_983*time.Microsecond,
				7_919_001*time.Nanosecond,
				127*time.Millisecond,
				time.Hour,
			),
		}
		fewest := 1 + int(int64(q.Permits)*int64(time.Microsecond)/int64(q.Per)) // take a microsecond
		switch rng.IntN(3) {
		case 0:
			q.Burst = fewest
		case 1:
			q.Burst = fewest + rng.IntN(q.Permits-fewest+1)
		}
		f.quotas = append(f.quotas, q)
	}
	most := f.quotas[0].Permits
	for _, q := range f.quotas {
		most = min(most, q.Permits)
		if q.Burst > 0 {
			most = min(most, q.Burst)
		}
	}
	f.largest = min(20_000, []int{1, max(1, most/50), max(1, most/3), most}[rng.IntN(4)])
	// One turn takes about this long when all are taken.
	turn := f.quotas[0].Per / time.Duration(f.quotas[0].Permits) * time.Duration(1+f.largest/2)
	f.pauses = [][]time.Duration{
		{0, turn, 2 * turn},
		{0, 0, 0, time.Microsecond, turn},
		{0, turn / 3, turn, 3 * turn, f.quotas[0].Per},
		{turn},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 3 * f.quotas[0].Per, turn},
	}[rng.IntN(5)]
	f.hurry = []float64{0, 0, 0.3, 1}[rng.IntN(4)]
	f.batches = []float64{0, 0, 0.2, 0.7}[rng.IntN(4)]
	f.cancels = []float64{0, 0, 0.1, 0.45}[rng.IntN(4)]
	return f
}

func TestAnyTrafficIsAnsweredAsTheDefinitionDemands(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(20)) {
			anyTraffic(seed, 250).play(t, w)
		}
		traffic{
			seed: 1, steps: w.many(1500), largest: 1, quotas: []engine.Quota{{Permits: moments, Per: time.Second}},
			pauses: []time.Duration{time.Millisecond, 6 * time.Millisecond},
		}.play(t, w) // as many distinct moments as are kept apart, and a backlog behind them
	})
}
