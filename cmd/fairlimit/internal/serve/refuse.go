package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
)

// statusGone stands for a client that closed its connection while it waited.
const statusGone = 499

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
// the text says that nobody knows. If the client has gone, nobody reads it.
func (s *Server) problem(ctx context.Context, h http.Header, err error) (status int, object map[string]any) {
	var refused *fairlimit.RefusedError
	switch {
	case errors.Is(context.Cause(ctx), errEnding):
		h.Set("Connection", "close")
		return http.StatusServiceUnavailable, map[string]any{"error": errEnding.Error()}
	case ctx.Err() != nil:
		return statusGone, map[string]any{"error": "the client has gone"}
	case errors.As(err, &refused):
		wait := (refused.Wait + time.Millisecond - 1).Milliseconds()
		return http.StatusConflict, map[string]any{
			"refused": true, "wait_ms": wait, "paused": errors.Is(err, fairlimit.ErrPaused),
		}
	}
	if errors.Is(err, fairlimit.ErrUnknownUnit) {
		_, which, _ := strings.Cut(err.Error(), "unknown unit: ")
		err = misused("no such parameter or unit: %s", strings.NewReplacer(`""`, "permits", `"`, "").Replace(which))
	}
	status = statusOf(err)
	switch status {
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		s.quiet.Do(func() { s.Log.Print(err) })
	}
	return status, map[string]any{"error": err.Error()}
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
	case is(errNoRoute, errNoQueue, errNoTurn, fairlimit.ErrNoQuota, fairlimit.ErrReservationOver):
		return http.StatusNotFound
	case is(fairlimit.ErrTurnAhead):
		return http.StatusConflict
	case is(fairlimit.ErrInvalidPermits, fairlimit.ErrExceedsQuota, fairlimit.ErrInvalidFlow,
		fairlimit.ErrInvalidPause, fairlimit.ErrInvalidQuota, fairlimit.ErrUnsupported, fairlimit.ErrEmptyName,
		fairlimit.ErrInvalidAmounts, fairlimit.ErrInvalidOption):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable // Redis, and what only Redis knows
}
