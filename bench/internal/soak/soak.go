// Package soak puts limiters under load and under random faults for a while,
// and judges from what they were told, and from when they let their callers go,
// whether each promise was kept.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// ErrStuck says that a run could not end, since callers never came home. That
// is a broken promise.
var ErrStuck = errors.New("calls are stuck")

// Run is one run.
type Run struct {
	Duration time.Duration
	Seed     uint64
	Progress io.Writer // told now and then how far it is

	build engine.Builder // nil: the one of package fair
}

// homecoming is how long callers have to come home after the end. Limiters have
// as long to let somebody through once nothing is broken any more.
const homecoming = 20 * time.Second

// soak is a run under way.
type soak struct {
	Run
	bed      *bed
	clients  []*redis.Client // of each limiter
	limiters []fairlimit.Reserver
	notes    []*notes // of each name
	began    time.Time

	struck map[string]int // how often each fault has

	bystander *run.Bystander
}

// Do runs it until it is over or ctx ends. An error says that it could not be
// done; what was broken is in the report.
func (r Run) Do(ctx context.Context) (report Report, err error) {
	if r.build == nil {
		r.build = fair.New
	}
	server, err := backend.Start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer server.Close()
	s := &soak{Run: r, bed: &bed{server: server.Process, proxy: redistest.NewProxy()}, struck: map[string]int{}}
	defer s.bed.proxy.Close()
	if err := s.set(); err != nil {
		return Report{}, err
	}
	if err := s.run(ctx); err != nil {
		return Report{}, err
	}
	report = s.judge()
	s.recover(&report)
	s.close()
	s.leftovers(&report)
	return report, nil
}

// set makes the limiters.
func (s *soak) set() error {
	for i, n := range names {
		notes := newNotes()
		s.notes = append(s.notes, notes)
		for way := range ways {
			rdb := redis.NewClient(&redis.Options{
				Addr: s.bed.server.Addr(), Dialer: s.bed.proxy.Dial, ReadTimeout: ways[way].timeout,
			})
			l, err := n.limiter(rdb, fmt.Sprint("soak:", i), way, notes.turns[way].Builder(s.build))
			if err != nil {
				return err
			}
			s.clients, s.limiters = append(s.clients, rdb), append(s.limiters, l)
		}
	}
	return nil
}

// close ends what calls are still under way, and the clients: see
// [redistest.Proxy.Client].
func (s *soak) close() {
	s.bed.proxy.Heal()
	s.bed.proxy.Cut()
	for _, rdb := range s.clients {
		redistest.Close(rdb)
	}
}

// run keeps callers calling and things breaking until the time is over and all
// callers are home.
func (s *soak) run(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, s.Duration)
	defer stop()
	s.began = time.Now()
	s.bystander = run.Watch(measure.Now, 1, nil)
	defer s.bystander.Close()

	var calling sync.WaitGroup
	for i, l := range s.limiters {
		for j := range callers {
			c := &caller{
				limiter: l, number: i % len(ways), most: names[i/len(ways)].most,
				notes: s.notes[i/len(ways)],
				rng:   rand.New(rand.NewPCG(s.Seed, uint64(1+i*callers+j))),
			}
			calling.Go(func() { c.run(ctx) })
		}
	}
	failed := s.trouble(ctx)
	stop()
	home := make(chan struct{})
	go func() {
		calling.Wait()
		close(home)
	}()
	select {
	case <-home:
	case <-time.After(homecoming):
		return fmt.Errorf("%w: callers are still away %v after the end\n%s", ErrStuck, homecoming, stacks())
	}
	return failed
}

// trouble strikes again and again until ctx ends, and leaves all in order.
func (s *soak) trouble(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	defer s.bed.proxy.Heal()
	told := s.began
	for clock.Sleep(ctx, between(rng, 30, 250)) == nil && ctx.Err() == nil {
		f := pick(rng)
		if err := f.strike(s.bed, rng); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		s.struck[f.name]++
		if time.Since(told) > max(s.Duration/18, time.Second) {
			told = time.Now()
			fmt.Fprintf(s.Progress, "%.0f of %.0f s, seed %d: faults lost data %d times\n",
				told.Sub(s.began).Seconds(), s.Duration.Seconds(), s.Seed, len(s.bed.losses))
		}
	}
	return nil
}

// recover asks each limiter for a turn, now that nothing is broken. Connections
// that were cut meanwhile may each cost one call.
func (s *soak) recover(r *Report) {
	ctx, stop := context.WithTimeout(context.Background(), homecoming)
	defer stop()
	for i, l := range s.limiters {
		err := l.Wait(ctx)
		for err != nil && ctx.Err() == nil {
			err = l.Wait(ctx)
		}
		if err != nil {
			r.Broken = append(r.Broken, fmt.Sprintf(
				"%s: limiter %d does not recover: %v", names[i/len(ways)].about, i%len(ways), err))
		}
	}
}

// leftovers counts the goroutines of the library that are still there when
// nobody uses it.
func (s *soak) leftovers(r *Report) {
	left := 1
	for end := time.Now().Add(homecoming); left > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left = 0
		for stack := range strings.SplitSeq(stacks(), "\n\n") {
			if strings.Contains(stack, "fairlimit/fairlimit") && !strings.Contains(stack, "fairlimit/bench") &&
				!strings.Contains(stack, "redistest") {
				left++
			}
		}
	}
	if r.Counts[leaked] = left; left > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%s: %d", leaked, left))
	}
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}
