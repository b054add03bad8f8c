package linear

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	histories = flag.Int("histories", 8, "how many histories of each kind")
	seed      = flag.Uint64("seed", 1, "of the first history")
)

// patience is for one history. The more calls are of unknown outcome, as many
// are on a machine that stands still now and then, the longer it takes.
const patience = 3 * time.Second

// play is a way to use a queue.
type play struct {
	quotas    []engine.Quota
	backlog   int  // questions that are granted before the history begins, as many permits each as the first quota has
	loseTakes bool // replies to Take are lost, not only those to GiveBack
	callers   int
	each      int // questions of one caller
	losses    int
	breaks    func(*changed) // makes engines that make a mistake
}

// idle is a queue that is empty at times, so that slots depend on when they are
// asked for. Of calls that are lost there nothing can be said.
var idle = play{
	quotas:  []engine.Quota{{Permits: 3, Per: 9 * time.Millisecond}, {Permits: 10, Per: 47_001 * time.Microsecond}},
	callers: 5, each: 12, losses: 3,
}

// behind is a queue that is longer than the history.
var behind = play{
	quotas:  []engine.Quota{{Permits: 4, Per: time.Second}, {Permits: 7, Per: 2_100_001 * time.Microsecond}},
	backlog: 40, loseTakes: true, callers: 5, each: 12, losses: 3,
}

// line is what lies between the callers and Redis: one client that is safe from
// trouble, and some behind a proxy.
type line struct {
	proxy *redistest.Proxy
	sound *redis.Client
	shaky []*redis.Client
}

func newLine(t *testing.T, p play) *line {
	l := &line{proxy: redistest.StartProxy(t), sound: redistest.Standalone(t)}
	for range p.callers {
		options := &redis.Options{Addr: l.sound.Options().Addr, ReadTimeout: 60 * time.Millisecond}
		l.shaky = append(l.shaky, l.proxy.Client(options))
	}
	return l
}

// record has several clients use a new queue at once on a line that loses some
// of their replies.
func (p play) record(t *testing.T, l *line, seed uint64) *History {
	name := redistest.Name(t)
	engineOf := func(rdb *redis.Client) engine.Engine {
		e, err := fair.New(engine.Config{Client: rdb, Name: name, Quota: p.quotas[0], Extra: p.quotas[1:]})
		require.NoError(t, err)
		return e
	}
	h := Begin(p.quotas...)
	first := engineOf(l.sound)
	for range p.backlog {
		_, err := h.Take(t.Context(), p.callers, first, engine.Request{N: p.quotas[0].Permits, MaxWait: engine.Forever})
		require.NoError(t, err)
	}

	var calling, breaking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	breaking.Go(func() { disturb(ctx, l.proxy, p.losses, rand.New(rand.NewPCG(seed, uint64(p.callers)))) })
	for i, rdb := range l.shaky {
		shaky, sound := engineOf(rdb), engineOf(l.sound)
		taking := sound
		if p.loseTakes {
			taking = shaky
		}
		base := changed{taking, taking.Take, shaky.GiveBack}
		asked := changed{base, base.Take, base.GiveBack}
		if p.breaks != nil {
			p.breaks(&asked)
		}
		calling.Go(func() { p.caller(t, h, i, asked, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	calling.Wait()
	stop()
	breaking.Wait()
	l.proxy.Heal()
	if p.backlog > 0 {
		answers, err := first.Take(t.Context(), []engine.Request{{N: 1}})
		require.NoError(t, err)
		require.False(t, answers[0].Granted, "the queue is to be longer than the history")
	}
	return h
}

// disturb loses so many replies, one now and then, and delays others.
func disturb(ctx context.Context, proxy *redistest.Proxy, losses int, rng *rand.Rand) {
	for ctx.Err() == nil {
		proxy.Delay(time.Duration(rng.IntN(4)) * time.Millisecond)
		if losses > 0 && rng.IntN(3) == 0 {
			losses--
			proxy.Lose(1, "evalsha", redistest.Loss(rng.IntN(4)))
		}
		select {
		case <-time.After(time.Duration(2+rng.IntN(10)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// caller takes and gives back at random: turns that lie ahead, that have
// passed, that were given back before by nobody.
func (p play) caller(t *testing.T, h *History, id int, e engine.Engine, rng *rand.Rand) {
	var held []engine.Grant
	for range p.each {
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(6000)) * time.Microsecond)
		}
		if len(held) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(held))
			grant := held[i]
			held = append(held[:i], held[i+1:]...)
			grant.Unused = rng.IntN(4) == 0
			allowed(t, h.GiveBack(t.Context(), id, e, grant))
			continue
		}
		requests := make([]engine.Request, 1+rng.IntN(2)*rng.IntN(3))
		for i := range requests {
			requests[i] = engine.Request{N: 1 + rng.IntN(2), MaxWait: engine.Forever}
			if rng.IntN(4) == 0 {
				longest := int64(p.quotas[0].Per) * int64(1+p.backlog)
				requests[i].MaxWait = time.Duration(rng.Int64N(longest)).Truncate(time.Microsecond)
			}
		}
		answers, err := h.Take(t.Context(), id, e, requests...)
		allowed(t, err)
		for _, a := range answers {
			if a.Granted {
				held = append(held, a.Grant)
			}
		}
	}
}

// allowed is what an engine on a bad line may say, besides that the outcome is
// open.
func allowed(t *testing.T, err error) {
	if err != nil {
		assert.ErrorIs(t, err, engine.ErrUnreachable)
	}
}

func TestEveryAnswerIsTheOneThatSomeOrderOfTheCallsDemands(t *testing.T) {
	for name, p := range map[string]play{
		"a queue that is empty at times": idle, "a long queue, any reply lost": behind,
	} {
		t.Run(name, func(t *testing.T) {
			var lost, calls, explained int
			l := newLine(t, p)
			for i := range *histories {
				s := *seed + uint64(i)
				h := p.record(t, l, s)
				lost, calls = lost+h.lost, calls+len(h.calls)
				switch h.Check(patience) {
				case porcupine.Illegal:
					for _, c := range h.calls {
						t.Logf("%d to %d: %+v: %+v", c.Call, c.Return, c.Input, c.Output)
					}
					t.Fatalf("seed %d: no order explains these answers", s)
				case porcupine.Ok:
					explained++
				}
			}
			t.Logf("%d of %d histories explained, the others not within %v; %d calls, %d of unknown outcome",
				explained, *histories, patience, calls, lost)
			require.Positive(t, lost, "this should lose something")
			require.Positive(t, explained)
		})
	}
}

// changed is an engine that takes, or gives back, in another way.
type changed struct {
	engine.Engine
	take func(context.Context, []engine.Request) ([]engine.Answer, error)
	back func(context.Context, []engine.Grant) error
}

func (c changed) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	return c.take(ctx, requests)
}

func (c changed) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return c.back(ctx, grants)
}

// answers changes what the engine answered.
func (c *changed) answers(change func([]engine.Request, []engine.Answer, error) ([]engine.Answer, error)) {
	c.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
		answers, err := c.Engine.Take(ctx, requests)
		return change(requests, answers, err)
	}
}

// broken engines make one mistake each. The check finds each of them.
var broken = map[string]struct {
	play
	breaks func(*changed)
}{
	"swaps two grants": {behind, func(e *changed) {
		e.answers(func(r []engine.Request, a []engine.Answer, err error) ([]engine.Answer, error) {
			if len(a) > 1 && a[0].Granted && a[1].Granted && r[0].N == r[1].N {
				a[0], a[1] = a[1], a[0]
			}
			return a, err
		})
	}},
	"gives back twice": {behind, func(e *changed) {
		e.back = func(ctx context.Context, grants []engine.Grant) error {
			return errors.Join(e.Engine.GiveBack(ctx, grants), e.Engine.GiveBack(ctx, grants))
		}
	}},
	"gives back nothing": {behind, func(e *changed) {
		e.back = func(context.Context, []engine.Grant) error { return nil }
	}},
	"sends a lost reservation again": {behind, func(e *changed) {
		e.answers(func(r []engine.Request, a []engine.Answer, err error) ([]engine.Answer, error) {
			if errors.Is(err, engine.ErrOutcomeUnknown) {
				return e.Engine.Take(context.Background(), r)
			}
			return a, err
		})
	}},
	"calls a lost reservation unsent": {behind, func(e *changed) {
		e.answers(func(_ []engine.Request, a []engine.Answer, err error) ([]engine.Answer, error) {
			if errors.Is(err, engine.ErrOutcomeUnknown) {
				err = engine.ErrUnreachable
			}
			return a, err
		})
	}},
	"is a microsecond early": {idle, func(e *changed) {
		e.answers(func(_ []engine.Request, a []engine.Answer, err error) ([]engine.Answer, error) {
			for i := range a {
				if a[i].Granted && a[i].Wait > 0 {
					a[i].Wait -= time.Microsecond
					a[i].Grant.At--
				}
			}
			return a, err
		})
	}},
	"takes what it refuses": {idle, func(e *changed) {
		e.answers(func(r []engine.Request, a []engine.Answer, err error) ([]engine.Answer, error) {
			if len(a) > 0 && !a[0].Granted {
				_, _ = e.Engine.Take(context.Background(), []engine.Request{{N: r[0].N, MaxWait: engine.Forever}})
			}
			return a, err
		})
	}},
}

func TestTheCheckFindsABrokenEngine(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			// With few calls the check looks at every order that there is.
			p := b.play
			p.callers, p.each, p.breaks = 3, 8, b.breaks
			l := newLine(t, p)
			for i := range 100 {
				if p.record(t, l, *seed+uint64(i)).Check(patience) == porcupine.Illegal {
					t.Logf("found in history %d", i+1)
					return
				}
			}
			t.Fatal("not found")
		})
	}
}

// History is what callers asked of a queue, when, and what they were answered.
// Its methods may be called by any goroutine.
type History struct {
	windows []model.Window
	began   time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
	lost  int
}

// Begin begins the history of a queue that nobody has asked before. The quotas
// are those of its callers; they have no Burst.
func Begin(quotas ...engine.Quota) *History {
	h := &History{began: time.Now()}
	for _, q := range quotas {
		length := int64((q.Per + time.Microsecond - 1) / time.Microsecond)
		h.windows = append(h.windows, model.Window{Permits: q.Permits, Length: length})
	}
	return h
}

// Take asks the engine and notes it. An error that leaves the outcome open is
// noted, not returned; one that does not means that nothing was done.
func (h *History) Take(
	ctx context.Context, caller int, e engine.Engine, requests ...engine.Request,
) ([]engine.Answer, error) {
	call := h.now()
	told, err := e.Take(ctx, requests)
	return told, h.note(caller, call, take(requests), answers(told), err)
}

// GiveBack asks the engine and notes it, likewise.
func (h *History) GiveBack(ctx context.Context, caller int, e engine.Engine, grant engine.Grant) error {
	call := h.now()
	err := e.GiveBack(ctx, []engine.Grant{grant})
	return h.note(caller, call, back{grant}, done{}, err)
}

// Check looks for an order that the definition allows, for so long. Illegal
// says that there is none, Unknown that the time was too short.
func (h *History) Check(patience time.Duration) porcupine.CheckResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	return porcupine.CheckOperationsTimeout(checked(h.windows), h.calls, patience)
}

// never is when a call returns that may still happen.
const never = math.MaxInt64

func (h *History) note(caller int, call int64, input, output any, err error) error {
	end := h.now()
	switch {
	case errors.Is(err, engine.ErrOutcomeUnknown):
		output, end = unknown{}, never
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if end == never {
		h.lost++
	}
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: caller, Input: input, Call: call, Output: output, Return: end,
	})
	return nil
}

func (h *History) now() int64 { return int64(time.Since(h.began)) }
