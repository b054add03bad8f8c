package redistest

import (
	"flag"
	"fmt"
)

// Parallel lets n tests of the binary run at a time, for a package whose tests
// mostly wait: for turns, for timeouts, for servers to start. Call it in
// TestMain. The flag -parallel still counts.
func Parallel(n int) {
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil {
		panic(err)
	}
}
