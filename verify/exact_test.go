package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Each slot is the one that the definition gives: with batches, several windows,
// units, MaxWait, returns, debts, pauses.
func TestSlots(t *testing.T) {
	s := newServer(t)
	rapid.Check(t, func(t *rapid.T) {
		s.begin()
		l := genLimit(time.Millisecond, 2).Draw(t, "limit")
		h := newHistory(t, l, s.client)
		actions := h.actions()
		actions["pass"] = func(t *rapid.T) {
			longest := rapid.SampledFrom([]int64{1000, l.span() / 20, l.span(), 3 * l.span()}).Draw(t, "longest")
			s.pass(rapid.Int64Range(0, longest).Draw(t, "µs"))
		}
		actions["reset"] = func(t *rapid.T) {
			h.reset(t)
			s.pass(within + 10) // until then those who waited ask before others
		}
		actions["read"] = func(t *rapid.T) {
			before := s.mini.Dump()
			_, err := h.by(t).Status(ctx)
			require.NoError(t, err)
			_, err = h.by(t).Look(ctx)
			require.NoError(t, err)
			require.Equal(t, before, s.mini.Dump(), "who reads writes nothing")
		}
		ends := s.now
		actions[""] = func(t *rapid.T) {
			checkKeys(t, s.client)
			ends = max(ends, s.now, h.ends())
		}
		t.Repeat(actions)

		s.pass(ends - s.now + 3600*second) // a reset is remembered for an hour
		require.Empty(t, s.client.Keys(ctx, "*").Val(), "once nothing counts, nothing is left")
	})
}

// The same on a redis-server, by its own time.
func TestSlotsOnRedis(t *testing.T) {
	client := redistest.StartServer(t).Client()
	rapid.Check(t, func(t *rapid.T) {
		client.FlushAll(ctx)
		l := genLimit(100*time.Microsecond, 2).Draw(t, "limit")
		h := newHistory(t, l, client)
		actions := h.actions()
		actions["pass"] = func(t *rapid.T) { time.Sleep(micros(rapid.Int64Range(0, 5000).Draw(t, "µs"))) }
		actions[""] = func(t *rapid.T) { checkKeys(t, client) }
		t.Repeat(actions)
	})
}

// history is one of takes, returns, debts and pauses beside the definition.
type history struct {
	limit    *limit
	limiters []engine.Queue // each remembers what it was told
	model    *model.Queue
	id       int64 // of the queue, as it was told last
	turns    []turn
	owes     []bool // of each unit: it had a debt
}

// turn is one whose n were not given back yet.
type turn struct {
	engine.Turn
	slot int64 // the model's
	n    []int
}

func newHistory(t *rapid.T, l *limit, client redis.UniversalClient) *history {
	windows := l.windows()
	h := &history{limit: l, model: &model.Queue{Units: windows}, owes: make([]bool, len(windows))}
	for range rapid.IntRange(1, 3).Draw(t, "limiters") {
		h.limiters = append(h.limiters, l.engine(t, client))
	}
	return h
}

// by is any of the limiters.
func (h *history) by(t *rapid.T) engine.Queue {
	return h.limiters[rapid.IntRange(0, len(h.limiters)-1).Draw(t, "by")]
}

func (h *history) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"take": h.take, "take more": h.take, "give back": h.giveBack, "pause": h.pause, "resume": h.resume,
	}
}

// take asks for runs of equal requests.
func (h *history) take(t *rapid.T) {
	if h.cells() > mostCells-100 {
		t.Skip("with more slots, turns may come later")
	}
	var requests []engine.Request
	var amounts [][]int
	for range rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "runs") {
		n := h.limit.draw(t)
		request := engine.Request{N: n[0], Amounts: h.limit.amounts(n), MaxWait: genMaxWait(h.limit).Draw(t, "MaxWait")}
		for range rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 20)).Draw(t, "requests") {
			requests, amounts = append(requests, request), append(amounts, n)
		}
	}
	answers, news, err := h.by(t).Take(ctx, requests)
	require.NoError(t, err)
	h.id = news.Queue
	for i, answer := range answers {
		require.NoError(t, answer.Err)
		longest := min(requests[i].MaxWait, 100*365*24*time.Hour).Microseconds()
		slot, granted := h.model.Take(news.Now, longest, amounts[i]...)
		require.Equal(t, granted, answer.Verdict == engine.Granted,
			"request %d of %v: slot in %d µs, %v", i, requests, h.model.Comes(slot)-news.Now, answer)
		require.Equal(t, micros(h.model.Comes(slot)-news.Now), answer.Wait, "request %d of %v", i, requests)
		if granted {
			h.turns = append(h.turns, turn{answer.Turn, slot, slices.Clone(amounts[i])})
		}
	}
	for u, windows := range h.model.Units {
		if !h.owes[u] {
			require.NoError(t, model.Strict(windows, h.model.Slots(u)))
		}
	}
}

// giveBack gives back parts of turns. Debts of one question are booked together.
func (h *history) giveBack(t *rapid.T) {
	var returns []engine.Return
	debts := make([]int, len(h.model.Units))
	for range rapid.IntRange(1, 4).Draw(t, "returns") {
		if len(h.turns) == 0 {
			break
		}
		i := len(h.turns) - 1 - rapid.IntRange(0, len(h.turns)-1).Draw(t, "of")
		x := h.turns[i]
		less, isDebt := make([]int, len(x.n)), rapid.IntRange(0, 4).Draw(t, "debt") == 0
		for u, n := range x.n {
			if isDebt {
				less[u] = -rapid.IntRange(0, 4).Draw(t, "more")
				continue
			}
			less[u] = rapid.IntRange(0, n).Draw(t, "less")
			x.n[u] -= less[u]
		}
		returns = append(returns, engine.Return{Turn: x.Turn, N: less[0], Amounts: h.limit.amounts(less)})
		switch {
		case x.Queue != h.id: // too late
		case isDebt:
			for u := range debts {
				debts[u] -= less[u]
				h.owes[u] = h.owes[u] || less[u] < 0
			}
		default:
			h.model.GiveBack(x.slot, less...)
		}
		if !isDebt && slices.Max(x.n) == 0 {
			h.turns = slices.Delete(h.turns, i, i+1)
		}
	}
	if len(returns) == 0 {
		t.Skip("nobody has a turn")
	}
	require.NoError(t, h.by(t).GiveBack(ctx, returns))
	h.model.Owe(debts...)
}

func (h *history) pause(t *rapid.T) {
	news, err := h.by(t).Pause(ctx, micros(rapid.Int64Range(0, 2*h.limit.span()).Draw(t, "µs")))
	require.NoError(t, err)
	h.id = news.Queue
	h.model.Pause(news.Now, news.Now+news.Paused.Microseconds())
}

func (h *history) resume(t *rapid.T) {
	news, err := h.by(t).Resume(ctx)
	require.NoError(t, err)
	h.model.Resume(news.Now)
}

func (h *history) reset(t *rapid.T) {
	news, err := h.by(t).Reset(ctx)
	require.NoError(t, err)
	h.id = news.Queue
	h.model.Resume(news.Now)
	h.model.Reset()
	clear(h.owes)
}

// cells are the distinct slots.
func (h *history) cells() (most int) {
	for u := range h.model.Units {
		most = max(most, len(slices.Compact(slices.Clone(h.model.Slots(u)))))
	}
	return most
}

// ends is when nothing counts any more.
func (h *history) ends() int64 {
	return h.model.Comes(max(h.model.Tail()+h.limit.span(), h.model.Clock(0)))
}
