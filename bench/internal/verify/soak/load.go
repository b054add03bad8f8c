package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// A name is shared by limiters that have a client each, as processes have.
type name struct {
	about  string
	quotas []fairlimit.Quota
	guard  time.Duration
	most   int // permits of one call
}

var names = []name{
	{about: "one at a time", quotas: []fairlimit.Quota{fairlimit.Every(15 * time.Millisecond)}, most: 1},
	{about: "ten at once", quotas: []fairlimit.Quota{{Permits: 10, Per: 100 * time.Millisecond}}, most: 4},
	{about: "evenly", quotas: []fairlimit.Quota{{Permits: 20, Per: 200 * time.Millisecond, Burst: 3}}, most: 3},
	{
		about:  "two quotas",
		quotas: []fairlimit.Quota{{Permits: 8, Per: 100 * time.Millisecond}, {Permits: 50, Per: time.Second}},
		most:   3,
	},
	{
		about:  "with a guard",
		quotas: []fairlimit.Quota{{Permits: 10, Per: 100 * time.Millisecond}},
		guard:  20 * time.Millisecond,
		most:   2,
	},
	{about: "many moments", quotas: []fairlimit.Quota{{Permits: 300, Per: 500 * time.Millisecond}}, most: 5},
}

// ways are how the limiters of one name differ.
var ways = []struct {
	timeout time.Duration // of the client's reads; 0 is go-redis's default
	options []fairlimit.Option
}{
	{timeout: 250 * time.Millisecond},
	{timeout: 500 * time.Millisecond, options: []fairlimit.Option{fairlimit.WithMaxQueued(12)}},
	{options: []fairlimit.Option{fairlimit.WithMaxWait(800 * time.Millisecond)}},
}

// callers is how many each limiter has.
const callers = 6

// limiter makes one for a name, with a client of its own.
func (n name) limiter(
	p *redistest.Proxy, addr, key string, notes *notes, number int, wrap func(engine.Engine) engine.Engine,
) (fairlimit.Reserver, error) {
	way := ways[number]
	build := func(c engine.Config) (engine.Engine, error) {
		e, err := fair.New(c)
		if err == nil && wrap != nil {
			e = wrap(e)
		}
		return &recorder{Engine: e, limiter: number, notes: notes}, err
	}
	options := append([]fairlimit.Option{fairlimit.WithGuard(n.guard), fairlimit.WithEngine(build)}, way.options...)
	for _, q := range n.quotas[1:] {
		options = append(options, fairlimit.WithExtraQuota(q))
	}
	rdb := p.Client(&redis.Options{Addr: addr, ReadTimeout: way.timeout})
	l, err := fairlimit.New(rdb, key, n.quotas[0], options...)
	if err != nil {
		return nil, err
	}
	return l.(fairlimit.Reserver), nil
}

// caller calls at random until ctx ends.
type caller struct {
	limiter fairlimit.Reserver
	number  int // of the limiter
	most    int
	notes   *notes
	watch   *watch
	rng     *rand.Rand
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch draw := c.rng.IntN(100); {
		case draw < 40:
			c.wait(1, between(c.rng, 10, 1500), 0)
		case draw < 55:
			c.wait(1+c.rng.IntN(c.most), between(c.rng, 10, 1500), 0)
		case draw < 65:
			c.wait(1, 0, 0)
		case draw < 75:
			c.wait(1, 0, between(c.rng, 1, 300))
		case draw < 82:
			c.allow()
		case draw < 97:
			c.reserve(ctx)
		default:
			_ = clock.Sleep(ctx, between(c.rng, 1, 200))
		}
	}
}

// wait has a deadline, or is cancelled, after so long; 0 is never.
func (c *caller) wait(permits int, deadline, cancel time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var over time.Time
	switch {
	case deadline > 0:
		ctx, stop = context.WithTimeout(context.Background(), deadline)
		defer stop()
		over, _ = ctx.Deadline()
	case cancel > 0:
		over = time.Now().Add(cancel)
		defer time.AfterFunc(cancel, stop).Stop()
	default:
		ctx = context.Background()
	}
	bystander := watching(ctx, over)
	err := c.limiter.WaitN(ctx, permits)
	c.watch.back("Wait", bystander)
	if err == nil {
		c.notes.arrived(c.number, permits)
	}
	c.notes.ended(err)
}

func (c *caller) allow() {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, 10, 300))
	defer stop()
	permits := 1 + c.rng.IntN(c.most)
	bystander := watching(ctx, deadlineOf(ctx))
	ok, err := c.limiter.AllowN(ctx, permits)
	c.watch.back("Allow", bystander)
	if ok {
		c.notes.arrived(c.number, permits)
	}
	if err == nil && !ok {
		err = &fairlimit.RefusedError{}
	}
	c.notes.ended(err)
}

// reserve takes a turn and goes when it is due, or gives it back.
func (c *caller) reserve(running context.Context) {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, 10, 500))
	defer stop()
	permits := 1 + c.rng.IntN(c.most)
	bystander := watching(ctx, deadlineOf(ctx))
	r, err := c.limiter.ReserveN(ctx, permits)
	c.watch.back("ReserveN", bystander)
	c.notes.ended(err)
	if err != nil {
		return
	}
	if c.rng.IntN(2) == 0 {
		_ = clock.Sleep(running, time.Duration(c.rng.Int64N(int64(r.Delay())+1)))
		ctx, stop := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer stop()
		bystander := watching(ctx, deadlineOf(ctx))
		_ = r.Cancel(ctx) // whatever comes of it, nobody goes
		c.watch.back("Cancel", bystander)
		c.notes.cancelled(!time.Now().Before(r.Slot()))
		return
	}
	time.Sleep(r.Delay())
	c.notes.arrived(c.number, permits)
}

func deadlineOf(ctx context.Context) time.Time {
	over, _ := ctx.Deadline()
	return over
}

// overdue is by how much a call may be late to come back.
const overdue = 50 * time.Millisecond

// bystander does what takes a leaving caller the longest. When a ctx ends, it
// waits for the word that its permits are back, which never comes. Before and
// after, it stands in line for a processor. If it is late, the machine is busy
// and makes callers late as well.
type bystander struct {
	over time.Time // zero if there is no end
	stop func() bool
	gone chan time.Time // holds one
}

// stay is how long a caller that leaves stays at most.
const stay = 25 * time.Millisecond

func watching(ctx context.Context, over time.Time) bystander {
	b := bystander{over: over, gone: make(chan time.Time, 1)}
	b.stop = context.AfterFunc(ctx, func() {
		runtime.Gosched()
		time.Sleep(stay)
		runtime.Gosched()
		b.gone <- time.Now()
	})
	return b
}

// watch knows which calls came back long after their ctx had ended, and when
// the machine itself stood still.
//
// Invariant, under mu: late and stalls only grow.
type watch struct {
	mu     sync.Mutex
	late   []lateness
	stalls []span
}

type span struct{ from, to time.Time }

type lateness struct {
	what string
	span
}

// back notes that a call is back.
func (w *watch) back(what string, b bystander) {
	now := time.Now()
	if b.stop() || b.over.IsZero() || now.Sub(b.over) <= overdue {
		return
	}
	if ended := (<-b.gone).Add(-stay); now.Sub(ended) > overdue {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = append(w.late, lateness{what, span{ended, now}})
	}
}

// beat sleeps for a moment again and again, and notes when it slept for longer.
func (w *watch) beat(ctx context.Context) {
	const moment = 2 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(moment)
		now := time.Now()
		if now.Sub(last) > 2*moment {
			w.mu.Lock()
			w.stalls = append(w.stalls, span{last.Add(moment), now})
			w.mu.Unlock()
		}
		last = now
	}
}

// stuck returns the calls that were late by too much, and by how much the worst
// was late. Times in which the machine stood still do not count.
func (w *watch) stuck() (calls []string, worst time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.late {
		late := l.to.Sub(l.from)
		for _, s := range w.stalls {
			late -= max(0, earlier(s.to, l.to).Sub(later(s.from, l.from)))
		}
		worst = max(worst, late)
		if late > overdue {
			late = late.Round(100 * time.Microsecond)
			calls = append(calls, fmt.Sprintf("%s came back %v after its ctx had ended", l.what, late))
		}
	}
	return calls, worst
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
