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
)

// patience is how long connecting may take.
const patience = 10 * time.Second

// crew is the callers of one client and what they share.
type crew struct {
	Job
	scenario scenario.Scenario
	limiter  engines.Acquirer
	rdb      *redis.Client
	visitors []Visitor    // one for each caller
	sent     atomic.Int64 // commands, for servers that do not count them

	mu     sync.Mutex
	calls  []measure.Call
	missed []time.Duration
}

// connect makes the crew of a client process.
func connect(job Job) (c *crew, err error) {
	engine, known := engines.Named(job.Engine)
	behaviour, too := scenario.Named(job.Scenario)
	if !known || !too {
		return nil, fmt.Errorf("no scenario %q, or no engine %q", job.Scenario, job.Engine)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c = &crew{Job: job, scenario: behaviour}
	if c.rdb, err = backend.Connect(ctx, job.Redis); err != nil {
		return nil, err
	}
	c.rdb.AddHook(way{c})
	given := engine.Given(job.Load)
	given.Flow = fmt.Sprintf("client %d", job.Client)
	c.limiter, err = engine.Open(engines.Setup{Load: given, Redis: c.rdb, Name: job.Name, Missed: c.miss})
	for len(c.visitors) < job.Callers && err == nil {
		var visitor Visitor
		visitor, err = NewVisitor(ctx, job.Upstream)
		c.visitors = append(c.visitors, visitor)
	}
	return c, err
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
		if replies := w.scenario.Replies; replies != nil {
			time.Sleep(replies.Draw(rand.Float64()))
		}
		return err
	}
}

// work lets all callers go at the given moment, and returns when the last one is
// home.
func (c *crew) work(ctx context.Context, at time.Duration) Account {
	bystander := Watch(measure.Now, c.Load.Clients, nil)
	var callers sync.WaitGroup
	for number, caller := range c.callers(ctx) {
		caller.visit = c.visitors[number]
		callers.Go(func() {
			if measure.Sleep(ctx, at-measure.Now()) == nil {
				c.scenario.Behave(ctx, caller.me)
			}
		})
	}
	callers.Wait()
	return Account{
		Calls: c.calls, RedisCalls: int(c.sent.Load()), Stalls: bystander.Close(), Missed: c.missed,
	}
}

// callers are those of the crew.
func (c *crew) callers(ctx context.Context) (all []*caller) {
	estimator := c.scenario.Tokens.Estimator(c.Load.Seed, c.Client)
	for number := range c.Callers {
		one := &caller{crew: c, run: ctx, number: number}
		seed := uint64(c.Client)<<32 | uint64(number)
		one.me = scenario.Caller{
			Load: c.Load, Client: c.Client, Number: number, Estimator: estimator,
			Rand:       rand.New(rand.NewPCG(c.Load.Seed, seed)),
			Call:       func(ctx context.Context, n int) bool { return one.call(ctx, n, nil) },
			CallTokens: func(ctx context.Context, t measure.Tokens) bool { return one.call(ctx, 1, &t) },
		}
		all = append(all, one)
	}
	return all
}

// caller makes its calls and writes them down.
type caller struct {
	*crew
	run    context.Context // of the whole run
	number int
	me     scenario.Caller
	visit  Visitor

	seq int
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
	var settle engines.Settle
	var err error
	if t == nil {
		err = c.limiter.Acquire(ctx, n)
	} else {
		settle, err = c.limiter.(engines.Counter).Take(ctx, t.Input, t.Reserved)
	}
	call.Ended, call.Outcome = measure.Now(), outcome(c.run, ctx, err)
	if err == nil {
		// The permit is spent: the call is made even if the run has ended
		// meanwhile.
		call.Rejected, err = c.visit(context.WithoutCancel(ctx), call)
		if err == nil && t != nil && !call.Rejected {
			call.Tokens, err = c.write(ctx, *t, settle)
		}
		if err != nil {
			call.Outcome = measure.Failed
		}
	}
	if call.Outcome == measure.Failed {
		call.Error = err.Error()
		_ = measure.Sleep(c.run, afterFailure)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	return call.Outcome == measure.Granted && !call.Rejected
}

// write waits until all tokens are written, and settles. If the run ends before,
// nobody knows them.
func (c *caller) write(ctx context.Context, t measure.Tokens, settle engines.Settle) (*measure.Tokens, error) {
	if measure.Sleep(c.run, t.Takes) != nil || settle == nil || c.run.Err() != nil {
		return &t, nil
	}
	return &t, settle(context.WithoutCancel(ctx), t.Output)
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
