package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal is a ctx that ends with the first signal that asks the process to
// end; its cause is a [signalled]. Signals that are ignored, as by nohup, stay
// ignored. After stop, signals do what they do to any program.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	came := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(came, s)
		}
	}
	go func() {
		select {
		case s := <-came:
			cancel(signalled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel(nil)
	}
}
