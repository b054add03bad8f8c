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

// Flows share turns of several units by what each takes most of. A turn goes at
// the earliest slot that all units allow, or a pace of calls after the newest turn
// while others are active. Shares are those of the model.
func TestFlowsShareTurnsOfSeveralUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(60, 400))) {
			h := &unitShares{unitHistory: anyUnits(t, w, seed), held: map[string][]heldTurn{}}
			h.rng = rand.New(rand.NewPCG(seed, 12))
			h.members = []*fair{h.f, h.joined(), h.joined()}
			for i, m := range h.members {
				m.member = fmt.Sprintf("%03d", i)
			}
			lookAhead := 8 + h.rng.IntN(2000)
			h.model = model.Flows{Grace: defaultGrace.Microseconds(), Most: lookAhead, Least: lookAhead}
			for step := 0; step < 60 && (step == 0 || h.exists()); step++ {
				h.asks()
			}
			h.isStrict()
		}
	})
}

type unitShares struct {
	*unitHistory
	members []*fair
	model   model.Flows
	held    map[string][]heldTurn // of each flow of each member
}

type heldTurn struct {
	at   int64
	cost int
}

// joined is another limiter of the queue.
func (h *unitShares) joined() *fair {
	other := h.f.joins(h, h.f.quotas...)
	other.unitsGiven = h.f.unitsGiven
	t, err := other.quotaSetOf(h.f.quotas, h.f.unitsGiven, "")
	require.NoError(h, err)
	t.head = h.f.head
	other.quotaSet = t
	return other
}

// exists reports whether the queue is still there: on a busy server it may end
// before its time on the clock of the test.
func (h *unitShares) exists() bool { return h.f.client.Exists(h.Context(), h.f.key).Val() > 0 }

func (h *unitShares) asks() {
	h.now += time.Duration(h.rng.Int64N(int64(2*h.pace) + 2000)).Truncate(time.Microsecond)
	h.at(h.now)
	h.clock.Set(beginning.Add(h.now).UnixMicro())
	m := h.members[h.rng.IntN(len(h.members))]
	flow := &engine.Flow{ID: fmt.Sprint(h.rng.IntN(3)), Weight: 1 + h.rng.IntN(3), LookAhead: h.model.Most}
	id := flowWord(flow.ID) + m.member
	h.held[id] = slices.DeleteFunc(h.held[id], func(t heldTurn) bool { return !h.clock.Ahead(t.at) })
	for _, t := range h.held[id] {
		flow.Ahead += t.cost
	}
	requests, amounts, need, wants := make([]engine.Request, 1+h.rng.IntN(5)), [][]int{}, 0, flow.Ahead
	for i := range requests {
		n := make([]int, len(h.most))
		for u := range n {
			n[u] = h.rng.IntN(2) * h.rng.IntN(1+h.most[u])
		}
		if i > 0 && h.rng.IntN(3) == 0 {
			copy(n, amounts[i-1])
		}
		if slices.Max(n) == 0 {
			n[0] = 1
		}
		r := engine.Request{N: n[0], Amounts: h.named(n), MaxWait: 1000 * time.Hour, Flow: flow}
		r.Cost = m.CostOf(r.N, r.Amounts)
		requests[i], amounts = r, append(amounts, n)
		need, wants = max(need, r.Cost), wants+r.Cost
	}
	answers, err := m.Take(h.Context(), requests)
	require.NoError(h, err, h.what)
	asker := model.Asker{ID: id, Weight: flow.Weight, Need: need, Wants: min(h.model.Most, wants)}
	if !answers[0].Granted { // nothing was written
		require.True(h, answers[0].Left && flow.Ahead+requests[0].Cost > answers[0].Share, h.what)
		return
	}
	share := h.model.Enter(h.clock.Now(), asker)[0]
	held, full := flow.Ahead, false
	for i, a := range answers {
		require.NoError(h, a.Err, h.what)
		require.Equal(h, share, a.Share, h.what)
		full = full || held > 0 && held+requests[i].Cost > share
		require.Equal(h, full, a.Left, "%s: %+v of %d, holds %d", h.what, requests[i], share, held)
		if full {
			continue
		}
		h.judge(amounts[i], a)
		held += requests[i].Cost
		h.held[id] = append(h.held[id], heldTurn{a.Grant.At, requests[i].Cost})
		h.model.Holds(id, a.Grant.At)
	}
}

func (h *unitShares) judge(amounts []int, a engine.Answer) {
	require.True(h, a.Granted, h.what)
	earliest := h.units.Earliest(h.clock.Now(), amounts)
	latest := earliest
	if amounts[0] > 0 { // others may be active still; the log of calls has the tail of all
		tail := []model.Turn{{Slot: h.units.Tail()}}
		latest = max(latest, model.Evenly(h.units.Logs[0].Windows, tail, amounts[0]))
	}
	require.GreaterOrEqual(h, a.Grant.At, earliest, h.what)
	require.LessOrEqual(h, a.Grant.At, latest, h.what)
	require.Equal(h, h.clock.Wait(a.Grant.At), a.Wait.Microseconds(), h.what)
	for u, n := range amounts {
		if n > 0 {
			h.units.Logs[u].Hold(model.Turn{Slot: a.Grant.At, N: n})
		}
	}
}
