//go:build unix

package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since a fixed moment in this machine's past, on a clock that
// all its processes share. On Unix it is CLOCK_MONOTONIC, on which Go's own
// timers run. Elsewhere it is the wall clock.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the clock is part of POSIX; without it no figure here would mean anything
	}
	return time.Duration(now.Nano())
}
