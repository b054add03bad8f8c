package redistest

import "os"

// Long returns how much of something a test does: the short amount, or the
// long one if FAIRLIMIT_LONG=1. The short amount keeps every promise under
// test, on fewer histories. .ci/run sets the variable.
func Long[T any](short, long T) T {
	if os.Getenv("FAIRLIMIT_LONG") == "1" {
		return long
	}
	return short
}
