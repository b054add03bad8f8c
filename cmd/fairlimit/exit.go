package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlimit/fairlimit"
)

// The exit statuses. Wait, which passes on that of a command, has those of
// timeout(1) and env(1), with one more.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUsage       = 2
	statusUnreachable = 3

	waitUnreachable = 123
	waitTooLate     = 124
	waitFailed      = 125
	waitCannotRun   = 126
	waitNotFound    = 127
	waitSignalled   = 128 // and the number of the signal
)

// failure is an error with an exit status of its own.
type failure struct {
	error
	status int
}

// misused is the error of a command line that cannot be understood.
func misused(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), statusUsage}
}

// status is the exit status of an error, of wait or of another command.
func status(err error, ofWait bool) int {
	status := statusFailed
	var own failure
	if errors.As(err, &own) {
		status = own.status
	} else if isUnreachable(err) {
		status = statusUnreachable
	}
	switch {
	case ofWait && status == statusUnreachable:
		return waitUnreachable
	case ofWait && status <= statusUsage:
		return waitFailed
	}
	return status
}

// isUnreachable reports whether Redis gave no answer, or none in time. A refusal
// is an answer.
func isUnreachable(err error) bool {
	return !errors.As(err, new(*fairlimit.RefusedError)) && (errors.Is(err, fairlimit.ErrUnreachable) ||
		errors.Is(err, fairlimit.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded))
}

// signalled is why a ctx ended: a signal came.
type signalled struct{ os.Signal }

func (e signalled) Error() string { return e.Signal.String() }

// untilSignal is a ctx that ends with the first signal that asks the process to
// end; its cause is a [signalled]. Signals that are ignored, as by nohup, stay
// ignored. After stop, signals do what they do to any program.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	came := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(came, s)
		}
	}
	go func() { end(signalled{<-came}) }()
	return ctx, func() {
		signal.Stop(came)
		end(nil)
	}
}
