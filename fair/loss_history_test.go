package fair

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Servers take over at random, each with one of the last states, while the queue
// is used and steered in every way. No turn that is granted exceeds a window of
// its limiter, over all turns of which the queue can know: see comings.
func TestNoLossExceedsAWindowOverWhatLimitersWereToldOf(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for what, also := range map[string]happens{
			"alone":                 {},
			"with pauses":           {pauses: true},
			"with resets":           {pauses: true, resets: true, deletes: true},
			"with different quotas": {pauses: true, mixed: true},
			"with flows":            {pauses: true, deletes: true, flows: true},
			"with late returns":     {late: true, deletes: true},
			"with units":            {units: true, pauses: true, resets: true, deletes: true},
			"with units and flows":  {units: true, pauses: true, resets: true, deletes: true, flows: true},
			"with other units":      {units: true, pauses: true, mixed: true},
		} {
			t.Run(what, func(t *testing.T) {
				var all counted
				defer func() { t.Logf("%+v", all) }()
				for seed := range uint64(redistest.Long(max(1, 12/w.share), 180/w.share)) {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						h := anyForgetful(t, w, seed, also)
						for range 120 {
							if h.step(); h.forgot() {
								break
							}
						}
						all.add(h.counted)
					})
				}
			})
		}
	})
}

// happens says what happens besides turns, returns, failovers, and limiters that
// start anew.
type happens struct {
	pauses, resets bool
	deletes        bool // of the key
	mixed          bool // two limiters have further quotas
	flows          bool // three limiters have one
	late           bool // turns are given back whose moment has come
	units          bool // three limiters have some
}

// counted is how often something happened.
type counted struct{ granted, returned, failedOver, paused, reset, deleted, restored, settled int }

func (c *counted) add(more counted) {
	c.granted += more.granted
	c.returned += more.returned
	c.failedOver += more.failedOver
	c.paused += more.paused
	c.reset += more.reset
	c.deleted += more.deleted
	c.restored += more.restored
	c.settled += more.settled
}

// moment is what a server may take over with.
type moment struct {
	snapshot
	counts comings
}

// forgetful is a queue that its servers forget, and four limiters that remember
// it, each up to its last answer. All clocks agree, which is where the oracle is
// exact: a server that is behind tells of later moments for a while.
type forgetful struct {
	*testing.T
	happens
	counted
	what string

	rng     *rand.Rand
	at      func(time.Duration)
	now     time.Duration
	members []*member

	observer *fair // asks nothing, so that it only hears
	view     engine.News

	promises []*promise
	counts   comings // of which the queue can know
	past     []moment
}

func anyForgetful(t *testing.T, w world, seed uint64, also happens) *forgetful {
	h := &forgetful{T: t, happens: also, rng: rand.New(rand.NewPCG(seed, 77)), counts: comings{}}
	given := quotas(t, []string{
		"1/1s", "3/1s", "20/1s burst 1", "300/2s", "5/1s 20/10s", "20/3s burst 3",
	}[h.rng.IntN(6)])
	h.what = fmt.Sprintf("seed %d, %v", seed, given)
	h.observer, h.at = w.queue(t, given...)
	h.observer.heard = func(n *engine.News) { h.view = *n }
	moves(t, h.observer)
	for i := range 4 {
		m := &member{quotas: slices.Clone(given)}
		if also.mixed && i > 1 {
			m.quotas = append(m.quotas, quotas(t, []string{"40/7s", "30/4s burst 6"}[i-2])...)
		}
		if also.flows && i > 0 {
			m.flow = &engine.Flow{ID: "abb"[i-1 : i], Weight: i, LookAhead: 50}
		}
		if also.units && i > 0 {
			m.units = h.someUnits(i)
		}
		h.members = append(h.members, m)
		h.starts(m)
		if also.mixed { // a quota counts from when the queue first hears of it
			h.asks(m, engine.Request{N: 1, Amounts: m.ofEach(1), MaxWait: engine.Forever})
		}
	}
	return h
}

func (h *forgetful) step() {
	h.now += time.Duration(h.rng.IntN(2)*h.rng.IntN(400)) * time.Millisecond
	h.now += 10 * time.Microsecond // a script takes longer
	h.at(h.now)
	m := h.members[h.rng.IntN(len(h.members))]
	switch action := h.rng.IntN(52); {
	case action < 4 && len(h.past) > 0:
		h.failsOver()
	case action == 4 && h.deletes:
		h.loses()
	case action == 5 && h.resets:
		h.resetBy(m)
	case action == 6:
		h.starts(m)
	case action < 9 && h.pauses:
		h.pausedBy(m)
	case action < 16:
		h.leave(m)
	case action < 20:
		h.question(m, func() { status(h.T, m.fair) })
	case action < 27 && len(m.units) > 0:
		h.settles(m)
	case action == 27 && len(m.units) > 0:
		h.observes(m)
	default:
		h.come(m)
	}
	h.look()
	h.past = append(h.past, moment{snap(h.T, h.observer), maps.Clone(h.counts)})
}

// forgot reports whether the state has forgotten a primary, as it knows some
// seven. Then it takes any that it does not know for a forgotten one, and turns
// that were lost do not count if others were granted as many since.
func (h *forgetful) forgot() bool {
	return strings.Contains(h.past[len(h.past)-1].state, " - ")
}

// starts makes a limiter one that was told of nothing, as that of a new process.
func (h *forgetful) starts(m *member) {
	m.fair, m.told = h.observer.joins(h, m.quotas...), nil
	if len(m.units) > 0 {
		t, err := m.quotaSetOf(m.quotas, m.units, "")
		require.NoError(h, err)
		t.head = m.head
		m.quotaSet = t
	}
	m.heard = func(n *engine.News) { h.hears(m, n) }
}

// failsOver lets another server take over, with one of the last states.
func (h *forgetful) failsOver() {
	h.failedOver++
	i := max(0, len(h.past)-1-h.rng.IntN(8))
	h.past[i].restore(h.T, h.observer)
	h.counts, h.past = maps.Clone(h.past[i].counts), h.past[:i+1]
}

// loses deletes the key.
func (h *forgetful) loses() {
	h.deleted++
	keys := []string{h.observer.key, h.observer.unitsKey()}
	require.NoError(h, h.observer.client.Del(h.Context(), keys[:1+h.rng.IntN(2)]...).Err())
	h.counts = comings{}
}

// resetBy forgets all turns. Their callers line up again.
func (h *forgetful) resetBy(m *member) {
	h.reset++
	require.NoError(h, m.Reset(h.Context()))
	for _, p := range h.promises {
		p.void = true
	}
	h.counts = comings{}
}

func (h *forgetful) pausedBy(m *member) {
	h.paused++
	h.question(m, func() { pause(h.T, m.fair, time.Duration(1+h.rng.IntN(1000))*time.Millisecond) })
}

// leave gives some of the last turns back, whoever holds them. One whose moment
// has come counts nevertheless.
func (h *forgetful) leave(m *member) {
	var grants []engine.Grant
	for _, p := range h.promises[max(0, len(h.promises)-25):] {
		gone := p.due <= h.now
		if p.void || p.settled || gone && !h.late || h.rng.IntN(4) > 0 {
			continue
		}
		p.void = !gone
		grants = append(grants, p.Grant)
	}
	if h.returned += len(grants); len(grants) == 0 {
		return // nothing is asked
	}
	h.question(m, func() { giveBack(h.T, m.fair, grants...) })
}

// come lets callers of a limiter ask.
func (h *forgetful) come(m *member) {
	r := engine.Request{N: 1, MaxWait: engine.Forever}
	if h.rng.IntN(4) == 0 {
		r.N = 1 + h.rng.IntN(min(m.most, 5))
	}
	if h.rng.IntN(3) == 0 {
		r.MaxWait = time.Duration(h.rng.IntN(1500)) * time.Millisecond
	}
	if len(m.units) > 0 {
		r.Amounts = h.someAmounts(m)
		r.N = h.rng.IntN(r.N + 1)
	}
	if r.N == 0 && r.Amounts == "" {
		r.N = 1
	}
	if m.flow != nil {
		r.Cost = m.CostOf(r.N, r.Amounts)
		m.flow.Ahead, r.Flow = h.rng.IntN(3), m.flow
	}
	h.asks(m, slices.Repeat([]engine.Request{r}, 1+h.rng.IntN(3))...)
}
