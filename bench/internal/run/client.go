package run

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/fairlimit/fairlimit/internal/clock"
)

// patience is how long connecting may take.
const patience = 10 * time.Second

// crew is the callers of one client and what they share.
type crew struct {
	Job
	scenario scenario.Scenario
	engine   engines.Engine
	rdb      *redis.Client
	sent     atomic.Int64 // commands, for servers that do not count them

	mu     sync.Mutex
	shift  *shift
	calls  []measure.Call
	missed []time.Duration
}

// shift is what callers work with until they begin anew.
type shift struct {
	limiter  engines.Acquirer
	visitors []Visitor // one for each caller
	over     context.Context
	end      context.CancelFunc
}

// connect makes the crew of a client process.
func connect(job Job) (c *crew, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c = &crew{Job: job, scenario: scenario.Named(job.Scenario), engine: engines.Named(job.Engine)}
	if c.rdb, err = backend.Connect(ctx, job.Redis); err != nil {
		return nil, err
	}
	c.rdb.AddHook(way{c})
	c.shift, err = c.begin(ctx, job.Load)
	return c, err
}

// begin makes what callers work with.
func (c *crew) begin(ctx context.Context, l scenario.Load) (s *shift, err error) {
	s = new(shift)
	s.over, s.end = context.WithCancel(context.Background())
	given := c.engine.Given(l)
	given.Flow = fmt.Sprintf("client %d", c.Client)
	s.limiter, err = c.engine.Open(engines.Setup{Load: given, Redis: c.rdb, Name: c.Name, Missed: c.miss})
	for len(s.visitors) < c.Callers && err == nil {
		var visitor Visitor
		visitor, err = NewVisitor(ctx, c.Upstream, s.limiter)
		s.visitors = append(s.visitors, visitor)
	}
	return s, err
}

// renew ends a shift and begins another. Whoever waits calls again.
func (c *crew) renew(l scenario.Load) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	next, err := c.begin(ctx, l)
	if err != nil {
		return // the shift goes on, and its figures show it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift.end()
	c.shift = next
}

func (c *crew) miss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed = append(c.missed, measure.Now())
}

// way is the client's to Redis and back: it counts, and holds answers up if the
// scenario wants it.
type way struct{ *crew }

func (w way) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w way) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w way) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.sent.Add(1)
		err := next(ctx, cmd)
		if replies := w.scenario.Replies; replies.Most > 0 {
			time.Sleep(replies.Draw(rand.Float64()))
		}
		return err
	}
}

// work lets all callers go at the given moment, and returns when the last one is
// home.
func (c *crew) work(ctx context.Context, at time.Duration) Account {
	bystander := Watch(c.Load.Clients, nil)
	estimator := c.scenario.Tokens.Estimator(c.Load.Seed, c.Client)
	var callers sync.WaitGroup
	for number := range c.Callers {
		one := &caller{crew: c, run: ctx, number: number}
		me := scenario.Caller{
			Load: c.Load, Client: c.Client, Number: number, Estimator: estimator,
			Rand: rand.New(rand.NewPCG(c.Load.Seed, uint64(c.Client)<<32|uint64(number))),
			Call: one.call,
		}
		callers.Go(func() {
			if clock.Sleep(ctx, at-measure.Now()) == nil {
				c.scenario.Behave(ctx, me)
			}
		})
	}
	callers.Wait()
	return Account{
		Told: true, Calls: c.calls, RedisCalls: int(c.sent.Load()), Stalls: bystander.Close(), Missed: c.missed,
	}
}

// caller makes its calls and writes them down.
type caller struct {
	*crew
	run    context.Context // of the whole run
	number int
	seq    int
}

// afterFailure is how long a caller pauses when the limiter could not be asked,
// so that an outage is not a busy loop.
const afterFailure = 50 * time.Millisecond

func (c *caller) call(ctx context.Context, n int, t *measure.Tokens) bool {
	if c.run.Err() != nil {
		return false
	}
	call := measure.Call{Client: c.Client, Caller: c.number, Seq: c.seq, Permits: n, Called: measure.Now(), Tokens: t}
	c.seq++
	err := c.anyShift(ctx, &call)
	if call.Outcome = outcome(c.run, ctx, err); call.Outcome == measure.Failed {
		call.Error = err.Error()
		_ = clock.Sleep(c.run, afterFailure)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	return call.Outcome == measure.Granted && !call.Rejected
}

// anyShift makes a call. If the shift ends while it waits, it waits again in the
// next.
func (c *caller) anyShift(ctx context.Context, call *measure.Call) error {
	for {
		c.mu.Lock()
		s := c.shift
		c.mu.Unlock()
		waiting, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(s.over, cancel)
		err := c.inShift(waiting, s, call)
		stop()
		cancel()
		if err == nil || ctx.Err() != nil || s.over.Err() == nil {
			return err
		}
	}
}

func (c *caller) inShift(ctx context.Context, s *shift, call *measure.Call) (err error) {
	var settle engines.Settle
	if t := call.Tokens; t == nil {
		err = s.limiter.Acquire(ctx, call.Permits)
	} else {
		settle, err = s.limiter.(engines.Counter).Take(ctx, t.Input, t.Reserved)
	}
	if call.Ended = measure.Now(); err != nil {
		return err
	}
	call.Rejected, err = s.visitors[c.number](ctx, *call)
	if _, waits := s.limiter.(engines.Traveller); waits {
		call.Ended = measure.Now()
	}
	if err != nil || call.Tokens == nil || call.Rejected {
		return err
	}
	// If the run ends before all tokens are written, nobody knows them.
	if clock.Sleep(c.run, call.Tokens.Takes) != nil || settle == nil || c.run.Err() != nil {
		return nil
	}
	return settle(context.WithoutCancel(ctx), call.Tokens.Output)
}

// outcome is how a call with this ctx ended in a run that may have ended, too.
func outcome(run, ctx context.Context, err error) measure.Outcome {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return measure.Granted
	// The first was told so at once, the second found out by waiting.
	case errors.As(err, &refused), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return measure.Refused
	case run.Err() != nil:
		return measure.Waiting
	case ctx.Err() != nil:
		return measure.Left
	default:
		return measure.Failed
	}
}
