package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Callers sleep, and nobody asks: they only look.
func TestAServerClockSetBackHoldsNobodyWhoOnlyLooks(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(testing.TB, *fair){
		"set back":                  func(testing.TB, *fair) {},
		"another server takes over": moves,
	} {
		t.Run(what, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				for _, back := range []time.Duration{10 * time.Second, time.Hour} {
					f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
					news := hears(f)
					held := queued(t, f, 6, 1)
					change(t, f)
					for now := 600 * time.Millisecond; now < 6*time.Second; now += 250 * time.Millisecond {
						at(now - back)
						if tail := inspected(t, f).Tail; now == 600*time.Millisecond {
							require.Equal(t, 5*time.Second, tail, "nobody has looked since the state was written")
						}
						require.NoError(t, f.Look(t.Context()))
						n := last(t, news)
						for i, g := range held {
							comes := time.Duration(i)*time.Second + 600*time.Millisecond
							require.Equal(t, max(0, comes-now), n.Until(g.At), "turn %d, %v after the first", i, now)
						}
					}
				}
			})
		})
	}
}

// The server's clock is set back, or leaps, or the queue's is slow, while turns
// are held, lost or reset.
func TestClocks(t *testing.T) {
	tell(t, []story{
		{"a clock goes on from its last write, also after a reset", "1/1s", "a takes 1, {|a resets}, a takes 1, " +
			"at 10s, a takes 1, at 20s, a takes 1, at 30s, a takes 1, at 20s, a paused 0s, a takes 1 after ~1s"},
		{"a reset is heard after another one and a loss", "1/1s", "at 1h, a takes 1, a resets, b looks, at 1h1s, lost, " +
			"at {1h2s|50m2s}, a takes 3, b takes 1, a resets, a heard reset, b looks, b heard reset"},
		{"a reset is heard though the clock was set back after another", "1/1s", "a resets, a looks, at 1s, a takes 1, " +
			"at {1s|-9s}, {|a pauses 3s}, a takes 3, b resets, b takes 3, b paused 0s, a looks, a heard reset, b queued 2"},
		{"what is granted after a reset and a loss counts", "1/1s", "at 1h, a takes 1, at 1h3s, a waited 3s, {|a resets}, " +
			"b looks, at 1h3.005s, b pauses 800ms, lost, at {1h3.01s|59m59.01s}, a takes 3, a looks, b looks, " +
			"a looks, a takes 1 after >=2.9s"},
		{
			"a clock that leaps ahead and back holds nobody up", "1/1m",
			"a takes 1, at 1h1s, b takes 2, at 2s, a looks, b holds 1 in <1m3s",
		}, // passes if b looks before a
		{
			"a loss after the clock was set back holds up nobody", "1/1m",
			"a takes 1, at -1h, lost, {|b takes 1}, a takes 1 after <3m",
		},
		{"a reset after the clock was set back forgets all", "1/1m", "{a takes 10|a pauses 5m}, at -1h, b resets, " +
			"c takes 1 after 0s, a looks, c takes 1 after <=2m"},
		{"a reset that ends sooner than the one before is one", "1/1m", "a takes 1, b resets, a looks, " +
			"at 1s, a takes 3, at -1h, lost, b resets, a looks, b takes 1 after 0s"},
		{
			"what was reset stays forgotten when the reset is lost", "1/1m",
			"a takes 3, b resets, a looks, lost, a takes 1 after 0s",
		},
		{
			"each answer tells that the queue was reset, as the first may have been overtaken", "1/1m",
			"a takes 3, b resets, a takes 1, a heard reset, a looks, a heard reset, a takes 1, a heard reset",
		},

		// Others who leave at the tail of a slow queue let it run again sooner.
		{"a return in a slow queue is no loss", "stored", "a sets 1/1s, a takes 15, a sets 1/10s, a looks, " +
			"{a returns 3:|b returns a 3:}, b takes 1 after 30s, a looks, b holds 0 in 30s"},
		{"a slow queue that ended sooner is not lost", "stored", "a sets 1/1s, b takes 15, a takes 1, a sets 1/10s, " +
			"a looks, b returns, b returns a, a looks, at 30s, lost, a waits 0s"},

		{
			"lost turns count though quotas change and change back", "stored",
			"a sets 3/3s, a takes 3, lost, a sets 1/2s, a sets 3/3s, a takes 1 after >=2.999s",
		},
		{"a loss that counts already does not count again on a slow clock", "stored", "a sets 1/1s, a takes 3, lost, " +
			"a asks, b takes 5, at 2.5s, b sets 1/4s, b holds 4 in 18s, a holds b 4 in 18s, a holds b 3 in 14s, b returns, " +
			"b takes 1 after <4s"},
		{"a loss after the clock was slow leaves a state that can be read", "stored", "a sets 1/1s, a takes 3, " +
			"a sets 1/2s, a takes 3, a sets 1/4s, a takes 3, at 21s, lost, a sets 1/8s, a asks"},
		{"lost turns go as the quota allows that a failover brings back", "stored", "a sets 1/7s, a takes 2, kept, " +
			"a sets 1/1s, a takes 3, back, stored 1/7s, a apart >=7s, a holds 4 in <80s"},
		{"lost turns stay slow though the older clock has passed them", "stored", "a sets 1/1s, a takes 2, kept long, " +
			"a takes 6, a sets 1/3s, a holds 7 in 21s, at 10s, back, a holds 7 in ~11s, a holds 5 in ~5s"},
	})
}
