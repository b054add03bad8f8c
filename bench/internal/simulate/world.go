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
	"testing"
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
	ledger   *run.Ledger
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

func build(t *testing.T, j job) (*world, error) {
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
	w.ledger = run.NewLedger(j.Load.Quota.Permits, j.Load.Quota.Per, w.now)
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
func (w *world) run(stopped func() bool, tell func(glance)) {
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
		tell(glance{w.now(), w.ledger.Count()})
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
