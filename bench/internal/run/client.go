package run

import (
	"context"
	"encoding/json"
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

// Client is the life of a client process. It returns when its orders end.
func Client(orders io.Reader, news io.Writer) error {
	heard, said := json.NewDecoder(orders), json.NewEncoder(news)
	var job Job
	if err := heard.Decode(&job); err != nil {
		return err
	}
	c, err := assemble(job)
	if err != nil {
		_ = said.Encode(Account{Error: err.Error()})
		return err
	}
	defer c.rdb.Close()
	if err := said.Encode(Account{}); err != nil {
		return err
	}
	var start time.Duration
	if heard.Decode(&start) != nil { // stopped before it began
		return said.Encode(Account{})
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, orders)
		cancel()
	}()
	bystander := Watch(measure.Now, job.Load.Clients, nil)
	c.work(ctx, start)
	bystander.Close()
	account := Account{Calls: c.calls, RedisCalls: int(c.sent.Load()), Stalls: bystander.Seen(), Told: told(c.limiter)}
	return said.Encode(account)
}

// crew is the callers of this process and what they share.
type crew struct {
	job      Job
	scenario scenario.Scenario
	limiter  engines.Acquirer
	rdb      *redis.Client
	sent     atomic.Int64 // commands, for servers that do not count them
	visitors []*Visitor   // one a caller

	mu    sync.Mutex
	calls []measure.Call
}

func assemble(job Job) (*crew, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	behaviour, engine, err := named(job.Scenario, job.Engine)
	if err != nil {
		return nil, err
	}
	rdb, err := backend.Connect(ctx, job.Redis, job.Via)
	if err != nil {
		return nil, err
	}
	c := &crew{job: job, scenario: behaviour, rdb: rdb}
	rdb.AddHook(Hook(func(_ context.Context, commands []redis.Cmder, send func() error) error {
		c.sent.Add(int64(len(commands)))
		return send()
	}))
	given := engine.Given(job.Load)
	given.Flow = fmt.Sprintf("client %d", job.Client)
	if c.limiter, err = engine.Open(rdb, job.Name, given, measure.Now); err != nil {
		return nil, err
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

// named finds what a job names.
func named(s, e string) (behaviour scenario.Scenario, engine engines.Engine, err error) {
	behaviour, known := scenario.Named(s)
	engine, too := engines.Named(e)
	if !known || !too {
		err = fmt.Errorf("no scenario %q, or no engine %q", s, e)
	}
	return behaviour, engine, err
}

// work lets all callers go at the given moment, and returns when the last one is
// home.
func (c *crew) work(ctx context.Context, at time.Duration) {
	var callers sync.WaitGroup
	estimator := c.scenario.Tokens.Estimator(c.job.Load.Seed, c.job.Client)
	for number, visitor := range c.visitors {
		caller := &caller{
			run: ctx, load: c.job.Load, client: c.job.Client, number: number,
			now: measure.Now, limiter: c.limiter, visit: visitor.Visit, estimator: estimator,
			tell: func(call measure.Call) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.calls = append(c.calls, call)
			},
		}
		callers.Go(func() {
			if clock.Sleep(ctx, at-measure.Now()) == nil {
				caller.begin(c.scenario)
			}
		})
	}
	callers.Wait()
}

// told is what a limiter noted, if it notes anything.
func told(a engines.Acquirer) measure.Told {
	if teller, tells := a.(engines.Teller); tells {
		return teller.Told()
	}
	return measure.Told{}
}
