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
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
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
	crew.bystander = Watch(measure.Now, crew.job.Load.Clients)
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
	news.say(News{
		Done: true, RedisCalls: crew.meter.count(), Misses: engines.MissesOf(crew.opened),
		Stalls: crew.bystander.Seen(),
	})
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

// afterFailure is how long a caller pauses when the limiter could not be asked,
// so that an outage is not a busy loop.
const afterFailure = 50 * time.Millisecond

// desk is where one caller makes its calls, and where they are written down.
type desk struct {
	*crew
	run    context.Context // of the whole run
	number int
	seq    int
}

func (d *desk) call(ctx context.Context, n int) bool {
	c := measure.Call{Client: d.job.Client, Caller: d.number, Seq: d.seq, Permits: n, Called: measure.Now()}
	d.seq++
	turn, err := d.limiter.Acquire(ctx, d.number, n)
	c.Ended, c.Turn, c.Outcome = measure.Now(), turn, Outcome(d.run, ctx, err)
	if err == nil {
		// The permit is spent: the call is made even if the run has ended
		// meanwhile.
		var closed time.Duration
		closed, err = d.visitors[d.number].Visit(context.WithoutCancel(ctx), c)
		if err == nil && closed > 0 {
			err = d.closed(closed)
		}
		if err != nil {
			c.Outcome = measure.Failed
		}
	}
	if c.Outcome == measure.Failed {
		c.Error = err.Error()
		d.pause()
	}
	d.news.say(News{
		Call: &c, RedisCalls: d.meter.count(), Misses: engines.MissesOf(d.opened), Stalls: d.bystander.Seen(),
	})
	return c.Outcome == measure.Granted
}

// closed is what a caller does whom the upstream told when to come back.
func (d *desk) closed(left time.Duration) error {
	if err := d.pauser.Pause(d.run, left); err != nil && d.run.Err() == nil {
		return fmt.Errorf("the pause was not recorded: %w", err)
	}
	d.news.say(News{Paused: measure.Now()})
	return nil
}

// Outcome is how a call with this ctx ended in a run that may have ended, too.
func Outcome(run, ctx context.Context, err error) measure.Outcome {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return measure.Granted
	// The first two were told so at once, the third found out by waiting.
	case errors.As(err, &refused), errors.Is(err, engines.ErrRefused),
		errors.Is(ctx.Err(), context.DeadlineExceeded):
		return measure.Refused
	case run.Err() != nil:
		return measure.Waiting
	case ctx.Err() != nil:
		return measure.Left
	default:
		return measure.Failed
	}
}

func (d *desk) pause() {
	select {
	case <-time.After(afterFailure):
	case <-d.run.Done():
	}
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
