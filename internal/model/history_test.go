package model

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/grid"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// The histories that the engine must answer as well.
func TestTheHistoriesOfTheEngine(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../fair/testdata/histories.json")
	require.NoError(t, err)
	var histories []struct {
		Name   string
		Quotas []struct {
			Permits int
			PerMS   int64 `json:"per_ms"`
			Burst   int
		}
		Steps []struct {
			AtMS      int64 `json:"at_ms"`
			Op        string
			ID, Of, N int
			MaxWaitMS int64 `json:"max_wait_ms"`
			WaitMS    int64 `json:"wait_ms"`
			Refused   bool
		}
	}
	require.NoError(t, json.Unmarshal(text, &histories))
	require.Len(t, histories, 80)
	for _, h := range histories {
		var windows []Window
		for _, q := range h.Quotas {
			windows = append(windows, Windows(q.Permits, q.PerMS*1000, q.Burst)...)
		}
		q, e, held := NewQueue(windows), &Exact{Windows: windows}, map[int]Turn{}
		for i, s := range h.Steps {
			now := beginning + s.AtMS*1000
			if s.Op == "cancel" {
				if turn, ok := held[s.Of]; ok {
					require.Equal(t, e.Release(now, turn), q.Release(now, turn), "%s, step %d", h.Name, i)
					delete(held, s.Of)
				}
				continue
			}
			exact, _ := e.Take(now, s.N, s.MaxWaitMS*1000)
			slot, granted := q.Take(now, s.N, s.MaxWaitMS*1000)
			require.Equal(t, exact, slot, "%s, step %d", h.Name, i)
			require.Equal(t, !s.Refused, granted, "%s, step %d", h.Name, i)
			require.InDelta(t, s.WaitMS*1000, slot-now, 2000, "%s, step %d", h.Name, i)
			if granted {
				held[s.ID] = Turn{slot, s.N}
			}
		}
	}
}

// plan is a random way to use a queue: of callers that come together, that
// leave, and of the time between.
type plan struct {
	seed    uint64
	windows []Window
	steps   int
	burst   int     // how many come or leave at once at most
	largest int     // permits of one
	leaving float64 // how many steps are of those who leave
	hurry   float64 // how many have a deadline
	pace    float64 // how much time passes, in that which the permits of a step take
	who     int     // anyone, the last, the next, every second
	pausing float64 // how many steps are pauses
}

// anyWindows are those of plans.
var anyWindows = [][]Window{
	{{1, second}},
	Windows(10, second, 0),
	Windows(10, second, 1),
	Windows(3, second, 1),
	Windows(7, second, 2),
	Windows(130, second, 0),
	Windows(1000, 60*second, 0),
	Windows(1000, 60*second, 100),
	Windows(1000, 60*second, 1),
	Windows(400, 10*second, 4),
	Windows(1_000_000, hour, 0),
	join(Windows(20, second, 0), Windows(100, 120*second, 0)),
	join(Windows(1, second, 0), Windows(1000, day, 0)),
	join(Windows(20, second, 5), Windows(1000, 60*second, 100)),
}

func anyPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 77))
	p := plan{seed: seed, steps: 600, windows: anyWindows[rng.IntN(len(anyWindows))]}
	fewest := slices.MinFunc(p.windows, func(a, b Window) int { return a.Permits - b.Permits }).Permits
	p.burst = []int{1, 1, 5, 50, 300}[rng.IntN(5)]
	p.largest = []int{1, 1, max(1, fewest/20), max(1, fewest/3)}[rng.IntN(4)]
	p.leaving = []float64{0, 0, 0.1, 0.3, 0.5, 0.8}[rng.IntN(6)]
	p.hurry = []float64{0, 0, 0.3}[rng.IntN(3)]
	p.pace = []float64{0, 0.3, 0.9, 1, 1.1, 2}[rng.IntN(6)]
	p.who = rng.IntN(4)
	p.pausing = []float64{0, 0.01, 0.1}[rng.IntN(3)]
	return p
}

// played is a queue and what it has granted.
type played struct {
	*testing.T
	plan
	rng     *rand.Rand
	server  int64 // its clock
	now     int64 // the queue's
	queue   *Queue
	held    *Exact
	passed  []Turn
	longest int64  // backlog so far
	apart   []bool // which windows have never held more distinct slots than they keep apart
}

// play runs the plan and calls look after every step.
func (p plan) play(t *testing.T, look func(*played)) {
	g := &played{
		T: t, plan: p, rng: rand.New(rand.NewPCG(p.seed, 1)), server: beginning,
		queue: NewQueue(p.windows), held: &Exact{Windows: p.windows}, apart: make([]bool, len(p.windows)),
	}
	for i := range g.apart {
		g.apart[i] = true
	}
	turn := int64(0) // what a permit takes
	for _, w := range p.windows {
		turn = max(turn, w.Length/int64(w.Permits))
	}
	for range p.steps {
		permits := 1
		g.now = g.queue.Now(g.server)
		switch {
		case g.rng.Float64() < p.leaving:
			g.leave()
		case g.rng.Float64() < p.pausing:
			g.pause()
		default:
			permits = g.come()
		}
		g.server += int64(g.rng.Float64() * 2 * p.pace * float64(turn) * float64(permits))
		g.now = g.queue.Now(g.server)
		// A merged cell leaves up to a 64th later than its oldest permit.
		g.passed = append(g.passed, g.held.Forget(g.now-Longest(p.windows)/grid.Fewest)...)
		look(g)
	}
	require.NoError(t, Strict(p.windows, append(g.passed, g.held.Held...)), "%+v", p)
}

// pause stops the queue, and may set the server's clock as well.
func (g *played) pause() {
	g.queue.Pause(g.server, g.rng.Int64N(2*g.windows[0].Length))
	if g.rng.IntN(3) == 0 {
		g.server += g.rng.Int64N(g.windows[0].Length) - g.windows[0].Length/2
	}
}

func (g *played) come() (permits int) {
	for range 1 + g.rng.IntN(g.burst) {
		if len(g.held.Held) > 5000 {
			break
		}
		n, longest := 1+g.rng.IntN(g.largest), int64(math.MaxInt64)
		if g.rng.Float64() < g.hurry {
			longest = g.rng.Int64N(3 * g.windows[0].Length)
		}
		earliest, latest := g.between(n)
		slot, granted := g.queue.Take(g.server, n, longest)
		if slot < earliest || slot > latest || granted != (g.queue.rest+slot-g.now <= longest) {
			require.Fail(g, "wrong slot", "%+v: %d is not between %d and %d", g.plan, slot, earliest, latest)
		}
		if granted {
			g.held.Hold(Turn{slot, n})
			g.longest = max(g.longest, slot-g.now)
			g.count(slot)
			permits += n
		}
	}
	return permits
}

// between returns the earliest slot, and the latest that a bounded queue may
// give instead where it has held more distinct slots than a log keeps apart: a
// 64th of a length later, or where some have left, 1 % of the longest backlog
// if that is more.
func (g *played) between(n int) (earliest, latest int64) {
	earliest = g.held.Earliest(g.now, n)
	latest = earliest
	for i, w := range g.windows {
		if !g.apart[i] && g.leaving > 0 {
			latest = earliest + max(g.longest/100, Longest(g.windows)/grid.Fewest)
		} else if !g.apart[i] {
			latest = max(latest, w.Free(g.held.Held, n)+w.Length/grid.Fewest)
		}
	}
	return earliest, latest
}

// count notes the windows that hold more distinct slots than a log keeps apart:
// within a length, or if some leave, anywhere.
func (g *played) count(slot int64) {
	for i, w := range g.windows {
		from := slot - w.Length
		if g.leaving > 0 {
			from = g.now - w.Length
		}
		distinct, before := 0, int64(0)
		for j := len(g.held.Held) - 1; g.apart[i] && j >= 0 && g.held.Held[j].Slot > from; j-- {
			if g.held.Held[j].Slot != before {
				distinct, before = distinct+1, g.held.Held[j].Slot
			}
			g.apart[i] = distinct <= mostMoments
		}
	}
}

func (g *played) leave() {
	for range 1 + g.rng.IntN(g.burst) {
		count := len(g.held.Held)
		if count == 0 {
			return
		}
		ahead, _ := slices.BinarySearchFunc(g.held.Held, g.now+1, func(t Turn, now int64) int {
			return cmp.Compare(t.Slot, now)
		})
		i := []int{
			g.rng.IntN(count),
			count - 1 - g.rng.IntN(min(count, 20)),
			min(count-1, ahead+g.rng.IntN(20)),
			2 * g.rng.IntN((count+1)/2),
		}[g.who]
		g.giveBack(g.held.Held[i])
	}
}

func (g *played) giveBack(turn Turn) {
	passed := g.now
	if g.queue.Ahead(passed) {
		passed--
	}
	if g.held.Release(passed, turn) != g.queue.Release(g.server, turn) {
		require.Fail(g, "wrong answer to a release", "%+v: %v at %d", g.plan, turn, g.now)
	}
}

func TestAnyPlanIsAnsweredAsTheDefinitionDemands(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Long(10, 1_500)) {
		anyPlan(seed).play(t, func(g *played) {
			for _, l := range g.queue.logs {
				if len(l.cells) > maxCells || l.text() > maxText {
					require.Fail(t, "too large", "%+v: %d cells, %d bytes", g.plan, len(l.cells), l.text())
				}
			}
		})
	}
}
