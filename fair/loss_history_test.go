package fair

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
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
				for seed := range uint64(redistest.Long(max(1, 12/w.share), 180/w.share)) {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						h := anyForgetful(t, w, seed, also)
						for range 120 {
							if h.step(); h.forgot() {
								break
							}
						}
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
//
// Nor is it known what of the units was lost in a failover that follows the loss of
// a whole queue: such an epoch is noted with no sequence at its end.
func (h *forgetful) forgot() bool {
	state := h.past[len(h.past)-1].state
	return strings.Contains(state, " - ") || h.happens.units && lostEpoch.MatchString(state)
}

var lostEpoch = regexp.MustCompile(` [0-9a-z]{8} 0 \d+`)

// starts makes a limiter one that was told of nothing, as that of a new process.
func (h *forgetful) starts(m *member) {
	m.fair, m.told = h.observer.joinsAs(h, m.quotas, m.units...), nil
	m.heard = func(n *engine.News) { h.hears(m, n) }
}

// failsOver lets another server take over, with one of the last states.
func (h *forgetful) failsOver() {
	i := max(0, len(h.past)-1-h.rng.IntN(8))
	h.past[i].restore(h.T, h.observer)
	h.counts, h.past = maps.Clone(h.past[i].counts), h.past[:i+1]
}

// loses deletes the key.
func (h *forgetful) loses() {
	keys := []string{h.observer.key, h.observer.unitsKey()}
	require.NoError(h, h.observer.client.Del(h.Context(), keys[:1+h.rng.IntN(2)]...).Err())
	h.counts = comings{}
}

// resetBy forgets all turns. Their callers line up again.
func (h *forgetful) resetBy(m *member) {
	require.NoError(h, m.Reset(h.Context()))
	for _, p := range h.promises {
		p.void = true
	}
	h.counts = comings{}
}

func (h *forgetful) pausedBy(m *member) {
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
	if len(grants) == 0 {
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

// promise is a turn that was granted.
type promise struct {
	engine.Grant
	settled bool
	parts   []*promise // one for each unit
	unit    string     // of a part
	whole   *promise   // of a part
	to      *member
	due     time.Duration // when its caller goes
	void    bool          // nobody goes: it was given back, or forgotten by a reset
}

// comings is when turns come: the latest that was told of each. Those of which
// the queue can know are in the state that the server has, or a limiter that was
// told of them has asked since. Any others were lost, and a limiter that was not
// told of them may be granted as many beside them: docs/LIMITS.md admits that.
type comings map[*promise]time.Duration

// learns adds what was told to somebody.
func (c comings) learns(more comings) {
	for p, due := range more {
		c[p] = max(c[p], due)
	}
}

// member is a limiter with what it was told: of all turns that counted at the
// last answer of which it keeps the watermark.
type member struct {
	*fair
	quotas []engine.Quota
	units  []engine.Unit
	flow   *engine.Flow
	told   comings
}

// asks holds what is granted to every window of the limiter.
func (h *forgetful) asks(m *member, requests ...engine.Request) {
	first := len(h.promises)
	h.question(m, func() {
		answers, err := m.Take(h.Context(), requests)
		require.NoError(h, err, h.what)
		for _, a := range answers {
			if !a.Granted {
				continue
			}
			p := &promise{Grant: a.Grant, to: m, due: h.now + a.Wait}
			h.isInOrder(p)
			h.promises, h.counts[p] = append(h.promises, p), p.due
			for _, amount := range p.Amounts.All() {
				part := &promise{Grant: p.Grant, unit: amount.Unit, whole: p}
				p.parts, h.counts[part] = append(p.parts, part), p.due
			}
		}
	})
	for _, p := range h.promises[first:] {
		for _, w := range m.windows {
			h.keeps(w, "", p, h.promises[first:])
		}
		for _, part := range p.parts {
			for _, w := range m.fair.units[m.fair.unit(part.unit)].windows {
				h.keeps(w, part.unit, part, h.promises[first:])
			}
		}
	}
}

// keeps checks each window in which a fresh turn lies. One that ends with a later
// turn may have been exceeded before, by a limiter that was told too little.
func (h *forgetful) keeps(w window, unit string, granted *promise, fresh []*promise) {
	due := h.counts[granted]
	if granted.of(unit) == 0 {
		return
	}
	for p, end := range h.counts {
		if p.isVoid() || end < due || end >= due+microseconds(w.Length) {
			continue
		}
		all, before := 0, 0
		for other, at := range h.counts {
			if other.isVoid() || at > end || at <= end-microseconds(w.Length) {
				continue
			}
			if all += other.of(unit); !slices.Contains(fresh, cmp.Or(other.whole, other)) {
				before += other.of(unit)
			}
		}
		if end == due || before <= w.Permits {
			require.LessOrEqual(h, all, w.Permits,
				"%s, at %v: permits of %q in %v up to %v", h.what, h.now, unit, microseconds(w.Length), end)
		}
	}
}

// question lets a limiter ask anything. It sends its watermark along, so the
// queue can know from now on of all that the limiter was told. And where the
// watermark is new, the limiter was told of all that counts.
func (h *forgetful) question(m *member, ask func()) {
	before := m.memory.now()
	m.memory.news.Arrived = time.Now() // by this process's clock nothing is over
	if before.text != "" {
		h.counts.learns(m.told)
	}
	ask()
	h.settle()
	if now := m.memory.now(); now != before && (len(m.units) == 0 || now.units != before.units) {
		m.told = maps.Clone(h.counts)
		maps.DeleteFunc(m.told, func(p *promise, _ time.Duration) bool { return p.unit != "" && m.unit(p.unit) < 0 })
	}
}

// settle puts turns off to which the queue's clock now comes later. It does not
// come again to one that it has passed. The caller of such a turn may still wait,
// as it was told of a later moment in a pause that was lost. If the queue is
// paused once more, it goes even later, and nobody counts that.
func (h *forgetful) settle() {
	h.view = engine.News{}
	require.NoError(h, h.observer.Look(h.Context()))
	for p, due := range h.counts {
		if p.ID == h.view.Queue && due > h.now && p.At >= h.view.Clock {
			h.counts[p] = max(due, h.now+h.view.Until(p.At))
		}
	}
}

// look tells everybody how things stand, as it does limiters whose callers wait.
func (h *forgetful) look() {
	for _, m := range h.members {
		require.NoError(h, m.Look(h.Context()))
	}
}

// hears is what callers of a limiter do at news: they go later, but never
// sooner. If the queue was reset, they line up again.
func (h *forgetful) hears(m *member, n *engine.News) {
	for _, p := range h.promises {
		if p.to != m || p.void || p.due <= h.now {
			continue
		}
		if p.ID == n.Queue {
			p.due = max(p.due, h.now+n.Until(p.At))
		} else if n.Reset {
			p.void = true
		}
	}
}

// of is how much a turn counts of a unit: what it was granted, or what it used
// if that was less.
func (p *promise) of(unit string) int {
	switch {
	case p.unit != unit:
		return 0
	case p.whole != nil:
		return p.whole.Amounts.Of(unit)
	}
	return p.N
}

func (p *promise) isVoid() bool { return cmp.Or(p.whole, p).void }

// someUnits has tokens, and for some points. Some have further quotas of them.
func (h *forgetful) someUnits(member int) []engine.Unit {
	tokens := quotas(h, []string{"100/1s", "7/3s", "50/10s burst 20"}[(member*h.rng.IntN(2))%3])
	if h.mixed && member == 2 {
		tokens = append(tokens, quotas(h, "60/7s")...)
	}
	units := []engine.Unit{{Name: "tokens", Quotas: h.tokens(tokens)}}
	if member == 3 {
		units = append([]engine.Unit{{Name: "points", Quotas: quotas(h, "5/2s")}}, units...)
	}
	return units
}

// tokens are the same for all, unless limiters have different quotas.
func (h *forgetful) tokens(drawn []engine.Quota) []engine.Quota {
	for _, m := range h.members {
		if len(m.units) > 0 && !h.mixed {
			return m.units[len(m.units)-1].Quotas
		}
	}
	return drawn
}

// ofEach is so much of each unit.
func (m *member) ofEach(n int) engine.Amounts {
	var all []engine.Amount
	for _, u := range m.units {
		all = append(all, engine.Amount{Unit: u.Name, N: n})
	}
	return engine.AmountsOf(all...)
}

func (h *forgetful) someAmounts(m *member) engine.Amounts {
	var all []engine.Amount
	for _, u := range m.fair.units {
		all = append(all, engine.Amount{Unit: u.name, N: h.rng.IntN(2) * h.rng.IntN(1+u.most)})
	}
	return engine.AmountsOf(all...)
}

// settles says of turns whose moment has come what they used. What they used
// more is no turn of anybody.
func (h *forgetful) settles(m *member) {
	var grants []engine.Grant
	for _, p := range h.promises[max(0, len(h.promises)-25):] {
		if p.void || p.settled || p.due > h.now || h.rng.IntN(2) > 0 {
			continue
		}
		p.settled = true
		g, used := p.Grant, []engine.Amount{}
		g.Settles, g.N = true, 0
		var unused []engine.Amount
		for _, u := range m.fair.units {
			had := p.Amounts.Of(u.name)
			n := h.rng.IntN(had + 1)
			if h.rng.IntN(3) == 0 {
				n = -h.rng.IntN(min(2*u.most, 30))
			}
			unused = append(unused, engine.Amount{Unit: u.name, N: n})
			used = append(used, engine.Amount{Unit: u.name, N: min(had, had-n)})
		}
		g.Amounts = engine.AmountsOf(unused...)
		for _, a := range p.Amounts.All() {
			if m.fair.unit(a.Unit) < 0 {
				used = append(used, a)
			}
		}
		p.Amounts = engine.AmountsOf(used...)
		grants = append(grants, g)
	}
	if len(grants) > 0 {
		h.question(m, func() { giveBack(h.T, m.fair, grants...) })
	}
}

func (h *forgetful) observes(m *member) {
	u := m.fair.units[h.rng.IntN(len(m.fair.units))]
	h.question(m, func() { require.NoError(h, m.Observe(h.Context(), u.name, h.rng.IntN(u.most+1)), h.what) })
}

// isInOrder: nobody is granted a turn before one that counts. Who counts calls
// only does not know of turns without any that were lost.
func (h *forgetful) isInOrder(granted *promise) {
	for p, due := range h.counts {
		require.True(h, p.isVoid() || p.of("") == 0 || due <= granted.due, fmt.Sprintf("%s, at %v: one goes at %v, before %v",
			h.what, h.now, granted.due, due))
	}
}
