package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// patience is how long connecting may take.
const patience = 10 * time.Second

// errAbandoned: the parent is gone.
var errAbandoned = errors.New("the orders ended before the job did")

// Run is the life of a client process: it gets a job, connects, says that it is
// ready, begins when told to, and tells of every call. It returns when the job is done or the orders
// end, whichever comes first.
func Run(orders io.Reader, news io.Writer) error {
	heard, said := hear(orders), &speaker{w: news}
	err := work(heard, said)
	if err != nil && !errors.Is(err, errAbandoned) { // else nobody may be listening
		said.say(News{Failed: err.Error()})
	}
	return err
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
		news.say(News{Done: true})
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crew.bystander = Watch(measure.Now, crew.job.Load.Clients, nil)
	defer crew.bystander.Close()
	done := crew.begin(ctx, *order.Start)
	select {
	case <-done:
	case _, ok := <-orders: // to go home
		if !ok {
			return errAbandoned
		}
	}
	cancel()
	<-done
	crew.bystander.Close()
	crew.tell(News{Done: true})
	return nil
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
	telling   sync.Mutex
}

func assemble(job Job, news *speaker) (*crew, error) {
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
		visitor := c.visitors[number]
		caller := &caller{
			run: ctx, load: c.job.Load, client: c.job.Client, number: number, now: measure.Now, limiter: c.limiter,
			visit: func(going context.Context, call measure.Call) error {
				closed, err := visitor.Visit(going, call)
				if err == nil && closed > 0 {
					err = c.closed(ctx, closed)
				}
				return err
			},
			tell: func(call measure.Call) { c.tell(News{Call: &call}) },
		}
		callers.Go(func() {
			if clock.Sleep(ctx, at-measure.Now()) == nil {
				caller.begin(c.scenario)
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

// tell tells what has come to light since the last news as well.
func (c *crew) tell(n News) {
	c.telling.Lock() // turns are told in their order
	defer c.telling.Unlock()
	n.RedisCalls, n.Stalls, n.Told = c.meter.count(), c.bystander.Seen(), told(c.opened)
	c.news.say(n)
}

// told is what a limiter noted since it was last asked, if it notes anything.
func told(a engines.Acquirer) measure.Told {
	if teller, tells := a.(engines.Teller); tells {
		return teller.Told()
	}
	return measure.Told{}
}

// closed is what a caller does whom the upstream told when to come back.
func (c *crew) closed(run context.Context, left time.Duration) error {
	if err := c.pauser.Pause(run, left); err != nil && run.Err() == nil {
		return fmt.Errorf("the pause was not recorded: %w", err)
	}
	c.news.say(News{Paused: measure.Now()})
	return nil
}

// meter counts the commands that this process sends, for servers that do not
// count them.
type meter struct{ sent atomic.Int64 }

var _ redis.Hook = (*meter)(nil)

func (m *meter) count() int { return int(m.sent.Load()) }

func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.sent.Add(1)
		return next(ctx, cmd)
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		m.sent.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
