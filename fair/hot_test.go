package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// generalTake is the script to take without its straight way.
var generalTake = behind(stillClock, assemble(
	"head open notes clock log windows grid histogram cells behind compact add epochs recover begin write grant take"))

// straightTake is nothing but the straight way.
var straightTake = lua.New(
	stillClock + assemble("head open hot").Source() + " return redis.error_reply('FELL through')",
)

// twice sends one question to the state as it is, both ways, and requires the
// same reply and the same state, to the byte.
type twice struct {
	*fair
	context         string
	asked, straight int
}

func (b *twice) take(t *testing.T, requests ...engine.Request) []engine.Answer {
	ctx := t.Context()
	args, asked := b.takeArgs(b.terms, requests)
	before, left := b.client.Get(ctx, b.key).Val(), b.client.PTTL(ctx, b.key).Val()
	restore := func() {
		if before == "" {
			require.NoError(t, b.client.Del(ctx, b.key).Err())
		} else {
			require.NoError(t, b.client.Set(ctx, b.key, before, max(0, left)).Err())
		}
	}
	b.asked++
	if _, err := b.ask(ctx, straightTake, args); err == nil {
		b.straight++
	}
	start := time.Now() // before the server begins to count the life of the key down
	restore()
	general, generalErr := b.ask(ctx, generalTake, args)
	ttl := b.client.PTTL(ctx, b.key).Val()
	took := time.Since(start)
	state := b.client.Get(ctx, b.key).Val()
	start = time.Now()
	restore()
	straight, straightErr := b.ask(ctx, b.scripts.take, args)
	straightTTL := b.client.PTTL(ctx, b.key).Val()
	took = max(took, time.Since(start))
	about := fmt.Sprintf("%s\nbefore  %q\nargs    %q", b.context, before, args)
	require.Equal(t, generalErr, straightErr, about)
	require.Equal(t, general.said, straight.said, about)
	require.Equal(t, state, b.client.Get(ctx, b.key).Val(), about)
	require.InDelta(t, float64(ttl), float64(straightTTL), float64(took+time.Second), about)
	require.NoError(t, straightErr, about)
	o, err := b.decode(straight.said, requests[:asked])
	require.NoError(t, err, about)
	if o.seen.text != "" {
		b.position.learn(o.seen, o.left)
	}
	return o.answers
}

func TestTheStraightWayIsTheGeneralOne(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for i, quota := range []engine.Quota{
		{Permits: 1, Per: time.Second},
		{Permits: 1, Per: 7 * time.Microsecond},
		{Permits: 2, Per: time.Second},
		{Permits: 10, Per: time.Second},
		{Permits: 300, Per: time.Second},
		{Permits: 1000, Per: 777 * time.Millisecond},
		{Permits: 1000, Per: 24 * time.Hour},
		{Permits: 1_000_000_000, Per: time.Second},
	} {
		for seed := range 3 {
			t.Run(fmt.Sprint(quota, seed), func(t *testing.T) {
				t.Parallel()
				f, at := w.queue(t, quota)
				b := &twice{fair: f}
				randomHistory(t, b, at, rand.New(rand.NewPCG(uint64(i), uint64(seed))), seed)
				t.Logf("%d of %d went straight", b.straight, b.asked)
				if seed == 0 {
					require.Greater(t, 4*b.straight, b.asked, "the straight way is hardly tried")
				}
			})
		}
	}
}

// randomHistory is a random history: calls at one moment, close together or far
// apart, alone or together, with and without patience; and the odder, the more
// often returns, losses, other servers, resets, pauses, clocks set back.
func randomHistory(t *testing.T, b *twice, at func(time.Duration), rng *rand.Rand, oddity int) {
	per := time.Duration(b.windows[0].Length) * time.Microsecond
	interval := per / time.Duration(b.windows[0].Permits)
	steps := redistest.Long(100, 4000)
	others := []*twice{b, {fair: b.joins(t, engine.Quota{Permits: b.windows[0].Permits, Per: per})}}
	var held []engine.Grant
	var saved string
	pace := time.Duration(1)
	now := time.Duration(0)
	for step := range steps {
		if rng.IntN(50) == 0 {
			pace = []time.Duration{1, interval / 4, interval, 2 * interval, per / 200, per / 64, per}[rng.IntN(7)]
		}
		if rng.IntN(4) > 0 {
			now += time.Duration(rng.Int64N(int64(2*pace) + 2)).Truncate(time.Microsecond)
		}
		at(now)
		who := others[rng.IntN(min(len(others), 1+oddity))]
		who.context = fmt.Sprintf("step %d at %v", step, now)
		n, count := 1, 1
		if rng.IntN(4) == 0 {
			n = 1 + rng.IntN(min(b.windows[0].Permits, 5))
		}
		if rng.IntN(5) == 0 {
			count = 1 + rng.IntN(20)
		}
		requests := make([]engine.Request, count)
		longest := []time.Duration{0, per / 2, 3 * per, engine.Forever}[rng.IntN(4)]
		for i := range requests {
			requests[i] = engine.Request{N: n, MaxWait: longest}
			if rng.IntN(30) == 0 {
				longest += time.Second * time.Duration(rng.IntN(2))
			}
		}
		for _, a := range who.take(t, requests...) {
			if a.Granted {
				held = append(held, a.Grant)
			}
		}
		if oddity == 0 || rng.IntN(1+8/oddity) > 0 {
			continue
		}
		switch odd := rng.IntN(100); {
		case odd < 16 && len(held) > 0:
			last := len(held) - 1 - rng.IntN(min(3, len(held)))
			require.NoError(t, who.GiveBack(t.Context(), held[last:]))
			held = held[:last]
		case odd == 24:
			require.NoError(t, b.client.Del(t.Context(), b.key).Err())
		case odd == 25:
			saved = b.client.Get(t.Context(), b.key).Val()
		case odd == 23:
			moves(t, b.fair)
		case odd == 26 && saved != "":
			if rng.IntN(2) == 0 {
				moves(t, b.fair)
			}
			require.NoError(t, b.client.Set(t.Context(), b.key, saved, time.Hour).Err())
		case odd == 27:
			require.NoError(t, who.Reset(t.Context()))
		case odd == 28:
			now -= min(now, time.Duration(rng.Int64N(int64(per)+1)).Truncate(time.Microsecond))
		case odd == 29:
			now += 3 * per
		case odd == 30:
			require.NoError(t, who.Pause(t.Context(), time.Duration(rng.Int64N(2*int64(per)))))
		}
	}
}

// The cells keep the last digits of their totals: the straight way must not add
// so many at one slot that these no longer tell which total is meant.
func TestManyPermitsAtOneSlotLeaveTheOlderCellsReadable(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1_000_000, Per: time.Hour})
		queued(t, f, 1, 1)
		at(time.Millisecond)
		queued(t, f, 1, 1)
		queued(t, f, 1, 999_998)
		late := take(t, f, engine.Request{N: 2, MaxWait: engine.Forever})[0]
		require.Equal(t, time.Hour, late.Wait, "only one permit leaves earlier")
	})
}
