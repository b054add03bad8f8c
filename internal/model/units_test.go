package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random histories of turns that use more or less than they reserved, judged by
// their slots and by nothing else: what a window holds is used, and what is owed
// is paid.
func TestWhatTurnsUseKeepsThePromises(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Long(2_000, 40_000)) {
		h := anyUse(t, seed)
		for range 5 + h.rng.IntN(40) {
			h.step()
		}
		h.isUsed()
		h.isPaid()
	}
}

// useHistory is turns of calls and of equal amounts of two more units: tokens,
// which are short, and a sum whose window never ends and always has room.
type useHistory struct {
	*testing.T
	rng   *rand.Rand
	units *Units
	clock Clock
	now   int64
	pace  int64
	most  int
	turns []*usedTurn
	seed  uint64
}

type usedTurn struct {
	slot                  int64
	calls, reserved, used int
	settled               bool
}

const sumOfAll = 1_000_000

func anyUse(t *testing.T, seed uint64) *useHistory {
	h := &useHistory{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 29)), now: beginning}
	permits, per := []int{1, 2, 7, 60}[h.rng.IntN(4)], []int64{second, 999_983, 60 * second}[h.rng.IntN(3)]
	tokens := Windows(permits, per, h.rng.IntN(2)*(1+h.rng.IntN(permits)))
	h.units = NewUnits(Windows(10, second, 0), Windows(sumOfAll, 1000*hour, 0), tokens)
	h.most, h.pace = tokens[len(tokens)-1].Permits, per/(1+h.rng.Int64N(6))
	h.clock.Set(h.now)
	return h
}

func (h *useHistory) step() {
	if h.rng.IntN(2) == 0 {
		h.passes(h.rng.Int64N(2 * h.pace))
	}
	switch h.rng.IntN(5) {
	case 0, 1:
		calls, n := h.rng.IntN(2), 1+h.rng.IntN(h.most)
		slot, _ := h.units.Take(h.clock.Now(), []int{calls, n, n}, 1<<60)
		h.turns = append(h.turns, &usedTurn{slot: slot, calls: calls, reserved: n, used: n})
	case 2:
		h.leave()
	default:
		h.settle(h.rng.IntN(2) == 0)
	}
}

func (h *useHistory) passes(d int64) {
	h.now += d
	h.clock.Set(h.now)
}

// leave gives one turn back that lies ahead.
func (h *useHistory) leave() {
	for i, turn := range h.turns {
		if h.clock.Ahead(turn.slot) && h.rng.IntN(3) == 0 {
			h.units.Release(turn.slot, []int{turn.calls, turn.used, turn.used})
			h.turns = slices.Delete(h.turns, i, i+1)
			return
		}
	}
}

// settle settles turns whose slots have come: all, or any of them.
func (h *useHistory) settle(all bool) {
	for _, turn := range h.turns {
		if turn.settled || h.clock.Ahead(turn.slot) || !all && h.rng.IntN(2) == 0 {
			continue
		}
		turn.settled = true
		turn.used = h.rng.IntN(turn.reserved + h.rng.IntN(1+2*h.most) + 1)
		unused := turn.reserved - turn.used
		h.units.Settle(&h.clock, turn.slot, []int{0, unused, unused})
	}
}

// isUsed: no window holds more than its quota, and what its own turns reserved
// too little.
func (h *useHistory) isUsed() {
	for _, w := range h.units.Logs[2].Windows {
		for _, first := range h.turns {
			used, under := 0, 0
			for _, turn := range h.turns {
				if turn.slot >= first.slot && turn.slot < first.slot+w.Length {
					used += turn.used
					under += max(0, turn.used-turn.reserved)
				}
			}
			require.LessOrEqual(h, used, w.Permits+under, "seed %d", h.seed)
		}
	}
}

// isPaid: whoever asks when all is settled has every debt before it. Once its
// turn comes, as much is booked as was used, which took as long as the quota
// says.
func (h *useHistory) isPaid() {
	one := []int{1, 0, 0}
	h.passes(h.clock.Wait(h.units.Earliest(h.clock.Now(), one)))
	h.settle(true)
	slot, _ := h.units.Take(h.clock.Now(), one, 1<<60)
	h.passes(h.clock.Wait(slot))
	used := 0
	for _, turn := range h.turns {
		used += turn.used
	}
	for unit := range h.units.Logs {
		require.Zero(h, h.units.Queued(&h.clock, unit), "seed %d", h.seed)
	}
	require.Equal(h, sumOfAll-used, h.units.Available(&h.clock, 1), "seed %d", h.seed)
	for _, w := range h.units.Logs[2].Windows {
		lengths := 1 + (h.now-beginning)/w.Length
		require.LessOrEqual(h, used, int(lengths)*w.Permits, "seed %d", h.seed)
	}
}
