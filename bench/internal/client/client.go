// Package client is a process that calls: it gets a job, connects, says that it
// is ready, begins when told to, and tells of every call.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/bench/internal/upstream"
	"github.com/fairlimit/fairlimit/bench/internal/wire"
)

// patience is how long connecting may take.
const patience = 10 * time.Second

// errAbandoned: the parent is gone.
var errAbandoned = errors.New("the orders ended before the job did")

// Run is the life of the process. It returns when the job is done or the orders
// end, whichever comes first.
func Run(orders io.Reader, news io.Writer) error {
	heard, said := hear(orders), newSpeaker(news)
	err := work(heard, said)
	switch {
	case errors.Is(err, errAbandoned): // nobody may be listening: end, whatever is still to be said
		return err
	case err != nil:
		said.say(wire.News{Failed: err.Error()})
	}
	return errors.Join(err, said.close())
}

func work(orders <-chan wire.Order, news *speaker) error {
	order, ok := <-orders
	if !ok || order.Job == nil {
		return errAbandoned
	}
	crew, err := assemble(*order.Job, news)
	if err != nil {
		return err
	}
	defer crew.rdb.Close()
	news.say(wire.News{Ready: true})

	order, ok = <-orders
	switch {
	case !ok:
		return errAbandoned
	case order.Start == nil: // stopped before it began
		news.say(wire.News{Done: &wire.Done{}})
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := crew.begin(ctx, *order.Start)
	select {
	case <-done:
	case _, ok = <-orders:
		if !ok {
			return errAbandoned
		}
		cancel()
		<-done
	}
	news.say(wire.News{Done: &wire.Done{RedisCalls: crew.meter.count()}})
	return nil
}

// crew is the callers of this process and what they share.
type crew struct {
	job      wire.Job
	scenario scenario.Scenario
	limiter  engines.Acquirer
	rdb      redis.UniversalClient
	meter    *meter
	visitors []*upstream.Visitor // one a caller
	news     *speaker
}

func assemble(job wire.Job, news *speaker) (*crew, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	behaviour, known := scenario.Named(job.Scenario)
	if !known {
		return nil, fmt.Errorf("no scenario %q", job.Scenario)
	}
	engine, known := engines.Named(job.Engine)
	if !known {
		return nil, fmt.Errorf("no engine %q", job.Engine)
	}
	rdb, err := backend.Connect(ctx, job.Redis, job.Via)
	if err != nil {
		return nil, err
	}
	c := &crew{job: job, scenario: behaviour, rdb: rdb, meter: &meter{}, news: news}
	rdb.AddHook(c.meter)
	if c.limiter, err = engine.Open(rdb, job.Name, engine.Given(job.Load), monotime.Now); err != nil {
		return nil, err
	}
	for range job.Callers {
		visitor, err := upstream.NewVisitor(ctx, job.Upstream)
		if err != nil {
			return nil, err
		}
		c.visitors = append(c.visitors, visitor)
	}
	return c, nil
}

// begin lets all callers go at the given moment. The channel is closed when the
// last one is home.
func (c *crew) begin(ctx context.Context, at time.Duration) <-chan struct{} {
	var callers sync.WaitGroup
	for number := range c.job.Callers {
		d := &desk{crew: c, run: ctx, number: number}
		seed := uint64(c.job.Client)<<32 | uint64(number)
		me := scenario.Caller{
			Load: c.job.Load, Client: c.job.Client, Number: number,
			Rand: rand.New(rand.NewPCG(c.job.Load.Seed, seed)),
			Call: d.call,
		}
		callers.Go(func() {
			select {
			case <-time.After(at - monotime.Now()):
				c.scenario.Behave(ctx, me)
			case <-ctx.Done():
			}
		})
	}
	done := make(chan struct{})
	go func() {
		callers.Wait()
		close(done)
	}()
	return done
}
