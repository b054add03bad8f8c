//go:build !unix

package measure

import "time"

// Now is the time since a fixed moment in the past.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
