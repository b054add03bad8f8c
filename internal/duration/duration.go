// Package duration finds durations whose unit was forgotten.
package duration

import (
	"fmt"
	"time"
)

// Positive returns an error unless d is at least a microsecond.
func Positive(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%v, want more than 0", d)
	}
	return Check(d)
}

// Check returns an error if d is more than 0 and less than a microsecond, in
// which nothing here counts. 50 for 50 milliseconds is 50 nanoseconds.
func Check(d time.Duration) error {
	if d <= 0 || d >= time.Microsecond {
		return nil
	}
	return fmt.Errorf("%v: did you mean %d * time.Millisecond?", d, int64(d))
}
