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
	"github.com/fairlimit/fairlimit/internal/turns"
	"github.com/fairlimit/fairlimit/lua"
)

// Match these errors, and [ErrInvalidFlow], with errors.Is. When one of them is
// returned, nothing was consumed, unless its comment says otherwise. An error may
// match several: look for [ErrOutcomeUnknown] first.
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
	// range.
	ErrInvalidOption = errors.New("fairlimit: invalid option")

	// ErrUnsupported is returned by [New] if the engine cannot honour an option,
	// a quota or the name.
	ErrUnsupported = engine.ErrUnsupported

	// ErrNoQuota is returned if a [Queue] that [Open] made is asked for permits,
	// and it has no stored quota to go by. Use [NewQueue], or [WithStoredQuota]
	// and [Queue.SetQuotas].
	ErrNoQuota = engine.ErrNoQuota

	// ErrPaused is matched by a [*RefusedError] if a pause that still lasts is the
	// reason: without it the turn would have come in time. See [Queue.Pause]. After a
	// server has lost its data, a queue may stand still for a while as in a pause.
	ErrPaused = errors.New("fairlimit: the queue is paused")

	// ErrInvalidPause is returned by [Queue.Pause] if the duration is less than
	// a microsecond, or more than a year.
	ErrInvalidPause = errors.New("fairlimit: invalid pause")

	// ErrMissed is returned to a caller that missed ten turns in a row. This
	// process wakes later than [WithMaxLateness] allows. The permits were given
	// back.
	ErrMissed = turns.ErrMissed

	// ErrReservationOver is returned by [Reservation.Wait] if the reservation was
	// cancelled or used.
	ErrReservationOver = errors.New("fairlimit: the reservation is over")

	// ErrUnknownUnit is returned for amounts of a unit that the queue does not
	// have.
	ErrUnknownUnit = engine.ErrUnknownUnit

	// ErrInvalidAmounts is returned for negative amounts, and for a turn that
	// takes nothing.
	ErrInvalidAmounts = errors.New("fairlimit: invalid amounts")

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
	// [WithRetry] it is, and with [WithFallback] after a pause. To ask for a turn
	// again is safe: at worst some permits pass unused.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown

	// ErrUnreachable is returned if there is no connection to Redis. Call again
	// later, or use [WithRetry].
	ErrUnreachable = engine.ErrUnreachable

	// ErrFull is returned if the queue is longer than the engine can count. Fair
	// counts up to 10¹⁰ permits, and its last slots are in 2112.
	ErrFull = engine.ErrFull

	// ErrNotReplicated is returned if a turn did not reach as many replicas as
	// [WithReplicas] asks for. Nobody goes with it, and its permits were given
	// back. If giving them back failed, the text says so, and they pass unused.
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrTooManyQueued is returned if this limiter would hold more permits ahead
	// than [WithMaxQueued] allows. Redis was not asked, so nobody knows how long
	// the wait would be. It is not a [*RefusedError], and does not match
	// context.DeadlineExceeded.
	ErrTooManyQueued = errors.New("fairlimit: too many queued")

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
	ceiling bool   // by that of the flow: see WithFlowQuota
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
	if e.ceiling {
		text += " by the quota of its flow"
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

// WithRetry makes callers wait while Redis is away, instead of failing. Wait,
// WaitN, [Reservation.Wait] and ReserveN stay in line until their ctx ends or
// [WithMaxWait] is over, which then counts from the call. A caller that has
// neither a deadline nor WithMaxWait waits for as long as it takes.
//
// Redis is away if it cannot be reached, if it does not answer, if the
// connection breaks, or if it says LOADING, READONLY, MASTERDOWN, CLUSTERDOWN
// or TRYAGAIN. Every other error is returned at once, such as [ErrState],
// [ErrFull], NOPERM, a certificate that is not trusted, and a client that was
// closed. Allow and AllowN do not wait for Redis to come back: while Redis is
// known to be away, their error matches [ErrUnreachable]. Status, Reset, Pause,
// SetQuotas and Cancel are sent once.
//
// The limiter asks for all its callers together, in the order of their calls.
// It pauses for 50 to 100 ms first, then for twice as long each time, up to 1 s,
// less a random part of up to a half. After each pause it reads the status, which
// consumes nothing, and once that is answered it asks for turns. While Redis says
// LOADING or the like, that read is sent every 64 ms, as every question is.
//
// If the caller's time is over while Redis is away, the error matches the ctx's
// error (for WithMaxWait, context.DeadlineExceeded) and the failure, such as
// [ErrUnreachable]. It is not a [*RefusedError]. If it matches
// [ErrOutcomeUnknown], permits may have been consumed.
//
// The price: if an answer is lost, what it granted passes unused, and its
// callers take later turns. No permit is used twice, and no quota is exceeded.
// That costs at most the permits of one question each time Redis goes away.
//
// WithRetry and [WithFallback] exclude each other: the error of New matches
// [ErrInvalidOption]. Go-redis logs that it cannot connect: see redis.SetLogger.
func WithRetry() Option {
	return func(o *options) { o.retry = true }
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
