package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/clock"
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
		guard:  50 * time.Millisecond,
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
	rdb *redis.Client, key string, notes *notes, number int, wrap func(engine.Engine) engine.Engine,
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
	switch {
	case deadline > 0:
		ctx, stop = context.WithTimeout(ctx, deadline)
		defer stop()
	case cancel > 0:
		defer time.AfterFunc(cancel, stop).Stop()
	default:
		ctx = context.Background()
	}
	err := c.do(ctx, func() error { return c.limiter.WaitN(ctx, permits) })
	if err == nil {
		c.notes.arrived(c.number, permits)
	}
	c.notes.ended(err)
}

func (c *caller) allow() {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, 10, 300))
	defer stop()
	permits := 1 + c.rng.IntN(c.most)
	err := c.do(ctx, func() error {
		ok, err := c.limiter.AllowN(ctx, permits)
		if err == nil && !ok {
			err = &fairlimit.RefusedError{}
		}
		return err
	})
	if err == nil {
		c.notes.arrived(c.number, permits)
	}
	c.notes.ended(err)
}

// reserve takes a turn and goes when it is due, or gives it back.
func (c *caller) reserve(running context.Context) {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, 10, 500))
	defer stop()
	permits := 1 + c.rng.IntN(c.most)
	var r *fairlimit.Reservation
	err := c.do(ctx, func() (err error) {
		r, err = c.limiter.ReserveN(ctx, permits)
		return err
	})
	c.notes.ended(err)
	if err != nil {
		return
	}
	if c.rng.IntN(2) == 0 {
		_ = clock.Sleep(running, time.Duration(c.rng.Int64N(int64(r.Delay())+1)))
		ctx, stop := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer stop()
		// Whatever comes of it, nobody goes.
		_ = c.do(ctx, func() error { return r.Cancel(ctx) })
		c.notes.cancelled(!time.Now().Before(r.Slot()))
		return
	}
	time.Sleep(r.Delay())
	c.notes.arrived(c.number, permits)
}

// overdue is by how much a call may come back after its ctx has ended.
const overdue = 250 * time.Millisecond

// do makes a call, and notes if it comes back long after its ctx has ended.
func (c *caller) do(ctx context.Context, call func() error) error {
	over := make(chan time.Duration, 1)
	stop := context.AfterFunc(ctx, func() { over <- measure.Now() })
	err := call()
	back := measure.Now()
	if !stop() {
		if ended := <-over; back-ended > overdue {
			c.notes.late(measure.Span{From: ended, To: back})
		}
	}
	return err
}
