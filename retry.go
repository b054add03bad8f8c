package fairlimit

import (
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/internal/timeout"
	"github.com/fairlimit/fairlimit/lua"
)

// WithRetry makes callers wait while Redis is away, instead of failing. Wait,
// WaitN, [Reservation.Wait] and ReserveN stay in line until their ctx ends or
// [WithMaxWait] is over, which then counts from the call. A caller that has
// neither a deadline nor WithMaxWait waits for as long as it takes.
//
// Redis is away if it cannot be reached, if it does not answer, if the
// connection breaks, or if it says LOADING, READONLY, MASTERDOWN, CLUSTERDOWN or
// TRYAGAIN. Every other error is returned at once, such as [ErrState],
// [ErrFull], NOPERM, a certificate that is not trusted, and a client that was
// closed. Allow and AllowN never wait: while Redis is known to be away, their
// error matches [ErrUnreachable]. Status, Reset, Pause, SetQuotas and Cancel are
// sent once.
//
// The limiter asks for all its callers together, in the order of their calls.
// It pauses for 50 to 100 ms first, then for twice as long each time, up to 1 s,
// less a random part of up to a half. After each pause it reads the status, which
// consumes nothing, and once that is answered it asks for turns. That read is the
// cost of an outage; while Redis says LOADING or the like, it is sent again every
// 64 ms, as every question is.
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
// [ErrInvalidOption].
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
