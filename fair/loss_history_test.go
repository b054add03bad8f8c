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

// Servers take over at random from any earlier state, and the key is lost, while
// the queue is used and steered in every way. No turn that is granted exceeds a
// window of its limiter, over all turns that the queue can know of: those in the
// state that the server has, and those that limiters were told of that have
// asked since. What else a server lost may exceed a window: see docs/LIMITS.md.
func TestNoLossExceedsAWindowOverWhatLimitersWereToldOf(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for what, also := range map[string]happens{
		"failovers":        {},
		"and pauses":       {pauses: true},
		"and resets":       {pauses: true, resets: true, deletes: true},
		"and mixed quotas": {pauses: true, mixed: true},
		"and flows":        {pauses: true, deletes: true, flows: true},
		"and late returns": {late: true, deletes: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var all counted
			defer func() { t.Logf("%+v", all) }()
			for seed := range uint64(redistest.Long(3, 60)) {
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
}

// happens says what happens besides turns, returns and failovers.
type happens struct {
	pauses, resets bool
	deletes        bool // of the key
	mixed          bool // some limiters have further quotas
	flows          bool // some limiters have one
	late           bool // turns are given back whose moment has come
}

// counted is how often something happened.
type counted struct{ granted, returned, failedOver, paused, reset, deleted, restored int }

func (c *counted) add(more counted) {
	c.granted += more.granted
	c.returned += more.returned
	c.failedOver += more.failedOver
	c.paused += more.paused
	c.reset += more.reset
	c.deleted += more.deleted
	c.restored += more.restored
}

// promise is a turn that was granted.
type promise struct {
	engine.Grant
	to   *member
	due  time.Duration // when its caller goes
	void bool          // nobody goes: it was given back, or forgotten by a reset
}

// comings is when turns come. Each is the latest that was told.
type comings map[*promise]time.Duration

func (c comings) later(more comings) (added int) {
	for p, due := range more {
		if _, known := c[p]; !known {
			added++
		}
		c[p] = max(c[p], due)
	}
	return added
}

// member is a limiter with what it was told: of all turns that counted at the
// last answer of which it keeps the position.
type member struct {
	*fair
	quotas []engine.Quota
	flow   *engine.Flow
	told   comings
}

// moment is what a server has kept.
type moment struct {
	snapshot
	counts comings
}

// forgetful is a queue that its servers forget.
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
	counts   comings // what the queue can know of
	past     []moment
}

func anyForgetful(t *testing.T, w world, seed uint64, also happens) *forgetful {
	h := &forgetful{T: t, happens: also, rng: rand.New(rand.NewPCG(seed, 77)), counts: comings{}}
	quotas := [][]engine.Quota{
		{{Permits: 1, Per: time.Second}},
		{{Permits: 3, Per: time.Second}},
		{{Permits: 20, Per: time.Second, Burst: 1}},
		{{Permits: 300, Per: 2 * time.Second}},
		{{Permits: 5, Per: time.Second}, {Permits: 20, Per: 10 * time.Second}},
		{{Permits: 20, Per: 3 * time.Second, Burst: 3}},
	}[h.rng.IntN(6)]
	h.what = fmt.Sprintf("seed %d, %v", seed, quotas)
	h.observer, h.at = w.queue(t, quotas...)
	h.observer.heard = func(n *engine.News) { h.view = *n }
	moves(t, h.observer)
	for i := range 4 {
		m := &member{quotas: slices.Clone(quotas)}
		if also.mixed && i > 1 {
			m.quotas = append(m.quotas, []engine.Quota{
				{Permits: 40, Per: 7 * time.Second}, {Permits: 30, Per: 4 * time.Second, Burst: 6},
			}[i-2])
		}
		if also.flows && i > 0 {
			m.flow = &engine.Flow{ID: "abb"[i-1 : i], Weight: i, LookAhead: 50}
		}
		h.members = append(h.members, m)
		h.starts(m)
		if also.mixed { // a quota counts from when the queue first hears of it
			h.asks(m, engine.Request{N: 1, MaxWait: engine.Forever})
		}
	}
	return h
}

func (h *forgetful) step() {
	h.now += time.Duration(h.rng.IntN(2)*h.rng.IntN(400)) * time.Millisecond
	h.now += 10 * time.Microsecond // no two scripts run in the same two
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
	default:
		h.come(m)
	}
	h.look()
	h.past = append(h.past, moment{snap(h.T, h.observer), maps.Clone(h.counts)})
}

// forgot reports whether the state has forgotten a primary that took over, as it
// knows some seven. Then turns that one granted which was lost may count as if
// they had been granted by that one, and so not at all.
func (h *forgetful) forgot() bool {
	return strings.Contains(h.past[len(h.past)-1].state, "\nepochs - ")
}

// starts makes a limiter one that knows of nothing, as that of a new process.
func (h *forgetful) starts(m *member) {
	m.fair, m.told = h.observer.joins(h, m.quotas...), nil
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
	require.NoError(h, h.observer.client.Del(h.Context(), h.observer.key).Err())
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
		if p.void || gone && !h.late || h.rng.IntN(4) > 0 {
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
	if m.flow != nil {
		m.flow.Ahead, r.Flow = h.rng.IntN(3), m.flow
	}
	h.asks(m, slices.Repeat([]engine.Request{r}, 1+h.rng.IntN(3))...)
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
			h.promises, h.counts[p] = append(h.promises, p), p.due
			h.granted++
		}
	})
	for _, p := range h.promises[first:] {
		for _, w := range m.windows {
			h.keeps(p, w)
		}
	}
}

// keeps checks the window that ends with a turn which has just been granted.
func (h *forgetful) keeps(granted *promise, w window) {
	end, permits := h.counts[granted], 0
	for p, due := range h.counts {
		if !p.void && due <= end && due > end-microseconds(w.Length) {
			permits += p.N
		}
	}
	require.LessOrEqual(h, permits, w.Permits, "%s, at %v: turns of %v up to %v", h.what, h.now, microseconds(w.Length), end)
}

// question lets a limiter ask anything. It sends its position along, so the
// queue can know from now on of all that the limiter was told. And where the
// position is new, the limiter was told of all that counts.
func (h *forgetful) question(m *member, ask func()) {
	before := m.position.now()
	if before.text != "" {
		h.restored += h.counts.later(m.told)
	}
	ask()
	h.settle()
	if m.position.now() != before {
		m.told = maps.Clone(h.counts)
		// The test's clock runs at another pace than the process's, by which
		// nothing of this is over.
		m.position.expires = time.Now().Add(time.Hour)
		m.position.goesOn = m.position.expires
	}
}

// settle puts turns off if the queue's clock now comes to them later. Those that
// it has passed count from when they came, though a pause may hold back a caller
// that was told of a later moment by a server whose pause was lost.
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
