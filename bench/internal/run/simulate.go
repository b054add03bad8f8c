package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// A simulation puts an engine under load in virtual time: the same limiters,
// engines, scripts and scenarios as a trial, but all clients in one process, in
// a bubble of testing/synctest. The bubble's clock stands still while anybody
// works and jumps ahead when all wait. So a day takes minutes, no scheduler is
// in the way, and ten thousand callers fit. The work itself takes no time there,
// not even Redis's: a simulation says who is served when, not how fast.
//
// A seed leads to the same figures each time. Delays of the network and of
// timers follow from the seed, and no two events fall into one nanosecond: see
// [instants].

// Simulator is the role of the process in which a simulation runs.
const Simulator = "simulator"

// ErrReal says that a scenario is about what happens to processes and servers.
// A simulation has neither.
var ErrReal = errors.New("it needs real processes and a real server: leave -simulate out")

// simulation is the job of that process.
type simulation struct {
	What             string // for the progress
	Scenario, Engine string
	Load             scenario.Load
}

// simulated is what came of it.
type simulated struct {
	Log        measure.Log
	RedisCalls int
}

// Simulate runs the trial in virtual time. When ctx ends it stops early and
// reports what was simulated until then.
func (t Trial) Simulate(ctx context.Context) (*Result, error) {
	var s simulated
	job := simulation{t.What, t.Scenario.Name, t.Engine.Name, t.Load}
	if err := Ask(ctx, Simulator, job, &s); err != nil {
		return nil, err
	}
	t.Backend = &backend.Backend{Name: "embedded, simulated"}
	r := &Result{
		Trial: t, Given: t.Engine.Given(t.Load), CountedBy: "clients", RedisCalls: s.RedisCalls, Log: s.Log,
	}
	r.fault(failures(s.Log.Calls))
	return r, nil
}

// SimulatorMain is the life of the simulating process. It does not return.
func SimulatorMain() {
	InBubble(func(ctx context.Context, s simulation, bubble func(func())) (result any, err error) {
		var at, arrivals atomic.Int64
		go s.progress(&at, &arrivals)
		bubble(func() { result, err = s.run(ctx, &at, &arrivals) })
		return result, err
	})
}

// progress says now and then how far it is, in real time.
func (s simulation) progress(at, arrivals *atomic.Int64) {
	for began := time.Now(); ; {
		time.Sleep(2 * time.Second)
		done := float64(at.Load()) / float64(s.Load.Duration)
		if done > 0 {
			rest := time.Duration(float64(time.Since(began)) * (1 - done) / done)
			fmt.Fprintf(os.Stderr, "%s: %.0f %% simulated, %d grants so far, about %v to go\n",
				s.What, 100*done, arrivals.Load(), rest.Round(time.Second))
		}
	}
}

// world is everything in the bubble: the server, the upstream, the clients.
type world struct {
	simulation
	scenario scenario.Scenario
	server   *miniredis.Miniredis
	instants *instants
	ledger   *measure.Ledger
	began    time.Time
	asked    atomic.Int64 // questions that Redis was asked

	mu    sync.Mutex
	calls []measure.Call
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// glances is how often the world is looked at from outside.
const glances = 200

// run lets everybody call until the time is over or ctx ends.
func (s simulation) run(ctx context.Context, at, arrivals *atomic.Int64) (*simulated, error) {
	w := &world{simulation: s, server: miniredis.NewMiniRedis(), began: time.Now()}
	w.server.ClockTTL(true)
	defer w.server.Close()
	behaviour, engine, err := named(s.Scenario, s.Engine)
	if err != nil {
		return nil, err
	}
	w.scenario = behaviour
	log := measure.Log{Callers: behaviour.CallersOf(s.Load)}
	w.instants = newInstants(s.Load.Seed, log.Callers, w.now)
	w.ledger = newLedger(s.Load, w.now)
	running, cancel := context.WithCancel(context.Background())
	defer cancel()
	var limiters []engines.Acquirer
	var all sync.WaitGroup
	for client := range log.Callers {
		limiter, closed, err := w.open(engine, client)
		if err != nil {
			return nil, err
		}
		defer closed()
		limiters = append(limiters, limiter)
	}
	for client, callers := range log.Callers {
		estimator := behaviour.Tokens.Estimator(s.Load.Seed, client)
		for number := range callers {
			c := w.caller(running, client, number, limiters[client])
			c.estimator = estimator
			all.Go(func() { c.begin(behaviour) })
		}
	}
	for w.now() < s.Load.Duration && ctx.Err() == nil {
		time.Sleep(min(s.Load.Duration/glances, s.Load.Duration-w.now()))
		at.Store(int64(w.now()))
		arrivals.Store(int64(w.ledger.Count()))
	}
	// What happens from here on is not the simulation's: everybody stops at
	// once.
	log.End = w.now()
	asked := int(w.asked.Load())
	cancel()
	all.Wait()
	time.Sleep(time.Minute) // for questions that are under way
	for _, limiter := range limiters {
		log.Told = append(log.Told, told(limiter))
	}
	log.Calls = join(w.calls, w.ledger.Arrivals(), log.End)
	return &simulated{log, asked}, nil
}

// open makes a client and its limiter.
func (w *world) open(engine engines.Engine, client int) (limiter engines.Acquirer, closed func() error, err error) {
	rdb := Within(w.server)
	rdb.AddHook(w.wires(client))
	given := engine.Given(w.Load)
	given.Flow, given.Late = fmt.Sprintf("client %d", client), w.instants.lateness(client)
	limiter, err = engine.Open(rdb, "simulated", given, w.now)
	return limiter, rdb.Close, err
}

// caller is one whose steps take time.
func (w *world) caller(running context.Context, client, number int, limiter engines.Acquirer) *caller {
	return &caller{
		run: running, load: w.Load, client: client, number: number, now: w.now,
		limiter: limiter,
		enter: func(ctx context.Context) context.Context {
			w.instants.sleep(client, number, acts, none)
			return context.WithValue(ctx, who{}, number)
		},
		visit: func(_ context.Context, c measure.Call) (rejected bool, err error) {
			w.instants.sleep(client, number, acts, wire)
			if running.Err() == nil {
				rejected = w.ledger.Arrive(c).Rejected
			}
			return rejected, nil
		},
		tell: func(c measure.Call) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		},
	}
}

// wires are a client's way to Redis and back: they take their time, and count.
func (w *world) wires(client int) Hook {
	return func(ctx context.Context, commands []redis.Cmder, send func() error) error {
		if commands[0].Name() == "hello" { // that of a new connection
			return send()
		}
		caller, _ := ctx.Value(who{}).(int)
		w.asked.Add(int64(len(commands)))
		w.instants.sleep(client, caller, asks, wire)
		defer w.instants.sleep(client, caller, hears, func(rng *rand.Rand) time.Duration {
			if held := w.scenario.Replies; held != nil {
				return wire(rng) + held.Draw(rng.Float64())
			}
			return wire(rng)
		})
		return send()
	}
}

// who is the key under which a ctx knows its caller. If a question has several
// callers, it is the first.
type who struct{}
