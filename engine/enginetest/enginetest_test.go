package enginetest

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// faulty is an engine with some of its methods replaced.
type faulty struct {
	engine.Steerer
	queues   func() bool
	fits     func(int) error
	take     func(context.Context, []engine.Request) ([]engine.Answer, error)
	giveBack func(context.Context, []engine.Grant) error
	status   func(context.Context) (engine.Status, error)
	reset    func(context.Context) error
	look     func(context.Context) error
	pause    func(context.Context, time.Duration) error

	client redis.UniversalClient
	asked  bool
}

func (f *faulty) Queues() bool                    { return f.queues() }
func (f *faulty) Fits(n int) error                { return f.fits(n) }
func (f *faulty) Reset(ctx context.Context) error { return f.reset(ctx) }
func (f *faulty) Look(ctx context.Context) error  { return f.look(ctx) }

func (f *faulty) Pause(ctx context.Context, d time.Duration) error { return f.pause(ctx, d) }

func (f *faulty) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	return f.take(ctx, requests)
}

func (f *faulty) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return f.giveBack(ctx, grants)
}

func (f *faulty) Status(ctx context.Context) (engine.Status, error) { return f.status(ctx) }

// with builds fair engines in which break has replaced something.
func with(breakIt func(f *faulty, e engine.Engine)) engine.Builder {
	return config(func(*engine.Config) {}, breakIt)
}

// misconfigured builds fair engines that do not get the configuration that they
// were given.
func misconfigured(change func(cfg *engine.Config)) engine.Builder {
	return config(change, func(*faulty, engine.Engine) {})
}

func config(change func(cfg *engine.Config), breakIt func(f *faulty, e engine.Engine)) engine.Builder {
	return func(cfg engine.Config) (engine.Engine, error) {
		change(&cfg)
		e, err := fair.New(cfg)
		if err != nil {
			return nil, err
		}
		s := e.(engine.Steerer)
		f := &faulty{s, s.Queues, s.Fits, s.Take, s.GiveBack, s.Status, s.Reset, s.Look, s.Pause, cfg.Client, false}
		breakIt(f, e)
		return f, nil
	}
}

// hasty is an engine as good as fair, except that it does not queue.
var hasty = with(func(f *faulty, e engine.Engine) {
	f.queues = func() bool { return false }
	f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
		requests = slices.Clone(requests)
		for i := range requests {
			requests[i].MaxWait = 0
		}
		return e.Take(ctx, requests)
	}
})

// lenient passes each answer or error through the given function.
func lenient(
	f *faulty, e engine.Engine, answer func(r engine.Request, a engine.Answer, err error) (engine.Answer, error),
) {
	f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
		answers, err := e.Take(ctx, requests[:1])
		if err != nil {
			a, err := answer(requests[0], engine.Answer{}, err)
			return []engine.Answer{a}, err
		}
		a, err := answer(requests[0], answers[0], nil)
		return []engine.Answer{a}, err
	}
}

// loaded is the name that Redis gives the script "return 1".
const loaded = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

// faults has, for every case, engines that must fail it, each by its fault.
type faults map[string]map[string]engine.Builder

func TestEveryCaseCanFail(t *testing.T) {
	broken := faults{}
	for _, more := range []faults{brokenTurns, brokenReturns, brokenLimiters, brokenServers, brokenSteering} {
		maps.Copy(broken, more)
	}
	for _, c := range cases {
		require.NotEmpty(t, broken[c.name], "nothing breaks the case %q", c.name)
		for name, build := range broken[c.name] {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					assert.Error(t, c.check(t.Context(), build, rdb))
				})
			})
		}
	}
	assert.Len(t, broken, len(cases))
}

// An engine that ignores a field of its configuration fails some case.
func TestEveryFieldOfTheConfigurationIsHeldByACase(t *testing.T) {
	for i := range reflect.TypeFor[engine.Config]().NumField() {
		name := reflect.TypeFor[engine.Config]().Field(i).Name
		if name == "Client" || name == "OwnGuard" { // nothing works without the one, the other is up to the engine
			continue
		}
		ignores := misconfigured(func(cfg *engine.Config) { reflect.ValueOf(cfg).Elem().Field(i).SetZero() })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.True(t, slices.ContainsFunc(cases, func(c testCase) (fails bool) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					fails = c.check(t.Context(), ignores, rdb) != nil
				})
				return fails
			}))
		})
	}
}

func TestAnEngineThatDoesNotQueuePasses(t *testing.T) {
	Run(t, hasty, redistest.OnEach)
}
