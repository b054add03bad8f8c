package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random histories of turns that count several units, each answer held against
// the definition.
func TestUnitsKeepTheDefinition(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(240, 600))) {
			h := anyUnits(t, w, seed)
			for step := range 60 {
				h.step(step)
			}
			h.isStrict()
		}
	})
}

// unitHistory is a queue of several units beside the definition.
type unitHistory struct {
	*testing.T
	rng   *rand.Rand
	f     *fair
	at    func(time.Duration)
	now   time.Duration
	pace  time.Duration
	clock model.Clock
	units *model.Units
	names []string // of the units but calls
	most  []int    // of each unit
	turns []*unitTurn
	what  string
	log   []string // what happened, told if the test fails
}

// Logf keeps a line for a test that fails.
func (h *unitHistory) Logf(format string, values ...any) {
	h.log = append(h.log, fmt.Sprintf(format, values...))
}

type unitTurn struct {
	grant   engine.Grant
	amounts []int
	over    bool // settled or given back
	void    bool // of a queue that has ended
}

func anyUnits(t *testing.T, w world, seed uint64) *unitHistory {
	h := &unitHistory{T: t, rng: rand.New(rand.NewPCG(seed, 78))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(h.log, "\n"))
		}
	})
	quota := func() engine.Quota {
		q := engine.Quota{
			Permits: []int{1, 2, 3, 7, 10, 60, 1000}[h.rng.IntN(7)],
			Per:     []time.Duration{time.Second, 10 * time.Second, 999_983 * time.Microsecond, time.Minute}[h.rng.IntN(4)],
		}
		if h.rng.IntN(3) == 0 {
			q.Burst = 1 + h.rng.IntN(q.Permits)
		}
		return q
	}
	calls := quota()
	var units []engine.Unit
	for _, name := range []string{"b", "input-tokens", "z"}[:1+h.rng.IntN(3)] {
		u := engine.Unit{Name: name, Quotas: []engine.Quota{quota()}}
		if h.rng.IntN(3) == 0 {
			u.Quotas = append(u.Quotas, quota())
		}
		units, h.names = append(units, u), append(h.names, name)
	}
	e, err := New(engine.Config{Client: w.rdb, Name: fmt.Sprint(t.Name(), seed), Quota: calls, Units: units})
	require.NoError(t, err)
	h.f = e.(*fair)
	h.at = w.clock(t, h.f)
	windows := [][]model.Window{modelsOf(h.f.windows)}
	h.most = []int{h.f.most}
	for _, u := range h.f.units {
		windows, h.most = append(windows, modelsOf(u.windows)), append(h.most, u.most)
	}
	h.units = model.NewUnits(windows...)
	h.pace = calls.Per / time.Duration(calls.Permits) / time.Duration(1+h.rng.IntN(3))
	h.what = fmt.Sprintf("seed %d, %v %v", seed, h.f.windows, h.f.units)
	return h
}

func (h *unitHistory) step(step int) {
	if h.rng.IntN(3) > 0 {
		h.now += time.Duration(h.rng.Int64N(int64(2*h.pace) + 2000)).Truncate(time.Microsecond)
	}
	if h.rng.IntN(30) == 0 {
		h.now += time.Duration(h.rng.Int64N(int64(time.Minute))).Truncate(time.Microsecond)
	}
	h.at(h.now)
	micros := beginning.Add(h.now).UnixMicro()
	if h.f.client.Exists(h.Context(), h.f.key).Val() == 0 {
		require.Less(h, h.units.Tail(), micros, h.what)
		h.clock = model.Clock{}
		for _, t := range h.turns {
			t.void = true
		}
	}
	h.clock.Set(micros)
	if h.rng.IntN(4) == 0 {
		h.f.memory = memory{}
	}
	what := h.what
	switch n := h.rng.IntN(20); {
	case n < 9:
		h.take()
	case n < 12:
		h.leave()
	case n < 16:
		h.settle()
	case n == 16:
		unit := h.rng.IntN(len(h.most))
		left := h.rng.IntN(h.most[unit] + 1)
		require.NoError(h, h.f.Observe(h.Context(), append([]string{""}, h.names...)[unit], left), h.what)
		h.units.Observe(&h.clock, unit, left)
		h.Logf("%v: observe %d: %d", h.now, unit, left)
	case n == 17:
		h.settleAsReserved()
	case n == 18 && h.rng.IntN(3) == 0 && len(h.turns) > 0:
		d := time.Duration(h.rng.Int64N(int64(10*h.pace)) + 1000).Truncate(time.Microsecond)
		if h.f.client.Exists(h.Context(), h.f.key).Val() == 0 {
			return // the model's clock begins with the queue
		}
		require.NoError(h, h.f.Pause(h.Context(), d))
		h.clock.Pause(micros, d.Microseconds())
	}
	h.what = fmt.Sprintf("%s, step %d", what, step)
	h.status()
	h.what = what
}

func (h *unitHistory) take() {
	requests, amounts := make([]engine.Request, 1+h.rng.IntN(4)), [][]int{}
	for i := range requests {
		n := h.someAmounts(amounts)
		requests[i] = engine.Request{N: n[0], Amounts: h.named(n), MaxWait: 1000 * time.Hour}
		if h.rng.IntN(3) == 0 {
			requests[i].MaxWait = time.Duration(h.rng.Int64N(int64(20*h.pace) + 1000)).Truncate(time.Microsecond)
		}
		amounts = append(amounts, n)
	}
	before := h.f.bytes(h)
	answers := take(h, h.f, requests...)
	if !slices.ContainsFunc(answers, func(a engine.Answer) bool { return a.Granted }) {
		require.Equal(h, before, h.f.bytes(h), "%s: a refusal writes nothing", h.what)
	}
	for i, a := range answers {
		slot := h.units.Earliest(h.clock.Now(), amounts[i])
		wait := h.clock.Wait(slot)
		require.Equal(h, wait, a.Wait.Microseconds(), "%s: %v", h.what, requests[i])
		require.Equal(h, wait <= requests[i].MaxWait.Microseconds(), a.Granted, h.what)
		if a.Granted {
			h.units.Take(h.clock.Now(), amounts[i], 1<<60)
			h.turns = append(h.turns, &unitTurn{grant: a.Grant, amounts: amounts[i]})
			h.Logf("%v: take %v -> +%v", h.now, amounts[i], a.Wait)
		}
	}
}

// someAmounts is what a request takes of each unit, behind others.
func (h *unitHistory) someAmounts(before [][]int) []int {
	n := make([]int, len(h.most))
	for u, most := range h.most {
		if h.rng.IntN(3) > 0 {
			n[u] = h.rng.IntN(1 + min(most, 1+h.rng.IntN(most)))
		}
	}
	if len(before) > 0 && h.rng.IntN(3) == 0 {
		copy(n, before[len(before)-1])
	}
	if slices.Max(n) == 0 {
		n[0] = 1
	}
	return n
}

func (h *unitHistory) named(n []int) engine.Amounts {
	var all []engine.Amount
	for i, name := range h.names {
		all = append(all, engine.Amount{Unit: name, N: n[i+1]})
	}
	return engine.AmountsOf(all...)
}

// leave gives back turns that lie ahead.
func (h *unitHistory) leave() {
	var grants []engine.Grant
	for _, t := range h.turns {
		if !t.over && h.rng.IntN(3) == 0 && h.clock.Ahead(t.grant.At) {
			t.over = true
			grants = append(grants, t.grant)
			h.units.Release(t.grant.At, t.amounts)
			h.Logf("%v: back %v at +%d", h.now, t.amounts, t.grant.At-h.clock.Now())
		}
	}
	if len(grants) > 0 {
		giveBack(h, h.f, grants...)
	}
}

// settle settles a turn whose slot has come.
func (h *unitHistory) settle() {
	for _, t := range h.turns {
		if t.over || h.clock.Ahead(t.grant.At) || h.rng.IntN(2) == 0 {
			continue
		}
		t.over = true
		unused := make([]int, len(t.amounts))
		s := t.grant
		s.Settles, s.N = true, 0
		for u, n := range t.amounts {
			switch h.rng.IntN(4) {
			case 0:
				unused[u] = h.rng.IntN(n + 1)
			case 1:
				unused[u] = -h.rng.IntN(1 + min(2*h.most[u], 30))
			}
		}
		s.N, s.Amounts = unused[0], h.named(unused)
		h.Logf("%v: settle %v - %v at +%d", h.now, t.amounts, unused, t.grant.At-h.clock.Now())
		require.NoError(h, h.f.GiveBack(h.Context(), []engine.Grant{s}), h.what)
		if !t.void {
			h.units.Settle(&h.clock, t.grant.At, unused)
		}
		return
	}
}

// settleAsReserved settles turns, or settles them again: not a byte changes.
func (h *unitHistory) settleAsReserved() {
	var grants []engine.Grant
	for _, t := range h.turns {
		if !h.clock.Ahead(t.grant.At) {
			g := t.grant
			g.Settles, g.N, g.Amounts = true, 0, ""
			grants = append(grants, g)
		}
	}
	if len(grants) == 0 {
		return
	}
	before := h.f.bytes(h)
	giveBack(h, h.f, grants[h.rng.IntN(len(grants)):]...)
	require.Equal(h, before, h.f.bytes(h), h.what)
}

// bytes is all that Redis holds of the queue.
func (f *fair) bytes(t testing.TB) [2]string {
	return [2]string{f.client.Get(t.Context(), f.key).Val(), f.client.Get(t.Context(), f.unitsKey()).Val()}
}

func (h *unitHistory) status() {
	status := status(h, h.f)
	require.Equal(h, h.units.Queued(&h.clock, 0), status.Queued, h.what)
	require.Equal(h, h.units.Available(&h.clock, 0), status.Available, h.what)
	for i, name := range h.names {
		require.Equal(h, h.units.Queued(&h.clock, i+1), status.Units[name].Queued, "%s: %s", h.what, name)
		require.Equal(h, h.units.Available(&h.clock, i+1), status.Units[name].Available, "%s: %s", h.what, name)
	}
	one := make([]int, len(h.most))
	one[0] = 1
	require.Equal(h, h.clock.Wait(h.units.Earliest(h.clock.Now(), one)), status.Delay.Microseconds(), h.what)
	h.isTold(status)
}

// isTold requires that Inspect tells the same.
func (h *unitHistory) isTold(status engine.Status) {
	s := inspected(h, h.f)
	if !s.Exists {
		return
	}
	require.InDelta(h, status.Delay, s.Next, float64(2*time.Microsecond), h.what)
	require.Equal(h, int64(status.Queued), s.Backlog, h.what)
	require.Equal(h, int64(status.Available), s.Available, h.what)
	for _, u := range s.Units {
		told := engine.UnitStatus{Available: int(u.Available), Queued: int(u.Backlog)}
		require.Equal(h, status.Units[u.Name], told, "%s, %s", h.what, u.Name)
		require.Equal(h, u.Backlog, u.Granted(0, 1000*time.Hour), "%s, %s", h.what, u.Name)
	}
}

func (h *unitHistory) isStrict() {
	for _, log := range h.units.Logs {
		require.NoError(h, model.Strict(log.Windows, log.Held), h.what)
	}
}

// Flows share turns of several units by what each takes most of. A turn goes at
// the earliest slot that all units allow, or a pace of calls after the newest turn
// while others are active. Shares are those of the model.
func TestFlowsShareTurnsOfSeveralUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(60, 400))) {
			h := &unitShares{unitHistory: anyUnits(t, w, seed), held: map[string][]heldTurn{}}
			h.rng = rand.New(rand.NewPCG(seed, 12))
			for i := range 3 {
				h.members = append(h.members, h.f.joinsAs(t, h.f.quotas, h.f.unitsOf...))
				h.members[i].member = fmt.Sprintf("%03d", i)
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
		n := h.someAmounts(amounts)
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
