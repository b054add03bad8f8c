package fair

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random histories of turns that use more or less than they reserved, judged by
// the slots that the engine gave and by nothing else: what a window holds is
// used, and what is owed is paid.
func TestWhatTurnsUseKeepsThePromises(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(600, 1200))) {
			h := anyUse(t, w, seed)
			for range 5 + h.rng.IntN(40) {
				h.step()
			}
			h.isUsed()
			h.isPaid()
		}
	})
}

// useHistory is a queue whose turns take equal amounts of two units: of "tokens",
// which is short, and of "sum", whose window never ends and always has room.
type useHistory struct {
	*testing.T
	rng   *rand.Rand
	f     *fair
	at    func(time.Duration)
	now   time.Duration
	pace  time.Duration
	most  int
	turns []*usedTurn
	what  string
}

type usedTurn struct {
	grant          engine.Grant
	reserved, used int
	settled        bool
}

const sumOfAll = 1_000_000

func anyUse(t *testing.T, w world, seed uint64) *useHistory {
	h := &useHistory{T: t, rng: rand.New(rand.NewPCG(seed, 29))}
	tokens := engine.Quota{
		Permits: []int{1, 2, 7, 60}[h.rng.IntN(4)],
		Per:     []time.Duration{time.Second, 999_983 * time.Microsecond, time.Minute}[h.rng.IntN(3)],
	}
	if h.rng.IntN(3) == 0 {
		tokens.Burst = 1 + h.rng.IntN(tokens.Permits)
	}
	e, err := New(engine.Config{
		Client: w.rdb, Name: fmt.Sprint(t.Name(), seed), Quota: engine.Quota{Permits: 10, Per: time.Second},
		Units: []engine.Unit{
			{Name: "sum", Quotas: []engine.Quota{{Permits: sumOfAll, Per: 1000 * time.Hour}}},
			{Name: "tokens", Quotas: []engine.Quota{tokens}},
		},
	})
	require.NoError(t, err)
	h.f = e.(*fair)
	h.at = w.clock(t, h.f)
	h.at(0)
	h.most, h.pace = h.f.units[1].most, tokens.Per/time.Duration(1+h.rng.IntN(6))
	h.what = fmt.Sprintf("seed %d, %v", seed, tokens)
	return h
}

func (h *useHistory) step() {
	if h.rng.IntN(2) == 0 {
		h.now += time.Duration(h.rng.Int64N(int64(2 * h.pace))).Truncate(time.Microsecond)
		h.at(h.now)
	}
	switch h.rng.IntN(5) {
	case 0, 1:
		h.take(1 + h.rng.IntN(h.most))
	case 2:
		h.leave()
	default:
		h.settle(h.rng.IntN(2) == 0)
	}
}

func ofBoth(n int) engine.Amounts {
	return engine.AmountsOf(engine.Amount{Unit: "sum", N: n}, engine.Amount{Unit: "tokens", N: n})
}

func (h *useHistory) take(n int) {
	a := take(h, h.f, amount(h.rng.IntN(2), ofBoth(n)))[0]
	h.turns = append(h.turns, &usedTurn{grant: a.Grant, reserved: n, used: n})
}

// leave gives one turn back that lies ahead.
func (h *useHistory) leave() {
	for i, turn := range h.turns {
		if turn.grant.At > h.micros() && h.rng.IntN(3) == 0 {
			giveBack(h, h.f, turn.grant)
			h.turns = append(h.turns[:i], h.turns[i+1:]...)
			return
		}
	}
}

// settle settles turns whose slots have come: all, or any of them.
func (h *useHistory) settle(all bool) {
	var grants []engine.Grant
	for _, turn := range h.turns {
		if turn.settled || turn.grant.At > h.micros() || !all && h.rng.IntN(2) == 0 {
			continue
		}
		turn.settled = true
		turn.used = h.rng.IntN(turn.reserved + h.rng.IntN(1+2*h.most) + 1)
		g, unused := turn.grant, turn.reserved-turn.used
		g.Settles, g.N, g.Amounts = true, 0, ofBoth(unused)
		grants = append(grants, g)
	}
	if len(grants) > 0 {
		giveBack(h, h.f, grants...)
	}
}

func (h *useHistory) micros() int64 { return beginning.Add(h.now).UnixMicro() }

// isUsed: no window holds more than its quota, and what its own turns reserved
// too little.
func (h *useHistory) isUsed() {
	for _, w := range h.f.units[1].windows {
		for _, first := range h.turns {
			used, under := 0, 0
			for _, turn := range h.turns {
				if turn.grant.At >= first.grant.At && turn.grant.At < first.grant.At+w.Length {
					used += turn.used
					under += max(0, turn.used-turn.reserved)
				}
			}
			require.LessOrEqual(h, used, w.Permits+under, h.what)
		}
	}
}

// isPaid: whoever asks when all is settled has every debt before it. Once its
// turn comes, as much is booked as was used, which took as long as the quota
// says.
func (h *useHistory) isPaid() {
	h.at(h.wakes(status(h, h.f).Delay))
	h.settle(true)
	h.at(h.wakes(queuedWait(h, h.f))) // of calls alone
	s := status(h, h.f)
	require.Zero(h, s.Queued, h.what)
	require.Zero(h, s.Units["tokens"].Queued, h.what)
	require.Zero(h, s.Units["sum"].Queued, h.what)
	used := 0
	for _, turn := range h.turns {
		used += turn.used
	}
	require.Equal(h, sumOfAll-used, s.Units["sum"].Available, h.what)
	for _, w := range h.f.units[1].windows {
		lengths := 1 + (h.micros()-beginning.UnixMicro())/w.Length
		require.LessOrEqual(h, used, int(lengths)*w.Permits, h.what)
	}
}

func (h *useHistory) wakes(after time.Duration) time.Duration {
	h.now += after
	return h.now
}

// itsOwn is what two equal queues have apart: server, generation and epoch.
var itsOwn = regexp.MustCompile(`\n[^ ]+ [^ ]+ [^ ]+ [^ ]+ `)

// Random histories of calls: units that nobody uses change neither an answer nor
// a byte.
func TestUnitsThatNobodyUsesChangeNothing(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(120, 300))) {
			rng := rand.New(rand.NewPCG(seed, 30))
			calls := engine.Quota{Permits: 1 + rng.IntN(20), Per: time.Second}
			var queues [2]*fair
			var at [2]func(time.Duration)
			for i, units := range [][]engine.Unit{nil, {{Name: "tokens", Quotas: []engine.Quota{calls}}}} {
				e, err := New(engine.Config{Client: w.rdb, Name: fmt.Sprint(t.Name(), seed, i), Quota: calls, Units: units})
				require.NoError(t, err)
				queues[i] = e.(*fair)
				at[i] = w.clock(t, queues[i])
			}
			var grants [2][]engine.Grant
			now := time.Duration(0)
			for range 30 {
				now += time.Duration(rng.Int64N(int64(time.Second / 3))).Truncate(time.Microsecond)
				longest := time.Duration(rng.Int64N(int64(3 * time.Second)))
				request := engine.Request{N: 1 + rng.IntN(calls.Permits), MaxWait: longest}
				what, any := rng.IntN(4), rng.Int()
				var state, told [2]string
				for i, q := range queues {
					at[i](now)
					switch {
					case what < 2:
						a := take(t, q, request)[0]
						told[i] = fmt.Sprint(a.Wait, a.Granted)
						if a.Granted {
							grants[i] = append(grants[i], a.Grant)
						}
					case what == 2 && len(grants[i]) > 0:
						giveBack(t, q, grants[i][any%len(grants[i])])
					case any%3 == 0:
						pause(t, q, time.Second)
					}
					state[i] = itsOwn.ReplaceAllString(q.bytes(t)[0], "")
				}
				require.Equal(t, told[0], told[1])
				require.Equal(t, state[0], state[1], "seed %d", seed)
			}
			require.Zero(t, w.rdb.Exists(t.Context(), queues[1].unitsKey()).Val())
		}
	})
}
