package enginetest

import (
	"context"
	"crypto/rand"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// faulty is an engine of fair with some of its methods replaced. The replaced
// ones are those of its Steerer.
type faulty struct {
	engine.Steerer
	client redis.UniversalClient

	queues   func() bool
	fits     func(int) error
	take     func(context.Context, []engine.Request) ([]engine.Answer, error)
	giveBack func(context.Context, []engine.Grant) error
	status   func(context.Context) (engine.Status, error)
	reset    func(context.Context) error
	look     func(context.Context) error
	pause    func(context.Context, time.Duration) error
}

func (f *faulty) Queues() bool                                      { return f.queues() }
func (f *faulty) Fits(n int) error                                  { return f.fits(n) }
func (f *faulty) Reset(ctx context.Context) error                   { return f.reset(ctx) }
func (f *faulty) Look(ctx context.Context) error                    { return f.look(ctx) }
func (f *faulty) Pause(ctx context.Context, d time.Duration) error  { return f.pause(ctx, d) }
func (f *faulty) Status(ctx context.Context) (engine.Status, error) { return f.status(ctx) }

func (f *faulty) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	return f.take(ctx, requests)
}

func (f *faulty) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return f.giveBack(ctx, grants)
}

// with builds engines in which something is replaced.
func with(replace func(f *faulty)) engine.Builder {
	return func(cfg engine.Config) (engine.Engine, error) {
		e, err := fair.New(cfg)
		if err != nil {
			return nil, err
		}
		s := e.(engine.Steerer)
		f := &faulty{s, cfg.Client, s.Queues, s.Fits, s.Take, s.GiveBack, s.Status, s.Reset, s.Look, s.Pause}
		replace(f)
		return f, nil
	}
}

// misconfigured builds engines that do not get the configuration that they were
// given.
func misconfigured(change func(cfg *engine.Config)) engine.Builder {
	return func(cfg engine.Config) (engine.Engine, error) {
		change(&cfg)
		return fair.New(cfg)
	}
}

// question is one that an engine is asked.
type question struct {
	*faulty
	ctx      context.Context
	requests []engine.Request
}

// ask has the engine itself answer requests.
func (q question) ask(requests ...engine.Request) ([]engine.Answer, error) {
	return q.Steerer.Take(q.ctx, requests)
}

// asks has the function answer each question.
func asks(answer func(q question) ([]engine.Answer, error)) engine.Builder {
	return with(func(f *faulty) {
		f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
			return answer(question{f, ctx, requests})
		}
	})
}

// answers passes each answer through the function.
func answers(answer func(engine.Request, engine.Answer) engine.Answer) engine.Builder {
	return asks(func(q question) ([]engine.Answer, error) {
		answers, err := q.ask(q.requests[0])
		if err != nil {
			return nil, err
		}
		return []engine.Answer{answer(q.requests[0], answers[0])}, nil
	})
}

// tells passes what Status tells through the function.
func tells(tell func(s *engine.Status)) engine.Builder {
	return with(func(f *faulty) {
		f.status = func(ctx context.Context) (engine.Status, error) {
			status, err := f.Steerer.Status(ctx)
			tell(&status)
			return status, err
		}
	})
}

// hears passes the news through the function.
func hears(hear func(n *engine.News)) engine.Builder {
	return misconfigured(func(cfg *engine.Config) {
		if heard := cfg.Heard; heard != nil {
			cfg.Heard = func(n *engine.News) { hear(n); heard(n) }
		}
	})
}

// loaded is the name that Redis gives the script "return 1".
const loaded = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

// grantsAll grants whatever happens.
var grantsAll = asks(func(q question) ([]engine.Answer, error) {
	return []engine.Answer{{Granted: true, Grant: engine.Grant{N: q.requests[0].N}}}, nil
})

// givesAllBack gives all turns back in place of some.
var givesAllBack = with(func(f *faulty) {
	f.giveBack = func(ctx context.Context, _ []engine.Grant) error { return f.Steerer.Reset(ctx) }
})

// faults has, for every case, engines that must fail it, each by its fault.
var faults = map[string]map[string]engine.Builder{
	"grants Permits at once and then refuses": {
		"one permit too many": misconfigured(func(cfg *engine.Config) { cfg.Quota.Permits++ }),
		"one permit too few":  misconfigured(func(cfg *engine.Config) { cfg.Quota.Permits-- }),
		"tells no wait": answers(func(_ engine.Request, a engine.Answer) engine.Answer {
			if !a.Granted {
				a.Wait = 0
			}
			return a
		}),
	},
	"grants n permits in one turn or none": {
		"counts each request as one": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.ask(within(1, q.requests[0].MaxWait))
			if err == nil {
				answers[0].Grant.N = q.requests[0].N
			}
			return answers, err
		}),
		"queues those it refuses": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.ask(whenever(q.requests[0].N))
			if err == nil && answers[0].Wait > q.requests[0].MaxWait {
				answers[0].Granted = false
			}
			return answers, err
		}),
	},
	"honours MaxWait": {
		"grants any turn": asks(func(q question) ([]engine.Answer, error) {
			return q.ask(whenever(q.requests[0].N))
		}),
		"refuses every wait": asks(func(q question) ([]engine.Answer, error) {
			return q.ask(now(q.requests[0].N))
		}),
	},
	"grants after the wait that it told": {
		"tells too short a wait": answers(func(_ engine.Request, a engine.Answer) engine.Answer {
			a.Wait -= a.Wait / 10
			return a
		}),
	},
	"answers several requests in order": {
		"answers the last first": asks(func(q question) ([]engine.Answer, error) {
			backward := slices.Clone(q.requests)
			slices.Reverse(backward)
			answers, err := q.ask(backward...)
			slices.Reverse(answers)
			return answers, err
		}),
		"answers nothing": asks(func(question) ([]engine.Answer, error) {
			return nil, nil
		}),
		"answers too much": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.ask(q.requests...)
			return append(answers, engine.Answer{}), err
		}),
	},
	"answers thousands of requests": {
		"loses what it leaves for the next call": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.ask(q.requests...)
			return answers[:min(len(answers), 500)], err
		}),
	},
	"refuses what can never fit": {
		"says too late what fits": with(func(f *faulty) { f.fits = func(int) error { return nil } }),
		"names another error": with(func(f *faulty) {
			f.fits = func(n int) error {
				if n > 3 {
					return engine.ErrState
				}
				return nil
			}
		}),
	},
	"takes stored quotas for its own or says no": {
		"refuses by what it knew": with(func(f *faulty) {
			f.fits = func(n int) error {
				if n > 2 {
					return engine.ErrExceedsQuota
				}
				return nil
			}
		}),
	},
	"queues in order at the earliest moments": {
		"lets go early": answers(func(_ engine.Request, a engine.Answer) engine.Answer {
			a.Wait /= 2
			return a
		}),
		"wastes room": answers(func(r engine.Request, a engine.Answer) engine.Answer {
			if r.MaxWait > 0 {
				a.Wait *= 2
			}
			return a
		}),
	},
	"keeps the quota in every window": {
		"a Per too short":         misconfigured(func(cfg *engine.Config) { cfg.Quota.Per -= cfg.Quota.Per / 4 }),
		"grants whatever happens": grantsAll,
		"fails while it is busy": with(func(f *faulty) {
			busy := make(chan struct{}, 1)
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				select {
				case busy <- struct{}{}:
					defer func() { <-busy }()
					return f.Steerer.Take(ctx, requests)
				default:
					return nil, engine.ErrState
				}
			}
		}),
	},
	"refuses a key that is not its own": {
		"grants whatever happens": grantsAll,
		"reports whatever happens": with(func(f *faulty) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, _ := f.Steerer.Status(ctx)
				return status, nil
			}
		}),
		"cannot be reset": with(func(f *faulty) { f.reset = func(context.Context) error { return engine.ErrState } }),
	},
	"does no I/O until it is asked": {
		"grants whatever happens": grantsAll,
		"pings": func(cfg engine.Config) (engine.Engine, error) {
			_ = cfg.Client.Ping(context.Background()).Err()
			return fair.New(cfg)
		},
	},
	"gives back": {
		"gives nothing back": with(func(f *faulty) {
			f.giveBack = func(context.Context, []engine.Grant) error { return nil }
		}),
		"gives everything back": givesAllBack,
	},
	"gives back once": {
		"gives everything back": givesAllBack,
	},
	"does not give back what has passed": {
		"gives everything back": givesAllBack,
		"takes a return for an error": with(func(f *faulty) {
			f.giveBack = func(context.Context, []engine.Grant) error { return engine.ErrState }
		}),
	},
	"does not take back what another limiter granted": {
		"gives everything back": givesAllBack,
	},
	"reports how it stands": {
		"consumes when it reports": with(func(f *faulty) {
			f.status = func(ctx context.Context) (engine.Status, error) {
				status, err := f.Steerer.Status(ctx)
				_, _ = f.Steerer.Take(ctx, []engine.Request{{N: 1}})
				return status, err
			}
		}),
		"reports no delay": tells(func(s *engine.Status) { s.Delay = 0 }),
		"reports no queue": tells(func(s *engine.Status) { s.Queued = 0 }),
	},
	"stands still while it is paused": {
		"reports no pause": tells(func(s *engine.Status) { s.Paused = 0 }),
		"does not pause": with(func(f *faulty) {
			f.pause = func(context.Context, time.Duration) error { return nil }
		}),
		"goes by the last pause": with(func(f *faulty) {
			f.pause = func(ctx context.Context, d time.Duration) error {
				if d == long {
					_ = f.Steerer.Reset(ctx)
				}
				return f.Steerer.Pause(ctx, d)
			}
		}),
		"tells of no pause": answers(func(_ engine.Request, a engine.Answer) engine.Answer {
			a.Paused = 0
			return a
		}),
	},
	"forgets on Reset": {
		"does not reset": with(func(f *faulty) { f.reset = func(context.Context) error { return nil } }),
	},
	"is one limiter under each name": {
		"a name for each":  misconfigured(func(cfg *engine.Config) { cfg.Name += rand.Text() }),
		"one name for all": misconfigured(func(cfg *engine.Config) { cfg.Name = "all" }),
	},
	"works under any name or says no": {
		"cuts names": misconfigured(func(cfg *engine.Config) { cfg.Name = cfg.Name[:1] + "x" }),
		"grants nothing": asks(func(question) ([]engine.Answer, error) {
			return nil, engine.ErrState
		}),
	},
	"honours what it is configured with or says no": {
		"ignores Burst": misconfigured(func(cfg *engine.Config) { cfg.Quota.Burst = 0 }),
		"cuts long windows": misconfigured(func(cfg *engine.Config) {
			if cfg.Quota.Per == math.MaxInt64 {
				cfg.Quota.Per = time.Microsecond
			}
		}),
	},
	"counts further units": {
		"ignores units": misconfigured(func(cfg *engine.Config) { cfg.Units = nil }),
	},
	"counts no grant that too few replicas have": {
		"ignores replicas": misconfigured(func(cfg *engine.Config) { cfg.Replicas = 0 }),
	},
	"is steered without a quota or says no": {
		"makes a quota up": misconfigured(func(cfg *engine.Config) {
			if cfg.Quota.Permits == 0 {
				cfg.Quota = engine.Quota{Permits: 1, Per: long}
			}
		}),
		"cannot be paused": with(func(f *faulty) {
			f.pause = func(context.Context, time.Duration) error { return engine.ErrNoQuota }
		}),
	},
	"goes on when the server forgets its scripts": {
		"needs its scripts": with(func(f *faulty) {
			asked := false
			f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
				known, err := f.client.ScriptExists(ctx, loaded).Result()
				if err == nil && asked && !known[0] {
					return nil, engine.ErrState
				}
				asked = true
				f.client.ScriptLoad(ctx, "return 1")
				return f.Steerer.Take(ctx, requests)
			}
		}),
	},
	"consumes nothing for a ctx that has ended": {
		"heeds no ctx": asks(func(q question) ([]engine.Answer, error) {
			return q.Steerer.Take(context.WithoutCancel(q.ctx), q.requests)
		}),
		"consumes for an ended ctx": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.Steerer.Take(context.WithoutCancel(q.ctx), q.requests)
			if q.ctx.Err() != nil {
				return nil, q.ctx.Err()
			}
			return answers, err
		}),
	},
	"asks once where an answer is lost": {
		"asks again": asks(func(q question) ([]engine.Answer, error) {
			answers, err := q.ask(q.requests...)
			if err != nil {
				return q.ask(q.requests...)
			}
			return answers, nil
		}),
	},
	"tells the news of its queue": {
		"tells news of another":   hears(func(n *engine.News) { n.Queue = "another" }),
		"keeps a reset to itself": hears(func(n *engine.News) { n.Reset = false }),
		"does not look":           with(func(f *faulty) { f.look = func(context.Context) error { return nil } }),
		"pauses when it looks": with(func(f *faulty) {
			f.look = func(ctx context.Context) error {
				_ = f.Steerer.Pause(ctx, time.Second)
				return f.Steerer.Look(ctx)
			}
		}),
	},
}
