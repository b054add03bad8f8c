package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit"
)

// refusal is an error with a status of its own.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

func misused(format string, args ...any) error {
	return refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// errTooMany is for what this server bounds. Redis was not asked.
var errTooMany = errors.New("too many")

// problem is what is answered instead of an object. Nothing was granted, unless
// the text says that nobody knows. If the client has gone, the status is
// [statusGone], and nobody reads an answer.
func (s *Server) problem(ctx context.Context, h http.Header, err error) (status int, object map[string]any) {
	var refused *fairlimit.RefusedError
	switch {
	case errors.Is(context.Cause(ctx), errEnding):
		h.Set("Connection", "close")
		return http.StatusServiceUnavailable, map[string]any{"error": errEnding.Error()}
	case gone(ctx):
		return statusGone, nil
	case errors.As(err, &refused):
		wait := (refused.Wait + time.Millisecond - 1).Milliseconds()
		return http.StatusConflict, map[string]any{
			"refused": true, "wait_ms": wait, "paused": errors.Is(err, fairlimit.ErrPaused),
		}
	}
	status = statusOf(err)
	switch status {
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		s.tell(err)
	}
	return status, map[string]any{"error": err.Error()}
}

// gone is whether the client of a request has closed its connection.
func gone(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errEnding)
}

func statusOf(err error) int {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	var own refusal
	switch {
	case errors.As(err, &own):
		return own.status
	case is(errTooMany):
		return http.StatusTooManyRequests
	case is(errNoRoute, errNoQueue, errNoTurn, fairlimit.ErrReservationOver):
		return http.StatusNotFound
	case is(fairlimit.ErrTurnAhead):
		return http.StatusConflict
	case is(fairlimit.ErrInvalidPermits, fairlimit.ErrExceedsQuota, fairlimit.ErrInvalidFlow,
		fairlimit.ErrInvalidPause, fairlimit.ErrInvalidQuota, fairlimit.ErrUnsupported, fairlimit.ErrEmptyName,
		fairlimit.ErrUnknownUnit, fairlimit.ErrInvalidAmounts, fairlimit.ErrInvalidOption):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable // Redis, and what only Redis knows
}

// tell logs a failure of Redis, one in ten seconds at most.
func (s *Server) tell(err error) {
	now := time.Now()
	until := s.quiet.Load()
	if now.UnixNano() >= until && s.quiet.CompareAndSwap(until, now.Add(10*time.Second).UnixNano()) {
		s.Log.Print(err)
	}
}
