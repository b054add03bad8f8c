package fair

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// changing is a queue whose quotas change while turns are held. Its callers come
// from processes of many flows, and from some without one, and go when their news
// say so, which they always have. Processes join and leave, weights change.
type changing struct {
	*testing.T
	rng     *rand.Rand
	texts   []string
	clients []*fair
	news    *[]engine.News
	at      func(time.Duration)
	now     time.Duration

	held   []waiting
	gone   []model.Turn   // since the quotas changed, in time
	window []model.Window // since then
	most   int            // that a window of those held might have held

	changes, checked int
}

// longestHeld is how far ahead turns may lie before all of them go.
const longestHeld = 5 * time.Minute

type waiting struct {
	engine.Grant
	due int64 // in time
}

// play lets callers come, leave and go, pauses, and changes quotas. Those who
// went since the last change must have kept its quotas.
func (c *changing) play(steps int, evenly bool) {
	c.adopt(c.texts[c.rng.IntN(len(c.texts))])
	for range steps {
		c.now += time.Duration(c.rng.Int64N(2) * c.rng.Int64N(int64(2*time.Second)))
		c.now = c.now.Truncate(time.Microsecond)
		if k := len(c.held); k > 0 && c.held[k-1].due > c.micros()+longestHeld.Microseconds() {
			c.now = time.UnixMicro(c.held[k-1].due).Sub(beginning) // quotas have changed too often since
		}
		c.at(c.now)
		c.go_()
		switch client := c.clients[c.rng.IntN(len(c.clients))]; {
		case c.rng.IntN(12) == 0:
			c.keeps(evenly)
			c.adopt(c.texts[c.rng.IntN(len(c.texts))])
		case c.rng.IntN(15) == 0:
			pause(c.T, client, time.Duration(1+c.rng.Int64N(int64(3*time.Second))))
		case c.rng.IntN(4) == 0 && len(c.held) > 0:
			i := len(c.held) - 1 - c.rng.IntN(min(4, len(c.held)))
			giveBack(c.T, client, c.held[i].Grant)
			c.held = slices.Delete(c.held, i, i+1)
		case c.rng.IntN(10) == 0:
			c.reset(client)
		default:
			c.comes(client)
		}
		c.look()
	}
	c.keeps(evenly)
}

func (c *changing) micros() int64 { return beginning.Add(c.now).UnixMicro() }

// go_ lets those go whose turn has come.
func (c *changing) go_() {
	for len(c.held) > 0 && c.held[0].due <= c.micros() {
		c.gone = append(c.gone, model.Turn{Slot: c.held[0].due, N: c.held[0].N})
		c.held = c.held[1:]
	}
}

// plain lets callers come that have no flow.
func (c *changing) plain(client *fair) {
	requests := make([]engine.Request, 1+c.rng.IntN(12))
	for i := range requests {
		requests[i] = engine.Request{N: 1, MaxWait: engine.Forever}
	}
	c.holds(take(c.T, client, requests...))
}

// look tells everybody when its turn comes. It comes no earlier than in order.
func (c *changing) look() {
	*c.news = nil
	require.NoError(c, c.clients[0].Look(c.Context()))
	if len(*c.news) == 0 {
		return
	}
	n := last(c.T, c.news)
	for i := range c.held {
		c.held[i].due = c.micros() + n.Until(c.held[i].At).Microseconds()
	}
	require.True(c, slices.IsSortedFunc(c.held, func(a, b waiting) int { return cmp.Compare(a.due, b.due) }))
	c.go_()
}

// adopt stores other quotas: by SetQuotas, or by hand, which the next look
// finds out.
func (c *changing) adopt(text string) {
	c.changes++
	client := c.clients[c.rng.IntN(len(c.clients))]
	if c.rng.IntN(2) == 0 {
		set(c.T, client, text)
	} else {
		require.NoError(c, client.client.Set(c.Context(), client.quotaKey(), text, 0).Err())
		if c.rng.IntN(2) == 0 {
			status(c.T, client)
		}
	}
	c.look()
	c.window, c.gone = nil, nil
	if len(c.held) == 0 {
		c.most = 0
	}
	t, err := client.storedQuotaSet(text)
	require.NoError(c, err)
	for _, w := range t.windows {
		c.most = max(c.most, w.Permits)
		c.window = append(c.window, model.Window(w))
	}
}

// keeps requires that no window held more than its permits; if turns did not
// come evenly, not more beyond them than an older one would have.
func (c *changing) keeps(evenly bool) {
	for _, w := range c.window {
		if !evenly {
			w.Permits += c.most
		}
		require.NoError(c, model.Strict([]model.Window{w}, c.gone), "change %d", c.changes)
	}
	c.checked += len(c.gone)
}

// comes lets callers of one process ask, in one question: of some flows. It may
// be a process that has just begun.
func (c *changing) comes(client *fair) {
	if c.rng.IntN(5) == 0 {
		c.plain(client)
		return
	}
	if c.rng.IntN(8) == 0 {
		client = c.join()
	}
	var requests []engine.Request
	for _, id := range c.rng.Perm(40)[:1+c.rng.IntN(5)] {
		flow := &engine.Flow{ID: fmt.Sprint(id), Weight: 1 + c.rng.IntN(4), Ahead: c.rng.IntN(6), LookAhead: 12}
		for range 1 + c.rng.IntN(12) {
			r := engine.Request{N: 1 + c.rng.IntN(2)*c.rng.IntN(3), MaxWait: engine.Forever, Flow: flow}
			if c.rng.IntN(4) == 0 {
				r.MaxWait = time.Duration(c.rng.Int64N(int64(2 * time.Second)))
			}
			requests = append(requests, r)
		}
	}
	answers, err := client.Take(c.Context(), requests)
	require.NoError(c, err)
	c.holds(answers)
}

// holds notes what was granted, and lets those go who may.
func (c *changing) holds(answers []engine.Answer) {
	for _, a := range answers {
		if a.Granted {
			c.held = append(c.held, waiting{a.Grant, c.micros() + a.Wait.Microseconds()})
		}
	}
	c.go_()
}

// join starts a process, in the place of one that has died if there are many.
func (c *changing) join() *fair {
	client := c.clients[0].looksFor(c)
	if len(c.clients) > 8 {
		at := 1 + c.rng.IntN(len(c.clients)-1)
		c.clients = slices.Delete(c.clients, at, at+1)
	}
	c.clients = append(c.clients, client)
	return client
}

// reset lets everybody line up anew. Those who went meanwhile count no more.
func (c *changing) reset(client *fair) {
	c.checked += len(c.gone)
	require.NoError(c, client.Reset(c.Context()))
	c.held, c.gone, c.most = nil, nil, 0
	for _, w := range c.window {
		c.most = max(c.most, w.Permits)
	}
}

// TestFlowsKeepEveryWindow plays many flows of many processes, with and without
// pauses, quotas that change, resets and cancels in between. Every window over
// those who went must have kept the quota, in order.
func TestFlowsKeepEveryWindow(t *testing.T) {
	evenly := []string{
		"10/1s burst 1", "20/1s burst 1", "3/1s burst 1", "1/1s", "1/4s", "1/700ms", "7/3s burst 1", "100/1m burst 1",
		"1/1.000003s", "1000/1h burst 1", "1/50ms",
	}
	bursty := append([]string{
		"10/1s", "3/2s", "20/3s burst 4", "2/3s", "5/1s 20/1m", "2/1s burst 1 30/1m", "5/1s burst 1 9/7s", "100/1s",
		"1/3s 10/1h",
	}, evenly...)
	inBothWorlds(t, func(t *testing.T, w world) {
		for name, texts := range map[string][]string{"evenly": evenly, "in bursts": bursty, "one quota": {"10/1s"}} {
			for seed := range uint64(w.many(12)) {
				t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
					f, at := w.stored(t)
					c := &changing{
						T: t, rng: rand.New(rand.NewPCG(seed, 41)), texts: texts, at: at,
						clients: []*fair{f}, news: hears(f),
					}
					for range 3 {
						c.join()
					}
					c.play(redistest.Long(500/w.share, 250), name != "in bursts")
					t.Logf("%d changes, %d turns judged", c.changes, c.checked)
				})
			}
		}
	})
}

// From very many permits to very few: the pace must stay a number that the
// scripts read again.
func TestAQuotaThatBecomesVeryMuchNarrowerLeavesAStateThatCanBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, now := range []time.Duration{0, 1999 * time.Millisecond} {
			f, at := w.stored(t, quotas(t, "1000000/1s")...)
			queued(t, f, 3, 1000000)
			at(now)
			set(t, f, "1/12h")
			pause(t, f, longestPer)
			at(2 * time.Second)
			require.NoError(t, f.Look(t.Context()))
			status(t, f)
			queued(t, f, 1, 1)
			require.Greater(t, queuedWait(t, f), longestPer)
		}
	})
}

// A limiter that looks for stored quotas begins, as one does for each run of
// "fairlimit wait", while others keep to wider quotas of their own. Each time the
// clock runs slower by the same ratio once more.
func TestTheClockDoesNotSlowDownMoreWithEachProcessThatBegins(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, quotas(t, "20/1s burst 1")...)
		set(t, f.looksFor(t), "10/1s burst 1")
		held := queued(t, f, 100, 1)
		for range 6 {
			status(t, f.looksFor(t)) // a new process
			queued(t, f, 1, 1)       // one that keeps to its own
		}
		news := hears(f)
		require.NoError(t, f.Look(t.Context()))
		require.Less(t, last(t, news).Until(held[99].At), 11*time.Second,
			"20/s held, 10/s stored: at most twice as long")
	})
}

// A quota becomes wide for a while. Turns that are held from before it and turns
// from meanwhile fall into the same windows.
func TestTurnsFromBeforeAWideQuotaCountForThoseFromMeanwhile(t *testing.T) {
	for _, c := range []struct {
		narrow, wide string
		before       int
		window       model.Window
	}{
		{"1/1s 3/10s", "1/100ms 3/1s", 5, model.Window{Permits: 3, Length: 10_000_000}},
		{"3/1s 4/10s", "3/100ms 4/1s", 8, model.Window{Permits: 4, Length: 10_000_000}}, // at the same slot
	} {
		f, _ := realWorld(t).stored(t)
		set(t, f, c.narrow)
		held := queued(t, f, c.before, 1)
		set(t, f, c.wide)
		held = append(held, queued(t, f, 2, 1)...)
		set(t, f, c.narrow)
		var turns []model.Turn
		for _, due := range dues(t, f, held) {
			turns = append(turns, model.Turn{Slot: due.Microseconds(), N: 1})
		}
		require.NoError(t, model.Strict([]model.Window{c.window}, turns), c.narrow)
	}
}
