package fair

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

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

// learns adds what was told to somebody. It returns how many turns are new.
func (c comings) learns(more comings) (count int) {
	for p, due := range more {
		if _, known := c[p]; !known {
			count++
		}
		c[p] = max(c[p], due)
	}
	return count
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
			h.granted++
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
		h.restored += h.counts.learns(m.told)
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
