package enginetest

import (
	"context"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

var brokenServers = faults{
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
