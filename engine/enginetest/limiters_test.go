package enginetest

import (
	"context"
	"crypto/rand"
	"math"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

var brokenLimiters = faults{
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
		"all one": misconfigured(func(cfg *engine.Config) { cfg.Name = "all" }),
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
	"honours what it is configured with or says no": {
		"ignores Burst": misconfigured(func(cfg *engine.Config) { cfg.Quota.Burst = 0 }),
		"cuts long windows": misconfigured(func(cfg *engine.Config) {
			if cfg.Quota.Per == math.MaxInt64 {
				cfg.Quota.Per = time.Microsecond
			}
		}),
	},
	"counts further units": {
		"ignores them": misconfigured(func(cfg *engine.Config) { cfg.Units = nil }),
	},
	"counts no grant that too few replicas have": {
		"does not look": misconfigured(func(cfg *engine.Config) { cfg.Replicas = 0 }),
	},
}
