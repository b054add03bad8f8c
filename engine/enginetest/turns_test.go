package enginetest

import (
	"context"
	"slices"

	"github.com/fairlimit/fairlimit/engine"
)

var brokenTurns = faults{
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
}
