package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// sharer is one flow of one process.
type sharer struct {
	id     string
	weight int
}

// sharing is a queue whose callers come from processes of many flows, and from
// some without one. Processes join and leave, weights change.
type sharing struct {
	*changing
	flows map[*fair][]*sharer

	granted, left, joined, resets int
}

// comes lets callers of one process ask, in one question: of some of its flows,
// or of none.
func (s *sharing) comes(client *fair) {
	if s.rng.IntN(5) == 0 {
		s.plain(client)
		return
	}
	if s.rng.IntN(8) == 0 {
		client = s.join()
	}
	var requests []engine.Request
	var of []*sharer
	for _, i := range s.rng.Perm(len(s.flows[client]))[:1+s.rng.IntN(len(s.flows[client]))] {
		sharer := s.flows[client][i]
		if s.rng.IntN(6) == 0 {
			sharer.weight = 1 + s.rng.IntN(4)
		}
		flow := &engine.Flow{ID: sharer.id, Weight: sharer.weight, Ahead: s.ahead(sharer), LookAhead: 12}
		for range 1 + s.rng.IntN(12) {
			r := engine.Request{N: 1 + s.rng.IntN(2)*s.rng.IntN(3), MaxWait: engine.Forever, Flow: flow}
			if s.rng.IntN(4) == 0 {
				r.MaxWait = time.Duration(s.rng.Int64N(int64(2 * time.Second)))
			}
			requests, of = append(requests, r), append(of, sharer)
		}
	}
	answers, err := client.Take(s.Context(), requests)
	require.NoError(s, err)
	s.told(requests[:len(answers)], of, answers)
	s.go_()
}

// told notes what was granted. No flow may hold more than its share, but for
// one request, and nobody of a flow goes before one that had no room.
func (s *sharing) told(requests []engine.Request, of []*sharer, answers []engine.Answer) {
	ahead, full := map[*engine.Flow]int{}, map[*engine.Flow]bool{}
	for i, a := range answers {
		flow := requests[i].Flow
		if a.Err != nil {
			require.ErrorIs(s, a.Err, engine.ErrExceedsQuota)
			continue
		}
		require.Positive(s, a.Share)
		full[flow] = full[flow] || a.Left
		if a.Left {
			s.left++
		}
		if !a.Granted {
			continue
		}
		held := flow.Ahead + ahead[flow]
		require.False(s, full[flow])
		require.True(s, held == 0 || held+requests[i].N <= a.Share,
			"%d held, %d more of %d", held, requests[i].N, a.Share)
		ahead[flow] += requests[i].N
		s.granted++
		s.held = append(s.held, waiting{a.Grant, s.micros() + a.Wait.Microseconds(), of[i]})
	}
}

// ahead is how many permits a flow of a process holds.
func (s *sharing) ahead(of *sharer) (n int) {
	for _, h := range s.held {
		if h.of == of {
			n += h.N
		}
	}
	return n
}

// join starts a process, in the place of one that has died if there are many.
func (s *sharing) join() *fair {
	s.joined++
	client := s.clients[0].looksFor(s)
	for _, id := range s.rng.Perm(40)[:1+s.rng.IntN(5)] {
		s.flows[client] = append(s.flows[client], &sharer{fmt.Sprint("flow ", id), 1 + s.rng.IntN(4)})
	}
	if len(s.clients) > 8 {
		at := 1 + s.rng.IntN(len(s.clients)-1)
		delete(s.flows, s.clients[at])
		s.clients = slices.Delete(s.clients, at, at+1)
	}
	s.clients = append(s.clients, client)
	return client
}

// reset lets everybody line up anew. Those who went meanwhile count no more.
func (s *sharing) reset(client *fair) {
	s.resets++
	s.checked += len(s.gone)
	require.NoError(s, client.Reset(s.Context()))
	s.held, s.gone, s.most = nil, nil, 0
	for _, w := range s.window {
		s.most = max(s.most, w.Permits)
	}
}

// TestFlowsKeepEveryWindow plays many flows of many processes, with and without
// pauses, quotas that change, resets and cancels in between. Every window over
// those who went must have kept the quota, in order.
func TestFlowsKeepEveryWindow(t *testing.T) {
	evenly := []string{"10/1s burst 1", "20/1s burst 1", "3/1s burst 1", "1/1s", "1/700ms", "7/3s burst 1", "1/50ms"}
	bursty := append([]string{"10/1s", "3/2s", "20/3s burst 4", "5/1s 20/1m", "5/1s burst 1 9/7s", "100/1s"}, evenly...)
	inBothWorlds(t, func(t *testing.T, w world) {
		var all sharing
		checked := 0
		defer func() {
			t.Logf("%d joined, %d turns granted, %d left for later, %d resets; %d turns judged",
				all.joined, all.granted, all.left, all.resets, checked)
		}()
		for name, texts := range map[string][]string{"evenly": evenly, "in bursts": bursty, "one quota": {"10/1s"}} {
			for seed := range uint64(redistest.Long(max(1, 8/w.share), 80/w.share)) {
				t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
					f, at := w.stored(t)
					s := &sharing{flows: map[*fair][]*sharer{}, changing: &changing{
						T: t, rng: rand.New(rand.NewPCG(seed, 41)), texts: texts, at: at,
						clients: []*fair{f}, news: hears(f),
					}}
					s.flows[f] = []*sharer{{"flow 0", 1}}
					s.come, s.also = s.comes, s.reset
					for range 3 {
						s.join()
					}
					s.play(redistest.Long(500/w.share, 250), name != "in bursts")
					all.joined, all.granted, all.left = all.joined+s.joined, all.granted+s.granted, all.left+s.left
					all.resets, checked = all.resets+s.resets, checked+s.checked
				})
			}
		}
	})
}
