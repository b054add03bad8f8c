package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// The scripts do what internal/model does, to the microsecond: whatever is
// changed in one has to be changed in the other.
func TestTheScriptsAnswerAsTheirModel(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for seed := range uint64(redistest.Long(20, 400)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := anyModelled(t, w, seed)
			for step := range redistest.Long(250, 600) {
				h.step(step)
			}
		})
	}
}

// modelled is a queue on a server beside its model.
type modelled struct {
	*testing.T
	*fair
	seed  uint64
	rng   *rand.Rand
	at    func(time.Duration)
	now   time.Duration
	model *model.Queue
	held  []engine.Grant
	what  string

	longest, turn time.Duration // length, and time that a permit takes
	fewest        int           // permits that fit every window

	// How things are for a while.
	pace     time.Duration // between two steps
	size     int           // permits of one
	together int           // who come at once
	leaving  int           // % of the steps in which somebody leaves
}

func anyModelled(t *testing.T, w world, seed uint64) *modelled {
	rng := rand.New(rand.NewPCG(seed, 77))
	quotas := make([]engine.Quota, 1+rng.IntN(3)*rng.IntN(2))
	for i := range quotas {
		quotas[i] = anyQuota(rng)
	}
	f, at := w.queue(t, quotas...)
	h := &modelled{T: t, fair: f, seed: seed, rng: rng, at: at, fewest: f.most}
	var windows []model.Window
	for _, w := range f.windows {
		windows = append(windows, model.Window(w))
		h.longest = max(h.longest, microseconds(w.Length))
		h.turn = max(h.turn, microseconds(w.Length/int64(w.Permits)))
	}
	h.model = model.NewQueue(windows)
	return h
}

func anyQuota(rng *rand.Rand) engine.Quota {
	q := engine.Quota{
		Permits: []int{1, 1, 2, 3, 7, 10, 60, 130, 200, 400, 1000, 1_000_000}[rng.IntN(12)],
		Per: []time.Duration{
			time.Second, 10 * time.Second, 999_983 * time.Microsecond, 7_919_001 * time.Nanosecond, time.Minute,
			127 * time.Millisecond, time.Hour, day,
		}[rng.IntN(8)],
	}
	switch rng.IntN(4) {
	case 0:
		q.Burst = 1 + rng.IntN(q.Permits)
	case 1:
		q.Burst = 1 + rng.IntN(min(q.Permits, 8))
	}
	if q.Per/time.Duration(q.Permits)*time.Duration(q.Burst) < 100*time.Microsecond {
		q.Burst = 0
	}
	return q
}

func (h *modelled) step(step int) {
	rng := h.rng
	if step == 0 || rng.IntN(40) == 0 {
		h.pace = []time.Duration{0, h.turn / 10, h.turn / 3, h.turn, 2 * h.turn, 20 * h.turn, h.longest / 200}[rng.IntN(7)]
		h.size = []int{1, 1, 1, 1 + rng.IntN(max(1, h.fewest/50)), 1 + rng.IntN(h.fewest)}[rng.IntN(5)]
		h.together = []int{1, 1, 3, 30}[rng.IntN(4)]
		h.leaving = []int{0, 0, 10, 40, 70, 95}[rng.IntN(6)]
	}
	if rng.IntN(3) > 0 {
		h.now += time.Duration(rng.Int64N(int64(2*h.pace) + 2000))
	}
	if rng.IntN(300) == 0 {
		h.now += time.Duration(rng.Int64N(int64(3 * h.longest)))
	}
	h.now = h.now.Truncate(time.Microsecond)
	h.at(h.now)
	h.what = fmt.Sprintf("seed %d, %v, step %d at %v", h.seed, h.windows, step, h.now)
	micros := beginning.Add(h.now).UnixMicro()
	h.held = slices.DeleteFunc(h.held, func(g engine.Grant) bool { return g.At <= micros })
	if rng.IntN(100) < h.leaving && len(h.held) > 0 {
		h.leave(micros)
	} else {
		h.come(micros)
	}
	require.Equal(h, h.model.Earliest(micros, 1)-micros, wait(h.T, h.fair).Microseconds(), "%s: Status", h.what)
}

// come asks for permits, in one run of the script.
func (h *modelled) come(micros int64) {
	n, longest := 1+h.rng.IntN(h.size), longestWait/10 // slots must be below 2⁵²
	if h.rng.IntN(3) == 0 {
		longest = time.Duration(h.rng.Int64N(int64(h.longest))).Truncate(time.Microsecond)
	}
	mixed := h.rng.IntN(4) == 0
	requests := make([]engine.Request, h.together)
	for i := range requests {
		requests[i] = engine.Request{N: n, MaxWait: longest}
		if mixed && h.rng.IntN(3) == 0 {
			n = 1 + h.rng.IntN(h.size)
		}
	}
	answers, err := h.Take(h.Context(), requests)
	require.NoError(h, err)
	var run []model.Request
	for _, r := range requests[:len(answers)] {
		run = append(run, model.Request{N: r.N, Longest: r.MaxWait.Microseconds()})
	}
	for i, slot := range h.model.Run(micros, run...) {
		a := answers[i]
		require.Equal(h, slot, micros+a.Wait.Microseconds(), "%s: answer %d of %v", h.what, i, run)
		require.Equal(h, slot-micros <= run[i].Longest, a.Granted, "%s: answer %d of %v", h.what, i, run)
		if a.Granted {
			require.Equal(h, slot, a.Grant.At, "%s: answer %d of %v", h.what, i, run)
			h.held = append(h.held, a.Grant)
		}
	}
}

// leave gives one back: anyone, the last, one of the last, the next.
func (h *modelled) leave(micros int64) {
	last := len(h.held) - 1
	i := []int{h.rng.IntN(last + 1), last, last - h.rng.IntN(min(40, last+1)), 0}[h.rng.IntN(4)]
	g := h.held[i]
	h.held = slices.Delete(h.held, i, i+1)
	giveBack(h.T, h.fair, g)
	require.True(h, h.model.Release(micros, model.Turn{Slot: g.At, N: g.N}), "%s: %v", h.what, g)
}
