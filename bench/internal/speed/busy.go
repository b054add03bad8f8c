package speed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// The busy row asks without a pause, as a busy server is asked. Callers send
// their questions in two pipelines, so that the server has the next one before
// it has answered the last: its caches stay warm and it does not sleep. What a
// script takes is read from the server's own counter. So neither the network
// nor this program is in it. The paced rows show the same script on caches that
// something else has used meanwhile.
const (
	pipelines = 2
	pipelined = 64 // questions in each

	// A round of either side takes some 10 ms, and there are many, so that the
	// server and the machine are the same to both.
	brief = 8

	// crowdNames share the questions of a crowded round. Each name then gets
	// about 10³ a second, evenly, which is what a window is crowded by.
	crowdNames = 32

	// A crowded quota is so much above what it is asked for, or below.
	crowdMargin = 1.25
)

// kind is one figure of the busy row.
type kind struct {
	what  string
	bound float64
	names int
	quota fairlimit.Quota
	wait  time.Duration // the longest that ours accepts
	given bool          // what both sides answer
	peer  redis_rate.Limit
}

var (
	often = redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	never = redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Hour}
)

var busyKinds = []kind{
	{"granted, quota never short", 1.7, 1, ample, engine.Forever, true, often},
	{"queued, 1 per interval", 1.7, 1, fairlimit.Every(interval), engine.Forever, true, often},
	{"refused", 1.5, 1, fairlimit.Every(time.Hour), 0, false, never},
}

// busy is a reservation on a server that is asked without a pause.
func busy(ctx context.Context, b *bed) ([]Figure, error) {
	var figures []Figure
	for _, k := range busyKinds {
		peer, err := b.peers(ctx, k)
		if err != nil {
			return nil, err
		}
		ours, err := b.ours(ctx, k)
		if err != nil {
			return nil, err
		}
		p, err := inTurn(ctx, brief*b.Rounds, b.unpaused(peer), b.unpaused(ours.crew))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.what, err)
		}
		figures = append(figures, k.figure(p))
	}
	for _, c := range []struct {
		what   string
		margin float64
	}{{"under the quota", crowdMargin}, {"saturated", 1 / crowdMargin}} {
		figure, err := b.crowded(ctx, c.what, c.margin)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.what, err)
		}
		figures = append(figures, figure)
	}
	return figures, nil
}

func (k kind) figure(p pair) Figure {
	figure := Figure{What: "script, busy, " + k.what, Unit: "µs"}
	return figure.beside(peerName+", busy", p).against(ratioAtMost(k.bound).andMark(1.4))
}

// crowded is a reservation among about 10³ different moments in each window.
// How many a name is asked for in a second follows from how fast the server
// is, so that is found out first, and the quota is chosen by it.
func (b *bed) crowded(ctx context.Context, what string, margin float64) (Figure, error) {
	k := kind{
		what: "10³ permits, crowded, " + what, bound: 2, names: crowdNames,
		quota: fairlimit.PerSecond(1000), wait: engine.Forever, given: true, peer: often,
	}
	peer, err := b.peers(ctx, k)
	if err != nil {
		return Figure{}, err
	}
	found, err := b.ours(ctx, k)
	if err != nil {
		return Figure{}, err
	}
	asked, err := b.fill(ctx, peer, found)
	if err != nil {
		return Figure{}, err
	}
	k.quota.Permits = max(1, int(asked/crowdNames*margin))
	ours, err := b.ours(ctx, k)
	if err != nil {
		return Figure{}, err
	}
	if _, err := b.fill(ctx, peer, ours); err != nil {
		return Figure{}, err
	}
	ours.asked.Store(0)
	ours.waited.Store(0)
	p, err := inTurn(ctx, brief*b.Rounds, b.unpaused(peer), b.unpaused(ours.crew))
	figure := k.figure(p)
	waited := 100 * float64(ours.waited.Load()) / float64(max(1, ours.asked.Load()))
	figure.Note = fmt.Sprintf("%d names with %d permits a second; %.0f %% had to wait", k.names, k.quota.Permits, waited)
	return figure, err
}

// fill has both sides asked in turn for the windows' time, as they will be
// when they are measured, and returns how many questions a second ours got.
func (b *bed) fill(ctx context.Context, peer crew, o *ours) (float64, error) {
	began, before := time.Now(), o.asked.Load()
	for time.Since(began).Seconds() < b.Windows {
		if _, err := inTurn(ctx, 1, b.unpaused(peer), b.unpaused(o.crew)); err != nil {
			return 0, err
		}
	}
	return float64(o.asked.Load()-before) / time.Since(began).Seconds(), nil
}

// crew is what each caller asks, pipeline by pipeline.
type crew []call

// ours is a crew that counts what it was answered.
type ours struct {
	crew
	asked, waited atomic.Int64
}

func (b *bed) ours(ctx context.Context, k kind) (*ours, error) {
	o := new(ours)
	names := b.busyNames(k)
	requests := []engine.Request{{N: 1, MaxWait: k.wait}}
	for _, rdb := range b.pipelining() {
		for i := range pipelined {
			cfg := engine.Config{Client: b.rdb, Name: names[i%len(names)], Quota: engine.Quota(k.quota)}
			if err := runOnce(ctx, cfg); err != nil {
				return nil, err
			}
			cfg.Client = rdb
			e, err := fair.New(cfg)
			if err != nil {
				return nil, err
			}
			o.crew = append(o.crew, func(ctx context.Context) error {
				answers, err := e.Take(ctx, requests)
				if err != nil {
					return err
				}
				o.asked.Add(1)
				if answers[0].Wait > 0 {
					o.waited.Add(1)
				}
				return expect(k.given, answers[0].Granted)
			})
		}
	}
	return o, nil
}

// runOnce has the server learn the script and takes a turn.
func runOnce(ctx context.Context, cfg engine.Config) error {
	e, err := fair.New(cfg)
	if err != nil {
		return err
	}
	_, err = (&asked{e}).take(ctx, 1)
	return err
}

func (b *bed) peers(ctx context.Context, k kind) (crew, error) {
	var c crew
	names := b.busyNames(k)
	for _, rdb := range b.pipelining() {
		limiter := redis_rate.NewLimiter(rdb)
		for i := range pipelined {
			name := names[i%len(names)]
			if _, err := redis_rate.NewLimiter(b.rdb).Allow(ctx, name, k.peer); err != nil {
				return nil, err
			}
			c = append(c, func(ctx context.Context) error {
				result, err := limiter.Allow(ctx, name, k.peer)
				if err != nil {
					return err
				}
				return expect(k.given, result.Allowed > 0)
			})
		}
	}
	return c, nil
}

func (b *bed) busyNames(k kind) (names []string) {
	for range k.names {
		names = append(names, b.name("busy"))
	}
	return names
}

func expect(given, granted bool) error {
	if granted != given {
		return fmt.Errorf("granted is %v, not %v", granted, given)
	}
	return nil
}

// unpaused is what a run of the script takes while the crew keeps the server
// busy.
func (b *bed) unpaused(c crew) measure {
	return func(ctx context.Context) (float64, error) {
		return b.perRun(ctx, func() error { return c.keepAsking(ctx, max(1, b.Calls/40)) })
	}
}

// keepAsking has everybody ask so many times. The first error ends it.
func (c crew) keepAsking(ctx context.Context, times int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, ask := range c {
		all.Go(func() {
			for range times {
				if err := ask(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
