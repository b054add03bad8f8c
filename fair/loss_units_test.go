package fair

import (
	"cmp"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

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
	if h.settled += len(grants); len(grants) > 0 {
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
