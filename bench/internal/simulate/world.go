package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// world is everything in the bubble: the server, the upstream, the clients.
type world struct {
	scenario scenario.Scenario
	load     scenario.Load
	instants *instants
	server   *miniredis.Miniredis
	ledger   *measure.Ledger
	clients  []process
	began    time.Time

	redisCalls atomic.Int64
	mu         sync.Mutex
	calls      []measure.Call

	end   time.Duration // after run
	asked int           // questions that Redis was asked until then
}

// process is what elsewhere is one.
type process struct {
	rdb     *redis.Client
	limiter engines.Acquirer
	callers int
}

func build(j run.Job) (*world, error) {
	behaviour, known := scenario.Named(j.Scenario)
	if !known {
		return nil, fmt.Errorf("no scenario %q", j.Scenario)
	}
	engine, known := engines.Named(j.Engine)
	if !known {
		return nil, fmt.Errorf("no engine %q", j.Engine)
	}
	w := &world{scenario: behaviour, load: j.Load, server: miniredis.NewMiniRedis(), began: time.Now()}
	w.server.ClockTTL(true)
	given := engine.Given(j.Load)
	given.Within = -1 // who looks for all others would be left to chance
	callers := behaviour.CallersOf(j.Load)
	w.instants = newInstants(j.Load.Seed, callers, w.now)
	w.ledger = measure.NewLedger(j.Load.Quota.Permits, j.Load.Quota.Per, w.now)
	for number, n := range callers {
		c := process{rdb: w.connect(), callers: n}
		c.rdb.AddHook(wires{w, number})
		w.clients = append(w.clients, c)
		given.Flow = fmt.Sprintf("client %d", number)
		var err error
		if w.clients[number].limiter, err = engine.Open(c.rdb, "simulated", given, w.now); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// connect makes a client whose connections lead to the server without a socket,
// and stay.
func (w *world) connect() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:1", // never dialed; but a name would be looked up, outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return w.server.Dial() },

		Protocol: 2, DisableIdentity: true, ConnMaxIdleTime: -1, PoolSize: 1024,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (w *world) close() {
	for _, c := range w.clients {
		_ = c.rdb.Close()
	}
	w.server.Close()
}

// glances is how often the parent hears of a simulation.
const glances = 200

// run lets everybody call until the time is over or stopped says so.
func (w *world) run(stopped func() bool, tell func(at time.Duration, arrivals int)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for number, c := range w.clients {
		for caller := range c.callers {
			d := &desk{world: w, run: ctx, number: number, caller: caller}
			me := scenario.Caller{
				Load: w.load, Client: number, Number: caller, Call: d.call,
				Rand: rand.New(rand.NewPCG(w.load.Seed, uint64(number)<<32|uint64(caller))),
			}
			all.Go(func() { w.scenario.Behave(ctx, me) })
		}
	}
	for w.now() < w.load.Duration && !stopped() {
		time.Sleep(min(w.load.Duration/glances, w.load.Duration-w.now()))
		tell(w.now(), w.ledger.Count())
	}
	// What happens from here on is not the simulation's: everybody stops at
	// once.
	w.end, w.asked = w.now(), int(w.redisCalls.Load())
	cancel()
	all.Wait()
	for i := range w.calls {
		w.calls[i].Ended = min(w.calls[i].Ended, w.end)
	}
	slices.SortFunc(w.calls, func(a, b measure.Call) int { return cmp.Compare(a.Called, b.Called) })
}

// desk is where one caller makes its calls, and where they are written down.
type desk struct {
	*world
	run            context.Context
	number, caller int
	seq            int
}

func (d *desk) call(ctx context.Context, n int) bool {
	d.instants.sleep(d.number, d.caller, acts, none)
	if d.run.Err() != nil {
		return false
	}
	c := measure.Call{Client: d.number, Caller: d.caller, Seq: d.seq, Permits: n, Called: d.now()}
	d.seq++
	named := engines.WithLateness(context.WithValue(ctx, who{}, d.caller), d.late)
	turn, err := d.clients[d.number].limiter.Acquire(named, d.caller, n)
	c.Ended, c.Turn, c.Outcome = d.now(), turn, run.Outcome(d.run, ctx, err)
	switch c.Outcome {
	case measure.Granted:
		d.visit(&c)
	case measure.Failed:
		c.Error = err.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	return c.Outcome == measure.Granted
}

// visit goes to the upstream, unless the run is over before it is there.
func (d *desk) visit(c *measure.Call) {
	d.instants.sleep(d.number, d.caller, acts, wire)
	if d.run.Err() != nil {
		return
	}
	*c, _ = d.ledger.Arrive(*c)
}

// late is how late the caller's timer for a wait of in goes off.
func (d *desk) late(caller int, in time.Duration) time.Duration {
	slot, due := d.instants.slot(d.number, caller, acts), d.now()+in
	return d.instants.next(due+timer(d.instants.rand(slot)), slot) - due
}

// wires are a client's way to Redis and back: they take their time, and count.
type wires struct {
	world  *world
	client int
}

var _ redis.Hook = wires{}

func (w wires) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w wires) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.there(ctx, 1)
		defer w.back(ctx)
		return next(ctx, cmd)
	}
}

func (w wires) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && cmds[0].Name() == "hello" { // that of a new connection
			return next(ctx, cmds)
		}
		w.there(ctx, len(cmds))
		defer w.back(ctx)
		return next(ctx, cmds)
	}
}

func (w wires) there(ctx context.Context, commands int) {
	w.world.redisCalls.Add(int64(commands))
	w.world.instants.sleep(w.client, callerOf(ctx), asks, wire)
}

func (w wires) back(ctx context.Context) {
	w.world.instants.sleep(w.client, callerOf(ctx), hears, func(rng *rand.Rand) time.Duration {
		if held := w.world.scenario.Replies; held != nil {
			return wire(rng) + held.Draw(rng.Float64())
		}
		return wire(rng)
	})
}

// who is the key under which a ctx knows its caller. If a question has several
// callers, it is the first.
type who struct{}

func callerOf(ctx context.Context) int {
	caller, _ := ctx.Value(who{}).(int)
	return caller
}
