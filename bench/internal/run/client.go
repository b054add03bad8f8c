// Package client is a process that calls: it gets a job, connects, says that it
// is ready, begins when told to, and tells of every call.
package run

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
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
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
		said.say(News{Failed: err.Error()})
	}
	return errors.Join(err, said.close())
}

func work(orders <-chan Order, news *speaker) error {
	order, ok := <-orders
	if !ok || order.Job == nil {
		return errAbandoned
	}
	crew, err := assemble(*order.Job, news)
	if err != nil {
		return err
	}
	defer crew.rdb.Close()
	news.say(News{Ready: true})

	order, ok = <-orders
	switch {
	case !ok:
		return errAbandoned
	case order.Start == nil: // stopped before it began
		news.say(News{Done: &Done{}})
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crew.bystander = Watch(measure.Now, crew.job.Load.Clients)
	defer crew.bystander.Close()
	done := crew.begin(ctx, *order.Start)
	if err := crew.obey(ctx, orders, done); err != nil {
		return err
	}
	cancel()
	<-done
	crew.bystander.Close()
	news.say(News{
		Done: &Done{RedisCalls: crew.meter.count()}, Misses: engines.MissesOf(crew.opened),
		Stalls: crew.bystander.Seen(),
	})
	return nil
}

// obey returns when everybody is home, or is to go home.
func (c *crew) obey(ctx context.Context, orders <-chan Order, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case order, ok := <-orders:
			switch {
			case !ok:
				return errAbandoned
			case order.Deed == nil:
				return nil
			}
			did := Did{Error: said(c.do(ctx, *order.Deed)), At: measure.Now()}
			c.news.say(News{Did: &did})
		}
	}
}

// do does what a person does to the limiter. Where there is nothing to be done,
// it is done.
func (c *crew) do(ctx context.Context, deed Deed) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resetter, resets := c.opened.(engines.Resetter)
	requoter, requotes := c.opened.(engines.Requoter)
	switch {
	case deed.Reset && resets:
		return resetter.Reset(ctx)
	case deed.Quota != nil && requotes:
		return requoter.SetQuota(ctx, *deed.Quota)
	}
	return nil
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// crew is the callers of this process and what they share.
type crew struct {
	job      Job
	scenario scenario.Scenario
	opened   engines.Acquirer // the engine's
	limiter  engines.Acquirer // the same with what its users write around it
	pauser   engines.Pauser
	rdb      redis.UniversalClient
	meter    *meter
	visitors []*Visitor // one a caller
	news     *speaker

	bystander *Bystander
}

func assemble(job Job, news *speaker) (*crew, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	behaviour, known := scenario.Named(job.Scenario)
	if !known {
		return nil, fmt.Errorf("no scenario %q", job.Scenario)
	}
	engine, known := engines.Hired(job.Engine)
	if !known {
		return nil, fmt.Errorf("no engine %q", job.Engine)
	}
	rdb, err := backend.Connect(ctx, job.Redis, job.Via)
	if err != nil {
		return nil, err
	}
	c := &crew{job: job, scenario: behaviour, rdb: rdb, meter: &meter{}, news: news}
	rdb.AddHook(c.meter)
	given := engine.Given(job.Load)
	given.Flow = fmt.Sprintf("client %d", job.Client)
	if c.opened, err = engine.Open(rdb, job.Name, given, measure.Now); err != nil {
		return nil, err
	}
	c.limiter = c.opened
	if pauser, pauses := c.opened.(engines.Pauser); pauses {
		c.pauser = pauser
	} else {
		byHand := &engines.ByHand{Acquirer: c.opened}
		c.limiter, c.pauser = byHand, byHand
	}
	for range job.Callers {
		visitor, err := NewVisitor(ctx, job.Upstream)
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
			case <-time.After(at - measure.Now()):
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
