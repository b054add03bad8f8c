package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// Errors to match with errors.Is. When one of them is returned, nothing was
// consumed, unless its comment says otherwise.
var (
	// ErrNilClient is returned by [New] for a nil client.
	ErrNilClient = errors.New("fairlimit: nil client")

	// ErrEmptyName is returned by [New] for an empty name.
	ErrEmptyName = errors.New("fairlimit: empty name")

	// ErrNilContext is returned for a nil ctx.
	ErrNilContext = errors.New("fairlimit: nil ctx")

	// ErrInvalidQuota is returned by [New] for a quota with fewer than 1
	// Permits, without a Per, or with a Burst below 0 or above Permits.
	ErrInvalidQuota = errors.New("fairlimit: invalid quota")

	// ErrInvalidOption is returned by [New] for an option whose value is out of
	// range.
	ErrInvalidOption = errors.New("fairlimit: invalid option")

	// ErrUnsupported is returned by [New] for an option, a quota or a name that
	// the engine cannot honour.
	ErrUnsupported = engine.ErrUnsupported

	// ErrNoQuota is returned when a [Queue] that [Open] made is asked for
	// permits and no quota is stored.
	ErrNoQuota = engine.ErrNoQuota

	// ErrPaused is matched by a [*RefusedError] whose reason is a pause:
	// without the pause the turn would have come in time. See [Queue.Pause].
	ErrPaused = errors.New("fairlimit: the queue is paused")

	// ErrInvalidPause is returned by [Queue.Pause] for a duration out of range.
	ErrInvalidPause = errors.New("fairlimit: invalid pause")

	// ErrMissed is returned to a caller that missed ten turns in a row, because
	// this process wakes later than [WithMaxLateness] allows. What was granted is
	// given back.
	ErrMissed = turns.ErrMissed

	// ErrReservationOver is returned by [Reservation.Wait] if the reservation was
	// cancelled, or somebody has gone with it.
	ErrReservationOver = errors.New("fairlimit: the reservation is over")

	// ErrInvalidPermits is returned for a request for fewer than 1 permit.
	ErrInvalidPermits = errors.New("fairlimit: invalid number of permits")

	// ErrExceedsQuota is returned for a request that can never fit the quota:
	// n > Permits, or n > Burst.
	ErrExceedsQuota = engine.ErrExceedsQuota

	// ErrOutcomeUnknown is returned when the call may have reached Redis and
	// its answer did not arrive. The permits were consumed once or not at all.
	// The call is not sent again, because it could consume twice.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown

	// ErrUnreachable is returned when Redis cannot be connected to.
	ErrUnreachable = engine.ErrUnreachable

	// ErrFull is returned when the queue is longer than the engine can count.
	// For fair that is 10¹⁰ permits.
	ErrFull = engine.ErrFull

	// ErrNotReplicated is returned when a turn was granted and did not reach as
	// many replicas as [WithReplicas] asks for. Nobody goes with it, and its
	// permits were given back. If that failed as well, the text says so, and
	// they pass unused.
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrTooManyQueued is returned when the limiter holds as many permits ahead
	// as [WithMaxQueued] allows. Nothing was asked, so nobody knows how long
	// the wait would be. It is not a [*RefusedError], and matches no deadline.
	ErrTooManyQueued = errors.New("fairlimit: too many queued")

	// ErrState is returned when the limiter's key holds something that its
	// engine did not write or cannot read. The key is left as it is.
	// [Limiter]'s Reset clears it.
	ErrState = engine.ErrState
)

// RefusedError says that the turn would come too late: after the deadline of
// the ctx, or later than [WithMaxWait] allows. Nothing was consumed. It is
// always returned as *RefusedError, and errors.Is(err,
// context.DeadlineExceeded) is true for it.
//
// If it is too late because the queue is paused, it matches [ErrPaused] as well.
type RefusedError struct {
	Wait time.Duration // how long the turn would have taken to come

	limiter string
	limit   string        // what the turn is too late for
	pause   time.Duration // for how much longer the queue is paused
	paused  bool          // without that it would have come in time
}

func (e *RefusedError) Error() string {
	text := prefix
	if e.limiter != "" {
		text = fmt.Sprintf("%s%.100q: ", prefix, e.limiter)
	}
	switch {
	case e.pause > 0:
		text += fmt.Sprintf("paused for another %v, and ", e.pause.Round(time.Millisecond))
	case e.paused:
		text += "paused, and "
	}
	text += fmt.Sprintf("refused: the turn would come in %v", e.Wait)
	if e.limit == "" {
		return text + ", which is too late"
	}
	return text + ", later than " + e.limit + " allows"
}

// Is makes a refusal match what a caller whose deadline has passed looks for.
func (e *RefusedError) Is(target error) bool {
	return target == context.DeadlineExceeded || e.paused && target == ErrPaused
}
