package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/redistest"
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
	What string // for the progress
	Job
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
	job := simulation{t.What, Job{Scenario: t.Scenario.Name, Engine: t.Engine.Name, Name: "simulated", Load: t.Load}}
	if err := Ask(ctx, Simulator, job, &s); err != nil {
		return nil, err
	}
	t.Backend = &backend.Backend{Name: "embedded, simulated"}
	r := &Result{
		Trial: t, Given: t.Engine.Given(t.Load), Log: s.Log,
		CountedBy: "clients", RedisCalls: s.RedisCalls, Simulated: true,
	}
	r.fault(failures(s.Log.Calls))
	return r, nil
}

// SimulatorMain is the life of the simulating process. It does not return.
//
// Only a test can have a bubble, so this is a test. [testing.Main] is kept for
// programs that are not test binaries and run tests all the same.
func SimulatorMain() {
	runtime.GOMAXPROCS(1)   // there is one thing to do at a time, and handing it over costs
	debug.SetGCPercent(400) // the stacks of ten thousand callers are much to look through
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{{Name: "simulation", F: func(t *testing.T) {
		Answer(func(ctx context.Context, s simulation, _ func() time.Duration) (result any, err error) {
			synctest.Test(t, func(*testing.T) { result, err = s.run(ctx) })
			return result, err
		})
	}}}, nil, nil)
}

// world is everything in the bubble: the server, the upstream, the clients.
type world struct {
	simulation
	server   *miniredis.Miniredis
	instants *instants
	ledger   *measure.Ledger
	began    time.Time
	crews    []*crew
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// tell says how far it is after so much real time.
func (w *world) tell(took time.Duration) {
	done := float64(w.now()) / float64(w.Load.Duration)
	rest := time.Duration(float64(took) * (1 - done) / done)
	fmt.Fprintf(os.Stderr, "%s: %.0f %% simulated, %d grants so far, about %v to go\n",
		w.What, 100*done, w.ledger.Count(), rest.Round(time.Second))
}

// glances is how often the world is looked at from outside.
const glances = 200

// run lets everybody call until the time is over or ctx ends.
func (s simulation) run(ctx context.Context) (*simulated, error) {
	w := &world{simulation: s, server: miniredis.NewMiniRedis(), began: time.Now()}
	w.server.ClockTTL(true)
	defer w.server.Close()
	behaviour, _ := scenario.Named(s.Scenario)
	result := &simulated{Log: measure.Log{Callers: behaviour.CallersOf(s.Load)}}
	w.instants = newInstants(s.Load.Seed, result.Log.Callers, w.now)
	w.ledger = measure.NewLedger(s.Load.Limits(), w.now)
	running, cancel := context.WithCancel(context.Background())
	defer cancel()
	for client, callers := range result.Log.Callers {
		s.Client, s.Callers = client, callers
		c, err := newCrew(s.Job, within(w.server), w.now, w.instants.lateness(client))
		if err != nil {
			return nil, err
		}
		defer c.rdb.Close()
		c.rdb.AddHook(w.wires(c))
		w.crews = append(w.crews, c)
	}
	var all sync.WaitGroup
	for _, c := range w.crews {
		for _, caller := range c.callers(running) {
			w.place(caller)
			all.Go(caller.begin)
		}
	}
	began := measure.Now()
	for told := began; w.now() < s.Load.Duration && ctx.Err() == nil; {
		time.Sleep(min(s.Load.Duration/glances, s.Load.Duration-w.now()))
		if measure.Now()-told > 2*time.Second {
			told = measure.Now()
			w.tell(told - began)
		}
	}
	// What happens from here on is not the simulation's: everybody stops at
	// once.
	result.Log.End = w.now()
	for _, c := range w.crews {
		result.RedisCalls += int(c.sent.Load())
	}
	cancel()
	all.Wait()
	time.Sleep(time.Minute) // for questions that are under way
	for _, c := range w.crews {
		result.Log.Calls = append(result.Log.Calls, c.calls...)
		result.Log.Told = append(result.Log.Told, c.told())
	}
	result.Log.Calls = join(result.Log.Calls, w.ledger.Arrivals(), result.Log.End)
	return result, nil
}

// within makes a client whose connections lead to the server without a socket,
// and stay.
func within(server *miniredis.Miniredis) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:1", // never dialed; but a name would be looked up, outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },

		Protocol: 2, DisableIdentity: true, ConnMaxIdleTime: -1, PoolSize: 1024,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// place makes the steps of a caller take time.
func (w *world) place(c *caller) {
	c.enter = func(ctx context.Context) context.Context {
		w.instants.sleep(c.Client, c.number, acts, none)
		return context.WithValue(ctx, who{}, c.number)
	}
	c.visit = func(_ context.Context, call measure.Call) (rejected bool, err error) {
		w.instants.sleep(c.Client, c.number, acts, wire)
		if c.run.Err() == nil {
			rejected = w.ledger.Arrive(call).Rejected
		}
		return rejected, nil
	}
}

// wires are a client's way to Redis and back: they take their time, and count.
func (w *world) wires(c *crew) redistest.Hook {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if cmd.Name() == "hello" { // that of a new connection
			return next(ctx, cmd)
		}
		caller, _ := ctx.Value(who{}).(int)
		c.sent.Add(1)
		w.instants.sleep(c.Client, caller, asks, wire)
		defer w.instants.sleep(c.Client, caller, hears, func(rng *rand.Rand) time.Duration {
			if held := c.scenario.Replies; held != nil {
				return wire(rng) + held.Draw(rng.Float64())
			}
			return wire(rng)
		})
		return next(ctx, cmd)
	}
}

// who is the key under which a ctx knows its caller. If a question has several
// callers, it is the first.
type who struct{}

// instants hands out moments so that no two events fall into one nanosecond:
// within one, they would happen in any order. Each kind of event that may
// happen to a caller has a slot of its own among the nanoseconds of a period:
// 30 µs for 10,000 callers.
//
// How long something takes follows from the seed, the slot and the moment at
// which it begins.
type instants struct {
	seed   uint64
	slots  int64 // in all, and nanoseconds in a period
	now    func() time.Duration
	before []int64 // slots that begin before those of each client
	at     []int64 // callers of each client
}

// kind is what may happen to a caller.
type kind int64

const (
	acts  kind = iota // calls, arrives upstream
	asks              // its question reaches Redis
	hears             // the answer is back
	wakes             // one of the process's timers goes off
	kinds
)

func newInstants(seed uint64, callers []int, now func() time.Duration) *instants {
	in := &instants{seed: seed, now: now}
	for _, n := range callers {
		in.before, in.at = append(in.before, in.slots), append(in.at, int64(n))
		in.slots += int64(n) * int64(kinds)
	}
	return in
}

// slot is the event's own nanosecond in each period.
func (in *instants) slot(client, caller int, k kind) int64 {
	return in.before[client] + in.at[client]*int64(k) + int64(caller)%in.at[client]
}

// next is the first moment after t that is the slot's.
func (in *instants) next(t time.Duration, slot int64) time.Duration {
	period := time.Duration(in.slots)
	at := t/period*period + time.Duration(slot)
	if at <= t {
		at += period
	}
	return at
}

// rand decides what begins now in a slot.
func (in *instants) rand(slot int64) *rand.Rand {
	return rand.New(rand.NewPCG(in.seed^uint64(slot)<<32, uint64(in.now())))
}

// sleep lets about so much time pass for a caller, as drawn, and wakes it in
// its own nanosecond.
func (in *instants) sleep(client, caller int, k kind, draw func(*rand.Rand) time.Duration) {
	slot, now := in.slot(client, caller, k), in.now()
	time.Sleep(in.next(now+draw(in.rand(slot)), slot) - now)
}

// lateness is by how much a client's timers are late. A caller has no more than
// one, so there are as many nanoseconds for them as callers.
func (in *instants) lateness(client int) func(wait time.Duration) time.Duration {
	var timers atomic.Int64
	return func(wait time.Duration) time.Duration {
		slot, due := in.slot(client, int(timers.Add(1)), wakes), in.now()+wait
		return in.next(due+timer(in.rand(slot)), slot) - due
	}
}

// The delays are those of machines in one data centre: a part that is always
// there and one that varies, exponentially, up to a bound. Together they spread
// over at most 6 ms.
const (
	wireLeast = 50 * time.Microsecond
	wireMean  = 100 * time.Microsecond
	timerMean = 200 * time.Microsecond
	bound     = 2 * time.Millisecond
)

// wire is one way over the network.
func wire(rng *rand.Rand) time.Duration { return wireLeast + varying(rng, wireMean) }

// timer is by how much a timer is late.
func timer(rng *rand.Rand) time.Duration { return varying(rng, timerMean) }

// none is no delay, apart from the wait for the event's own nanosecond.
func none(*rand.Rand) time.Duration { return 0 }

func varying(rng *rand.Rand, mean time.Duration) time.Duration {
	return min(bound, time.Duration(rng.ExpFloat64()*float64(mean)))
}
