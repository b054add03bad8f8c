package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/lua"
)

// unsentError is a limiter's error that has a status as well, so that those
// who look for either find it.
type unsentError struct{ error }

func unsent(err error) error { return unsentError{err} }

func (e unsentError) Unwrap() error { return e.error }

// GRPCStatus is for package status.
func (e unsentError) GRPCStatus() *status.Status { return status.New(code(e.error), e.Error()) }

func code(err error) codes.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, fairlimit.ErrUnreachable), errors.Is(err, fairlimit.ErrOutcomeUnknown),
		lua.RefusedForNow(err): // Redis loads, or fails over
		return codes.Unavailable
	}
	return codes.Internal
}
