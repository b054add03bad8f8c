package engines

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Lateness says how late the caller's timer for a wait of in goes off.
type Lateness func(caller int, in time.Duration) time.Duration

type latenessKey struct{}

// WithLateness makes timers late. It is for a simulation, whose timers are not
// late by themselves.
func WithLateness(ctx context.Context, late Lateness) context.Context {
	return context.WithValue(ctx, latenessKey{}, late)
}

// delay lets every caller wait for longer than it was told to.
func delay(ctx context.Context, answers []engine.Answer, callers []int) {
	late, simulated := ctx.Value(latenessKey{}).(Lateness)
	if !simulated {
		return
	}
	for i := range answers {
		if callers[i] != nobody {
			answers[i].Wait += late(callers[i], answers[i].Wait)
		}
	}
}
