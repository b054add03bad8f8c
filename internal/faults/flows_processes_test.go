package faults_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// service is a process of one flow with callers that call again and again. It
// prints what it is granted, on the clock of the queue: so what is judged does
// not depend on when anybody wakes up.
type service struct {
	Server, Name, Flow string
	Weight, Callers    int

	book   *book
	cmd    *exec.Cmd
	orders io.WriteCloser
	ended  chan struct{}
}

// turn is one that a service was granted.
type turn struct {
	of         *service
	slot, made int64 // microseconds of the queue's clock
	share      int   // what it may hold ahead
}

// book is all turns of all services.
type book struct {
	mu    sync.Mutex
	turns []turn
}

const (
	serviceOf    = "FAIRLIMIT_TEST_SERVICE"
	serviceQuota = 50 * time.Millisecond
)

// telling is an engine that tells what it grants.
type telling struct {
	engine.Steerer
	sharer  engine.Sharer
	granted func(engine.Answer)
	back    func(engine.Grant)
}

// tellsTurns makes the engine tell what it grants, and what is given back.
func tellsTurns(granted func(engine.Answer), back func(engine.Grant)) fairlimit.Option {
	return fairlimit.WithEngine(func(c engine.Config) (engine.Engine, error) {
		e, err := fair.New(c)
		if err != nil {
			return nil, err
		}
		return &telling{e.(engine.Steerer), e.(engine.Sharer), granted, back}, nil
	})
}

// made is when a turn was granted, on the queue's clock, which runs.
func made(a engine.Answer) int64 { return a.Grant.At - a.Wait.Microseconds() }

func (e *telling) AtBest(permits int) time.Duration { return e.sharer.AtBest(permits) }

func (e *telling) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := e.Steerer.Take(ctx, requests)
	for _, a := range answers {
		if a.Granted {
			e.granted(a)
		}
	}
	return answers, err
}

func (e *telling) GiveBack(ctx context.Context, grants []engine.Grant) error {
	err := e.Steerer.GiveBack(ctx, grants)
	for _, g := range grants {
		e.back(g)
	}
	return err
}

// runService is the process itself, if this is one.
func runService(t *testing.T) (isOne bool) {
	text := os.Getenv(serviceOf)
	if text == "" {
		return false
	}
	var s service
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	rdb := redis.NewClient(&redis.Options{Addr: s.Server})
	defer redistest.Close(rdb)
	q := named(t, rdb, s.Name, fairlimit.Every(serviceQuota), fairlimit.WithFlow(s.Flow, s.Weight),
		tellsTurns(
			func(a engine.Answer) { fmt.Println("turn", a.Grant.At, made(a), a.Share) },
			func(g engine.Grant) { fmt.Println("back", g.At) },
		)).(*fairlimit.Queue)
	var callers sync.WaitGroup
	stop := func() {}
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		var weight int
		switch order := orders.Text(); order {
		case "call":
			ctx, cancel := context.WithCancel(t.Context())
			stop = cancel
			for range s.Callers {
				callers.Go(func() {
					for q.Wait(ctx) == nil {
					}
				})
			}
		case "rest":
			stop()
			callers.Wait()
		default:
			_, err := fmt.Sscanf(order, "weigh %d", &weight)
			require.NoError(t, err)
			_, err = q.Flow(s.Flow, weight)
			require.NoError(t, err)
		}
	}
	stop()
	callers.Wait()
	return true
}

func (s *service) start(t *testing.T) {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$")
	s.cmd.Env = append(os.Environ(), serviceOf+"="+string(text))
	s.orders, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			one := turn{of: s}
			if n, _ := fmt.Sscanf(lines.Text(), "turn %d %d %d", &one.slot, &one.made, &one.share); n == 3 {
				s.book.add(one)
			}
			if n, _ := fmt.Sscanf(lines.Text(), "back %d", &one.slot); n == 1 {
				s.book.drop(one)
			}
		}
	}()
	t.Cleanup(func() { assert.NoError(t, s.end()) })
}

// end lets the process end by itself.
func (s *service) end() error {
	if s.cmd == nil {
		return nil
	}
	_ = s.orders.Close()
	<-s.ended
	cmd := s.cmd
	s.cmd = nil
	return cmd.Wait()
}

func (s *service) kill(t *testing.T) {
	require.NoError(t, s.cmd.Process.Kill())
	require.Error(t, s.end())
}

func (s *service) order(t *testing.T, format string, words ...any) {
	_, err := fmt.Fprintf(s.orders, format+"\n", words...)
	require.NoError(t, err)
}

func (b *book) add(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns = append(b.turns, t)
}

// drop forgets a turn that was given back.
func (b *book) drop(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns = slices.DeleteFunc(b.turns, func(one turn) bool { return one.of == t.of && one.slot == t.slot })
}

// all are the turns in the order in which they were granted.
func (b *book) all() []turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.turns)
	slices.SortFunc(all, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.made, b.made), cmp.Compare(a.slot, b.slot))
	})
	return all
}

// newest is the newest slot of a service, 0 if there is none.
func (b *book) newest(s *service) (slot int64) {
	for _, t := range b.all() {
		if t.of == s {
			slot = t.slot
		}
	}
	return slot
}

// pass waits until so many turns from the newest on have been granted to each of
// the services, and returns the slots between which that was.
func (b *book) pass(t *testing.T, turns int, services ...*service) (from, to int64) {
	all := b.all()
	from = all[len(all)-1].slot
	counts := func(s *service) (n int) {
		for _, t := range b.all() {
			if t.of == s && t.slot > from {
				n, to = n+1, max(to, t.slot)
			}
		}
		return n
	}
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(services, func(s *service) bool { return counts(s) < turns })
	}, time.Minute, 10*time.Millisecond)
	return from, to
}

// widest is by how many permits two flows came to differ between two slots, each
// weighed, over any interval.
func (b *book) widest(from, to int64, one string, weight int, other string, itsWeight int) int {
	difference, least, most := 0, 0, 0
	for _, t := range b.all() {
		switch {
		case t.slot <= from || t.slot > to:
		case t.of.Flow == one:
			difference += itsWeight
		case t.of.Flow == other:
			difference -= weight
		}
		least, most = min(least, difference), max(most, difference)
	}
	return most - least
}

// late is how many permits passed between two slots after one that a process
// held, and before it asked for the next in its place.
func (b *book) late(from, to int64) (permits int) {
	const recent = 20 * serviceQuota // no longer ago, or the process had rested
	held := map[*service][]turn{}
	for _, t := range b.all() {
		held[t.of] = append(held[t.of], t)
		before := len(held[t.of]) - 1 - t.share
		if before < 0 || t.slot <= from || t.slot > to {
			continue
		}
		if passed := held[t.of][before].slot; passed > from-recent.Microseconds() {
			permits += int((t.made - passed) / serviceQuota.Microseconds())
		}
	}
	return permits
}

// unused is how many permits were granted to nobody between two slots, and how
// many there were.
func (b *book) unused(from, to int64) (unused, due int) {
	due = int((to - from) / serviceQuota.Microseconds())
	unused = due
	for _, t := range b.all() {
		if t.slot > from && t.slot <= to {
			unused--
		}
	}
	return unused, due
}

// keepsTheQuota requires that no turn was granted before an earlier one, and
// that no window holds two.
func (b *book) keepsTheQuota(t *testing.T) {
	var turns []model.Turn
	for _, one := range b.all() {
		turns = append(turns, model.Turn{Slot: one.slot, N: 1})
	}
	require.True(t, slices.IsSortedFunc(turns, func(a, b model.Turn) int { return cmp.Compare(a.Slot, b.Slot) }))
	require.NoError(t, model.Strict(model.Windows(1, serviceQuota.Microseconds(), 0), turns))
}

// flowsOf is how many limiters of flows a queue counts.
func flowsOf(t *testing.T, rdb redis.UniversalClient, name string) (count int) {
	state, err := fair.Inspect(context.Background(), rdb, name)
	require.NoError(t, err)
	for _, flow := range state.Flows {
		count += flow.Limiters
	}
	return count
}
