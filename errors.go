package fairlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/timeout"
	"github.com/fairlimit/fairlimit/lua"
)

// Match these errors with errors.Is. When one of them is returned, nothing was
// consumed, unless its comment says otherwise. An error may match several: look for
// [ErrOutcomeUnknown] first.
//
// An answer of Redis itself, such as WRONGPASS, NOPERM, READONLY or OOM, matches
// none of them. Nothing was consumed then either. Match it with redis.Error of
// go-redis, or with a function of that package. An [ErrState] can match
// redis.Error too, so look for that first:
//
//	errors.As(err, new(redis.Error)) // any error that Redis answered with
//	redis.IsAuthError(err)           // WRONGPASS, NOAUTH: a wrong password, or none
//	redis.IsPermissionError(err)     // NOPERM: an ACL forbids the key or the script
//
// If an ACL forbids a command that the script runs, Redis answers with an error
// that begins with ERR and says so.
var (
	// ErrNilClient is returned by [New] if the client is nil.
	ErrNilClient = errors.New("fairlimit: nil client")

	// ErrEmptyName is returned by [New] if the name is empty.
	ErrEmptyName = errors.New("fairlimit: empty name")

	// ErrNilContext is returned by any call whose ctx is nil.
	ErrNilContext = errors.New("fairlimit: nil ctx")

	// ErrInvalidQuota is returned by [New], also for [WithExtraQuota], and by
	// [Queue.SetQuotas] and [ParseQuota]. The quota has fewer than 1 Permits, a
	// Per below a microsecond, or a Burst below 0 or above Permits.
	// ParseQuota also returns it for text that is not a quota, and SetQuotas if
	// no quota is given.
	ErrInvalidQuota = errors.New("fairlimit: invalid quota")

	// ErrInvalidOption is returned by [New] if the value of an option is out of
	// range, and by [Queue.LearnQuotas] without [WithStoredQuota].
	ErrInvalidOption = errors.New("fairlimit: invalid option")

	// ErrUnsupported is returned by [New] if the engine cannot honour an option,
	// a quota, the name or the prefix. It is returned by every call if the queue in
	// Redis counts other units than this limiter.
	ErrUnsupported = engine.ErrUnsupported

	// ErrNoQuota is returned if a [Queue] that [Open] made is asked for permits,
	// and it has no stored quota to go by. Use [NewQueue], or [WithStoredQuota]
	// and [Queue.SetQuotas].
	ErrNoQuota = engine.ErrNoQuota

	// ErrPaused is matched by a [*RefusedError] if a pause that still lasts is the
	// reason: without it the turn would have come in time. See [Queue.Pause].
	ErrPaused = errors.New("fairlimit: the queue is paused")

	// ErrInvalidPause is returned by [Queue.Pause] if the duration is less than
	// a microsecond, or more than a year.
	ErrInvalidPause = errors.New("fairlimit: invalid pause")

	// ErrMissed is returned to a caller that missed ten turns in a row. This
	// process wakes later than half of [WithGuard]. The permits were given back.
	ErrMissed = errors.New("fairlimit: missed ten turns in a row: this process wakes later than half the guard")

	// ErrReservationOver is returned by [Reservation.Wait] if the reservation was
	// cancelled or used.
	ErrReservationOver = errors.New("fairlimit: the reservation is over")

	// ErrUnknownUnit is returned for amounts of a unit that the queue does not
	// have.
	ErrUnknownUnit = engine.ErrUnknownUnit

	// ErrInvalidAmounts is returned for negative amounts, and for a turn that
	// takes nothing.
	ErrInvalidAmounts = errors.New("fairlimit: invalid amounts")

	// ErrInvalidFlow is returned by [Queue.Flow], and by [New] with [WithFlow], if
	// the id is empty or the weight is not 1 to 1000.
	ErrInvalidFlow = errors.New("fairlimit: invalid flow")

	// ErrTurnAhead is returned by [Reservation.Settle] before the slot has come.
	// Cancel gives the turn back.
	ErrTurnAhead = errors.New("fairlimit: the turn has not come yet: Cancel gives it back")

	// ErrInvalidPermits is returned for a request of fewer than 1 permit.
	ErrInvalidPermits = errors.New("fairlimit: invalid number of permits")

	// ErrExceedsQuota is returned for a request that can never fit the quota: it
	// asks for more permits than Permits, or than Burst.
	ErrExceedsQuota = engine.ErrExceedsQuota

	// ErrOutcomeUnknown is returned if the call may have reached Redis, but the
	// answer did not arrive. The permits were consumed once or not at all. The
	// call is not sent again, because that could consume them twice; only with
	// [WithRetry] it is. To ask for a turn again is safe: at worst some permits
	// pass unused.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown

	// ErrUnreachable is returned if there is no connection to Redis. Call again
	// later, or use [WithRetry].
	ErrUnreachable = engine.ErrUnreachable

	// ErrFull is returned if the queue is longer than the engine can count: a turn
	// would come more than a hundred years from now.
	ErrFull = engine.ErrFull

	// ErrState is returned if a key of the limiter holds something that the
	// engine did not write or cannot read. The key is left as it is. Reset of a
	// [Limiter] clears it. Only [Queue.SetQuotas] or [Queue.ForgetQuotas] clears
	// a stored quota that cannot be read.
	ErrState = engine.ErrState
)

// RefusedError says that the turn would come too late: after ctx's deadline, or
// later than [WithMaxWait] allows. Nothing was consumed. It is always returned
// as a *RefusedError, which matches context.DeadlineExceeded. So does a call
// whose ctx ended before Redis answered: use errors.As to tell them apart.
//
// If the turn would come too late because the queue is paused, the error matches
// [ErrPaused] as well.
type RefusedError struct {
	Wait time.Duration // how long the caller would have had to wait for its turn

	limiter string
	limit   string // what the turn is too late for
	paused  bool   // without a pause that still lasts it would have come in time
	missed  int    // turns that the caller missed before
}

func (e *RefusedError) Error() string {
	text := naming.Prefix
	if e.limiter != "" {
		text = naming.Begin(e.limiter)
	}
	if e.paused {
		text += "paused, and "
	}
	text += "refused"
	if e.missed > 0 {
		text += fmt.Sprintf(" after missing %d of its turns", e.missed)
	}
	text += fmt.Sprintf(": the turn would come in %v", e.Wait.Round(time.Microsecond))
	if e.limit == "" {
		return text + ", which is too late"
	}
	return text + ", later than " + e.limit + " allows"
}

// Timeout is true, as it is of context.DeadlineExceeded: package net/http and
// others ask for it.
func (*RefusedError) Timeout() bool { return true }

// Is makes a refusal match what a caller whose deadline has passed looks for.
func (e *RefusedError) Is(target error) bool {
	return target == context.DeadlineExceeded || e.paused && target == ErrPaused
}

// away reports whether an error says that Redis cannot be asked for now.
func away(err error) bool {
	switch {
	case errors.Is(err, redis.ErrClosed), errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	case errors.Is(err, ErrUnreachable), errors.Is(err, timeout.ErrOverdue), lua.RefusedForNow(err):
		return true
	}
	return errors.Is(err, ErrOutcomeUnknown) &&
		(errors.As(err, new(net.Error)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}
