package enginetest

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

var brokenSteering = faults{
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
		"refuses by what it knew": with(func(f *faulty, _ engine.Engine) {
			f.fits = func(n int) error {
				if n > 2 {
					return engine.ErrExceedsQuota
				}
				return nil
			}
		}),
	},
}
