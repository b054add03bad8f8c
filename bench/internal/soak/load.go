package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// A name is shared by limiters that have a client each, as processes have.
type name struct {
	about  string
	quotas string
	guard  time.Duration
	most   int // permits of one call
}

var names = []name{
	{"one at a time", "1/15ms", 0, 1},
	{"ten at once", "10/100ms", 0, 4},
	{"evenly", "20/200ms burst 3", 0, 3},
	{"two quotas", "8/100ms 50/1s", 0, 3},
	{"with a guard", "10/100ms", 50 * time.Millisecond, 2},
	{"many moments", "300/500ms", 0, 5},
}

// parsed are the quotas of a name.
func (n name) parsed() []engine.Quota {
	quotas, _ := quotatext.Parse(n.quotas)
	return quotas
}

// windows are those that the limiters promise to keep.
func (n name) windows() (windows []model.Window) {
	for _, q := range n.parsed() {
		windows = append(windows, model.Windows(q.Permits, (q.Per+n.guard).Microseconds(), q.Burst)...)
	}
	return windows
}

// ways are how the limiters of one name differ.
var ways = [...]struct {
	timeout time.Duration // of the client's reads; 0 is go-redis's default
	option  fairlimit.Option
}{
	{250 * time.Millisecond, nil},
	{500 * time.Millisecond, fairlimit.WithMaxQueued(12)},
	{0, fairlimit.WithMaxWait(800 * time.Millisecond)},
}

// callers is how many each limiter has.
const callers = 6

// limiter makes one for a name, with a client of its own.
func (n name) limiter(rdb *redis.Client, key string, way int, build engine.Builder) (fairlimit.Reserver, error) {
	quotas := n.parsed()
	options := []fairlimit.Option{fairlimit.WithGuard(n.guard), fairlimit.WithEngine(build)}
	if option := ways[way].option; option != nil {
		options = append(options, option)
	}
	for _, q := range quotas[1:] {
		options = append(options, fairlimit.WithExtraQuota(fairlimit.Quota(q)))
	}
	l, err := fairlimit.New(rdb, key, fairlimit.Quota(quotas[0]), options...)
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
		switch some, draw := 1+c.rng.IntN(c.most), c.rng.IntN(100); {
		case draw < 40:
			c.within(10, 1500, 1, c.limiter.WaitN)
		case draw < 55:
			c.within(10, 1500, some, c.limiter.WaitN)
		case draw < 65:
			c.call(context.Background(), 1, c.limiter.WaitN)
		case draw < 75:
			cancelled, cancel := context.WithCancel(context.Background())
			time.AfterFunc(between(c.rng, 1, 300), cancel)
			c.call(cancelled, 1, c.limiter.WaitN)
		case draw < 82:
			c.within(10, 300, some, c.allow)
		case draw < 97:
			c.reserve(ctx, some)
		default:
			_ = clock.Sleep(ctx, between(c.rng, 1, 200))
		}
	}
}

// within calls with a deadline, at random between two numbers of milliseconds.
func (c *caller) within(least, most, permits int, ask func(context.Context, int) error) {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, least, most))
	defer stop()
	c.call(ctx, permits, ask)
}

// call asks, and goes if it may.
func (c *caller) call(ctx context.Context, permits int, ask func(context.Context, int) error) {
	err := c.do(ctx, func() error { return ask(ctx, permits) })
	if err == nil {
		c.notes.arrived(c.number, permits)
	}
	c.notes.ended(err)
}

func (c *caller) allow(ctx context.Context, permits int) error {
	ok, err := c.limiter.AllowN(ctx, permits)
	if err == nil && !ok {
		err = &fairlimit.RefusedError{}
	}
	return err
}

// reserve takes a turn and goes when it is due, or gives it back.
func (c *caller) reserve(running context.Context, permits int) {
	ctx, stop := context.WithTimeout(context.Background(), between(c.rng, 10, 500))
	defer stop()
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
		if !time.Now().Before(r.Slot()) {
			c.notes.note(func() { c.notes.cancelledLate++ })
		}
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
			c.notes.note(func() { c.notes.lateness = append(c.notes.lateness, measure.Span{From: ended, To: back}) })
		}
	}
	return err
}
