package enginetest

import (
	"context"

	"github.com/fairlimit/fairlimit/engine"
)

var brokenReturns = faults{
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
}
