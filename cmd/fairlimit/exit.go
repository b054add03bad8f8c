package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

// The exit statuses.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUsage       = 2
	statusUnreachable = 3
)

// The exit statuses of wait, which passes on that of a command. They are those
// of timeout(1) and env(1), with one more.
const (
	waitUnreachable = 123
	waitTooLate     = 124
	waitFailed      = 125
	waitCannotRun   = 126
	waitNotFound    = 127
	waitSignalled   = 128 // and the number of the signal
)

// usageError is a command line that cannot be understood.
type usageError string

func (e usageError) Error() string { return string(e) }

func misused(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// signalled is why a ctx ended: a signal came.
type signalled struct{ os.Signal }

func (e signalled) Error() string { return e.Signal.String() }

// interrupted is the end of a wait that a signal ended. The error of the wait
// tells what became of the permits, and names the signal.
type interrupted struct {
	error
	signalled
}

func (e interrupted) Error() string { return e.error.Error() }

// tooLate is a refusal in the words of the command line.
type tooLate struct {
	refused *fairlimit.RefusedError
	name    string
	timeout time.Duration
}

func (e tooLate) Error() string {
	paused := ""
	if errors.Is(e.refused, fairlimit.ErrPaused) {
		paused = "paused, and "
	}
	return fmt.Sprintf("%.100q: %srefused: the turn would come in %s, later than -timeout %v allows",
		e.name, paused, brief(e.refused.Wait), e.timeout)
}

func (e tooLate) Unwrap() error { return e.refused }

// cannotRun is a command that cannot be run in its turn.
type cannotRun struct{ error }

func (e cannotRun) Unwrap() error { return e.error }

// status is the exit status of an error.
func (c *call) status(err error) int {
	if c.command.runs() {
		return waitStatus(err)
	}
	switch {
	case errors.As(err, new(usageError)):
		return statusUsage
	case isUnreachable(err):
		return statusUnreachable
	}
	return statusFailed
}

func waitStatus(err error) int {
	var wait interrupted
	switch {
	case errors.As(err, new(usageError)):
		return waitFailed
	case errors.As(err, &wait):
		number, _ := wait.Signal.(syscall.Signal)
		return waitSignalled + int(number)
	case errors.As(err, new(cannotRun)) && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist)):
		return waitNotFound
	case errors.As(err, new(cannotRun)):
		return waitCannotRun
	case isUnreachable(err):
		return waitUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return waitTooLate
	}
	return waitFailed
}

// foundNobody reports whether there was no server to ask.
func foundNobody(err error) bool {
	var failed *net.OpError
	return errors.Is(err, fairlimit.ErrUnreachable) || errors.As(err, &failed) && failed.Op == "dial"
}

// isUnreachable reports whether Redis gave no answer.
func isUnreachable(err error) bool {
	var reply redis.Error
	switch {
	case errors.As(err, new(*fairlimit.RefusedError)):
		return false // it is a timeout to package net
	case errors.Is(err, fairlimit.ErrUnreachable), errors.Is(err, fairlimit.ErrOutcomeUnknown):
		return true
	case errors.As(err, &reply):
		return false
	}
	return errors.As(err, new(net.Error)) || errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.Is(err, io.EOF) || errors.Is(err, redis.ErrPoolTimeout)
}
