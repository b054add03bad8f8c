package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Errors to match with errors.Is. Unless it says otherwise, nothing was
// consumed where one of them is returned.
var (
	// ErrNilClient is returned by [New] for a nil client.
	ErrNilClient = errors.New("fairlimit: nil client")

	// ErrEmptyName is returned by [New] for an empty name.
	ErrEmptyName = errors.New("fairlimit: empty name")

	// ErrInvalidQuota is returned by [New] for a quota that is none.
	ErrInvalidQuota = errors.New("fairlimit: invalid quota")

	// ErrInvalidOption is returned by [New] for an option whose value is out of
	// range.
	ErrInvalidOption = errors.New("fairlimit: invalid option")

	// ErrUnsupported is returned by [New] for an option, a quota or a name that
	// the engine cannot honour.
	ErrUnsupported = engine.ErrUnsupported

	// ErrInvalidPermits is returned for a request for fewer than 1 permit.
	ErrInvalidPermits = errors.New("fairlimit: invalid number of permits")

	// ErrExceedsQuota is returned for a request that can never fit the quota:
	// n > Permits, or n > Burst.
	ErrExceedsQuota = engine.ErrExceedsQuota

	// ErrOutcomeUnknown is returned where the call may have reached Redis and
	// the answer did not reach us: the permits were consumed once or not at
	// all. The call is not sent again, because it could consume twice.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown

	// ErrUnreachable is returned where no connection to Redis was to be had.
	ErrUnreachable = engine.ErrUnreachable

	// ErrFull is returned where the queue is longer than the engine can count,
	// which for fair is 10¹⁰ permits.
	ErrFull = engine.ErrFull

	// ErrNotReplicated is returned where a turn was granted and did not reach
	// as many replicas as [WithReplicas] asks for. Nobody goes with it, and its
	// permits were given back. If that failed as well, the text says so, and
	// they pass unused.
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrTooManyQueued is returned where the limiter holds as many permits
	// ahead as [WithMaxQueued] allows. Nothing was asked, so nobody knows how
	// long the wait would be: it is not a [*RefusedError], and matches no
	// deadline.
	ErrTooManyQueued = errors.New("fairlimit: too many queued")

	// ErrState is returned where the limiter's key holds something that its
	// engine did not write or cannot read. It is left as it is; [Limiter]'s
	// Reset clears it.
	ErrState = engine.ErrState
)

// RefusedError says that the turn would come too late: after the deadline of
// the ctx, or later than [WithMaxWait] allows. Nothing was consumed. It is
// always returned as *RefusedError, and errors.Is(err,
// context.DeadlineExceeded) is true for it.
type RefusedError struct {
	Wait time.Duration // how long the turn would have taken to come
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("fairlimit: refused: the turn would come in %v, which is too late", e.Wait)
}

// Is makes a refusal match what a caller whose deadline has passed looks for.
func (e *RefusedError) Is(target error) bool { return target == context.DeadlineExceeded }
