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
	for _, known := range []struct {
		err  error
		code codes.Code
	}{
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{fairlimit.ErrUnreachable, codes.Unavailable},
		{fairlimit.ErrOutcomeUnknown, codes.Unavailable},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	if lua.RefusedForNow(err) { // Redis loads, or fails over
		return codes.Unavailable
	}
	return codes.Internal
}
