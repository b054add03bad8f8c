//go:build unix

package speed

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used of the machine's processors.
func cpuTime() (time.Duration, bool) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
