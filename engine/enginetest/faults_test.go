package enginetest

import (
	"context"
	"crypto/rand"
	"math"
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

// faults has, for every case, engines that must fail it.
var faults = map[string]map[string]engine.Builder{
	"grants Permits at once and then refuses": {
		"one too many": misconfigured(func(cfg *engine.Config) { cfg.Quota.Permits++ }),
		"one too few":  misconfigured(func(cfg *engine.Config) { cfg.Quota.Permits-- }),
		"no wait told": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(_ engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				if !a.Granted {
					a.Wait = 0
				}
				return a, err
			})
		}),
	},
	"grants n permits in one turn or none": {
		"counts each request as one": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				answers, err := e.Take(ctx, []engine.Request{{N: 1, MaxWait: requests[0].MaxWait}})
				if err == nil {
					answers[0].Grant.N = requests[0].N
				}
				return answers, err
			}
		}),
	},
	"consumes nothing on a refusal": {
		"queues those it refuses": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				r := requests[0]
				answers, err := e.Take(ctx, []engine.Request{{N: r.N, MaxWait: engine.Forever}})
				if err == nil && answers[0].Wait > r.MaxWait {
					answers[0].Granted = false
				}
				return answers, err
			}
		}),
	},
	"honours MaxWait": {
		"grants any turn": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				return e.Take(ctx, []engine.Request{{N: requests[0].N, MaxWait: engine.Forever}})
			}
		}),
		"refuses every wait": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				return e.Take(ctx, []engine.Request{{N: requests[0].N}})
			}
		}),
	},
	"grants after the wait that it told": {
		"tells too short a wait": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(_ engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				a.Wait -= a.Wait / 10
				return a, err
			})
		}),
	},
	"answers several requests in order": {
		"the last first": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				backward := slices.Clone(requests)
				slices.Reverse(backward)
				answers, err := e.Take(ctx, backward)
				slices.Reverse(answers)
				return answers, err
			}
		}),
		"none": with(func(f *faulty, _ engine.Engine) {
			f.take = func(context.Context, []engine.Request) ([]engine.Answer, error) { return nil, nil }
		}),
		"too many": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				answers, err := e.Take(ctx, requests)
				return append(answers, engine.Answer{}), err
			}
		}),
	},
	"answers thousands of requests": {
		"loses what it leaves for the next call": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				answers, err := e.Take(ctx, requests)
				return answers[:min(len(answers), 500)], err
			}
		}),
	},
	"refuses what can never fit": {
		"another error": with(func(f *faulty, _ engine.Engine) {
			f.fits = func(n int) error {
				if n > 3 {
					return engine.ErrState
				}
				return nil
			}
		}),
		"no error": with(func(f *faulty, _ engine.Engine) { f.fits = func(int) error { return nil } }),
	},
	"queues in order at the earliest moments": {
		"lets go early": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(_ engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				a.Wait /= 2
				return a, err
			})
		}),
		"wastes room": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(r engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				if r.MaxWait > 0 {
					a.Wait *= 2
				}
				return a, err
			})
		}),
	},
	"gives back": {
		"gives nothing back": with(func(f *faulty, _ engine.Engine) {
			f.giveBack = func(context.Context, []engine.Grant) error { return nil }
		}),
		"gives everything back": with(func(f *faulty, e engine.Engine) {
			f.giveBack = func(ctx context.Context, _ []engine.Grant) error { return e.Reset(ctx) }
		}),
	},
	"gives back once": {
		"gives back again": with(func(f *faulty, e engine.Engine) {
			f.giveBack = func(ctx context.Context, _ []engine.Grant) error { return e.Reset(ctx) }
		}),
	},
	"does not give back what has passed": {
		"gives it back": with(func(f *faulty, e engine.Engine) {
			f.giveBack = func(ctx context.Context, _ []engine.Grant) error { return e.Reset(ctx) }
		}),
		"takes it for an error": with(func(f *faulty, _ engine.Engine) {
			f.giveBack = func(context.Context, []engine.Grant) error { return engine.ErrState }
		}),
	},
	"does not take back what another limiter granted": {
		"takes it back": with(func(f *faulty, e engine.Engine) {
			f.giveBack = func(ctx context.Context, _ []engine.Grant) error { return e.Reset(ctx) }
		}),
	},
	"keeps the quota in every window": {
		"Per too short": misconfigured(func(cfg *engine.Config) { cfg.Quota.Per -= cfg.Quota.Per / 4 }),
		"every client its own quota": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(r engine.Request, _ engine.Answer, err error) (engine.Answer, error) {
				return engine.Answer{Granted: true, Grant: engine.Grant{N: r.N}}, err
			})
		}),
	},
	"may be called by many at once": {
		"fails": with(func(f *faulty, e engine.Engine) {
			busy := make(chan struct{}, 1)
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				select {
				case busy <- struct{}{}:
					defer func() { <-busy }()
					return e.Take(ctx, requests)
				default:
					return nil, engine.ErrState
				}
			}
		}),
	},
	"reports how it stands": {
		"consumes": with(func(f *faulty, e engine.Engine) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, err := e.Status(ctx)
				if err == nil {
					_, err = e.Take(ctx, []engine.Request{{N: 1}})
				}
				return status, err
			}
		}),
		"forgets the delay": with(func(f *faulty, e engine.Engine) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, err := e.Status(ctx)
				status.Delay = 0
				return status, err
			}
		}),
		"forgets the queue": with(func(f *faulty, e engine.Engine) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, err := e.Status(ctx)
				status.Queued = 0
				return status, err
			}
		}),
	},
	"forgets on Reset": {
		"does not": with(func(f *faulty, _ engine.Engine) { f.reset = func(context.Context) error { return nil } }),
	},
	"shares by name": {
		"each its own": misconfigured(func(cfg *engine.Config) { cfg.Name += rand.Text() }),
	},
	"keeps names apart": {
		"all one":          misconfigured(func(cfg *engine.Config) { cfg.Name = "all" }),
		"ignores prefixes": misconfigured(func(cfg *engine.Config) { cfg.Prefix = nil }),
	},
	"works under any name or says no": {
		"grants nothing": with(func(f *faulty, _ engine.Engine) {
			f.take = func(context.Context, []engine.Request) ([]engine.Answer, error) { return nil, engine.ErrState }
		}),
		"cuts names": misconfigured(func(cfg *engine.Config) { cfg.Name = cfg.Name[:1] + "x" }),
	},
	"refuses a key that is not its own": {
		"grants": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(r engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				if err != nil {
					return engine.Answer{Granted: true, Grant: engine.Grant{N: r.N}}, nil
				}
				return a, nil
			})
		}),
		"reports": with(func(f *faulty, e engine.Engine) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, _ := e.Status(ctx)
				return status, nil
			}
		}),
		"cannot be reset": with(func(f *faulty, _ engine.Engine) {
			f.reset = func(context.Context) error { return engine.ErrState }
		}),
	},
	"stands still while it is paused": {
		"does not": with(func(f *faulty, _ engine.Engine) {
			f.pause = func(context.Context, time.Duration) error { return nil }
		}),
		"the last pause counts": with(func(f *faulty, e engine.Engine) {
			f.pause = func(ctx context.Context, d time.Duration) error {
				if d == long {
					_ = e.Reset(ctx)
				}
				return e.(engine.Steerer).Pause(ctx, d)
			}
		}),
		"does not say so": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(_ engine.Request, a engine.Answer, err error) (engine.Answer, error) {
				a.Paused = 0
				return a, err
			})
		}),
		"Status does not say so": with(func(f *faulty, e engine.Engine) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, err := e.Status(ctx)
				status.Paused = 0
				return status, err
			}
		}),
	},
	"tells the news of its queue": {
		"of another": config(func(cfg *engine.Config) {
			if heard := cfg.Heard; heard != nil {
				cfg.Heard = func(n *engine.News) { n.Queue = "another"; heard(n) }
			}
		}, func(*faulty, engine.Engine) {}),
		"not": misconfigured(func(cfg *engine.Config) { cfg.Heard = nil }),
		"does not look": with(func(f *faulty, _ engine.Engine) {
			f.look = func(context.Context) error { return nil }
		}),
		"looks like a pause": with(func(f *faulty, e engine.Engine) {
			f.look = func(ctx context.Context) error {
				_ = e.(engine.Steerer).Pause(ctx, time.Second)
				return e.(engine.Steerer).Look(ctx)
			}
		}),
		"keeps a reset to itself": config(func(cfg *engine.Config) {
			if heard := cfg.Heard; heard != nil {
				cfg.Heard = func(n *engine.News) { n.Reset = false; heard(n) }
			}
		}, func(*faulty, engine.Engine) {}),
	},
	"is steered without a quota or says no": {
		"makes one up": misconfigured(func(cfg *engine.Config) {
			if cfg.Quota.Permits == 0 {
				cfg.Quota = engine.Quota{Permits: 1, Per: long}
			}
		}),
		"cannot be paused": with(func(f *faulty, _ engine.Engine) {
			f.pause = func(context.Context, time.Duration) error { return engine.ErrNoQuota }
		}),
	},
	"takes stored quotas for its own or says no": {
		"does not look": misconfigured(func(cfg *engine.Config) { cfg.Stored = false }),
		"refuses by what it knew": with(func(f *faulty, _ engine.Engine) {
			f.fits = func(n int) error {
				if n > 2 {
					return engine.ErrExceedsQuota
				}
				return nil
			}
		}),
	},
	"goes on when the server forgets its scripts": {
		"does not": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				known, err := f.client.ScriptExists(ctx, loaded).Result()
				if err == nil && f.asked && !known[0] {
					return nil, engine.ErrState
				}
				f.asked = true
				f.client.ScriptLoad(ctx, "return 1")
				return e.Take(ctx, requests)
			}
		}),
	},
	"consumes nothing for a ctx that has ended": {
		"consumes": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				answers, err := e.Take(context.WithoutCancel(ctx), requests)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return answers, err
			}
		}),
		"grants": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				return e.Take(context.WithoutCancel(ctx), requests)
			}
		}),
	},
	"asks once where an answer is lost": {
		"asks again": with(func(f *faulty, e engine.Engine) {
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				answers, err := e.Take(ctx, requests)
				if err != nil {
					return e.Take(ctx, requests)
				}
				return answers, nil
			}
		}),
	},
	"honours what it is configured with or says no": {
		"ignores Burst":          misconfigured(func(cfg *engine.Config) { cfg.Quota.Burst = 0 }),
		"ignores further quotas": misconfigured(func(cfg *engine.Config) { cfg.Extra = nil }),
		"ignores the guard":      misconfigured(func(cfg *engine.Config) { cfg.Guard = 0 }),
		"cuts long windows": misconfigured(func(cfg *engine.Config) {
			if cfg.Quota.Per == math.MaxInt64 {
				cfg.Quota.Per = time.Microsecond
			}
		}),
	},
	"does no I/O until it is asked": {
		"pings": func(cfg engine.Config) (engine.Engine, error) {
			_ = cfg.Client.Ping(context.Background()).Err()
			return fair.New(cfg)
		},
		"grants without a server": with(func(f *faulty, e engine.Engine) {
			lenient(f, e, func(r engine.Request, _ engine.Answer, _ error) (engine.Answer, error) {
				return engine.Answer{Granted: true, Grant: engine.Grant{N: r.N}}, nil
			})
		}),
	},
}

func TestEveryCaseCanFail(t *testing.T) {
	for _, c := range cases {
		require.NotEmpty(t, faults[c.name], "nothing breaks the case %q", c.name)
		for name, build := range faults[c.name] {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					assert.Error(t, c.check(t.Context(), build, rdb))
				})
			})
		}
	}
	assert.Len(t, faults, len(cases))
}

func TestAnEngineThatDoesNotQueuePasses(t *testing.T) {
	Run(t, hasty, redistest.OnEach)
}
