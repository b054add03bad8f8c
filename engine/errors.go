package engine

import (
	"errors"
	"fmt"
)

var (
	// ErrExceedsQuota says that a request asks for more permits than the quota
	// can ever grant at once.
	ErrExceedsQuota = errors.New("fairlimit: more permits than the quota can ever grant at once")

	// ErrOutcomeUnknown says that a question may have reached Redis, but the
	// answer did not arrive. What it asked for was done once or not at all.
	ErrOutcomeUnknown = errors.New(
		"fairlimit: outcome unknown: the call may have reached Redis, its answer did not arrive")

	// ErrFull says that the queue is longer than the engine can count. Nothing
	// was consumed.
	ErrFull = errors.New("fairlimit: the queue is full")

	// ErrUnreachable says that there was no connection to Redis. Nothing was
	// sent, so nothing was consumed.
	ErrUnreachable = errors.New("fairlimit: Redis was not reached")

	// ErrUnsupported says that the engine cannot honour an option, a quota, a
	// name, or the units of the queue.
	ErrUnsupported = errors.New("fairlimit: not supported by this engine")

	// ErrUnknownUnit says that a request names a unit that no quota counts.
	ErrUnknownUnit = errors.New("fairlimit: unknown unit")

	// ErrNoQuota says that a limiter without a quota was asked for permits, and
	// that no quota is stored either.
	ErrNoQuota = errors.New("fairlimit: no quota")

	// ErrState says that a key holds something that the engine did not write or
	// cannot read. Nothing was granted and nothing was changed.
	ErrState = errors.New("fairlimit: the key holds no readable state (Reset clears it)")
)

// UnknownUnit is the error for a unit that is none of those of a queue.
func UnknownUnit(unit string, units []string) error {
	if len(units) == 0 {
		return fmt.Errorf("%w: %q, the queue counts calls only, whose unit is \"\"", ErrUnknownUnit, unit)
	}
	return fmt.Errorf("%w: %q, want one of %q; the unit of calls is \"\"", ErrUnknownUnit, unit, units)
}
