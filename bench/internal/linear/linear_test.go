package linear

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
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
	build     func(engine.Engine) engine.Engine
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

// small is the same with few calls, so that the check looks at every order that
// there is.
func (p play) small(build func(engine.Engine) engine.Engine) play {
	p.callers, p.each, p.losses, p.build = 3, 8, 3, build
	return p
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
		asked := engineOf(rdb)
		if !p.loseTakes {
			asked = apart{engineOf(l.sound), asked}
		}
		if p.build != nil {
			asked = p.build(asked)
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

// apart asks by one client and gives back by another.
type apart struct {
	engine.Engine
	lossy engine.Engine
}

func (a apart) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return a.lossy.GiveBack(ctx, grants)
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
				left, all := h.Lost()
				lost, calls = lost+left, calls+all
				switch h.Check(patience) {
				case porcupine.Illegal:
					t.Fatalf("seed %d: no order explains these answers:\n%s", s, strings.Join(h.Lines(), "\n"))
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

// broken engines make one mistake each. The check finds each of them.
var broken = map[string]struct {
	play
	build func(engine.Engine) engine.Engine
}{
	"swaps two grants":                {behind, func(e engine.Engine) engine.Engine { return swaps{e} }},
	"gives back twice":                {behind, func(e engine.Engine) engine.Engine { return givesTwice{e} }},
	"gives back nothing":              {behind, func(e engine.Engine) engine.Engine { return keeps{e} }},
	"sends a lost reservation again":  {behind, func(e engine.Engine) engine.Engine { return resends{e} }},
	"calls a lost reservation unsent": {behind, func(e engine.Engine) engine.Engine { return denies{e} }},
	"is a microsecond early":          {idle, func(e engine.Engine) engine.Engine { return early{e} }},
	"takes what it refuses":           {idle, func(e engine.Engine) engine.Engine { return hides{e} }},
}

func TestTheCheckFindsABrokenEngine(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			p := b.play.small(b.build)
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

type swaps struct{ engine.Engine }

func (s swaps) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := s.Engine.Take(ctx, requests)
	if len(answers) > 1 && answers[0].Granted && answers[1].Granted && requests[0].N == requests[1].N {
		answers[0], answers[1] = answers[1], answers[0]
	}
	return answers, err
}

type givesTwice struct{ engine.Engine }

func (g givesTwice) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return errors.Join(g.Engine.GiveBack(ctx, grants), g.Engine.GiveBack(ctx, grants))
}

type keeps struct{ engine.Engine }

func (keeps) GiveBack(context.Context, []engine.Grant) error { return nil }

type resends struct{ engine.Engine }

func (r resends) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := r.Engine.Take(ctx, requests)
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		answers, err = r.Engine.Take(ctx, requests)
	}
	return answers, err
}

type denies struct{ engine.Engine }

func (d denies) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := d.Engine.Take(ctx, requests)
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w: %v", engine.ErrUnreachable, err)
	}
	return answers, err
}

type early struct{ engine.Engine }

func (e early) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := e.Engine.Take(ctx, requests)
	for i := range answers {
		if answers[i].Granted && answers[i].Wait > 0 {
			answers[i].Wait -= time.Microsecond
			answers[i].Grant.At--
		}
	}
	return answers, err
}

// hides takes a turn for those whom it refuses.
type hides struct{ engine.Engine }

func (h hides) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := h.Engine.Take(ctx, requests)
	if len(answers) > 0 && !answers[0].Granted {
		_, _ = h.Engine.Take(ctx, []engine.Request{{N: requests[0].N, MaxWait: engine.Forever}})
	}
	return answers, err
}
