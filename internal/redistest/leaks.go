package redistest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// leakPatience is how long goroutines have to end. A client with default
// timeouts needs that long to give up a call.
const leakPatience = 10 * time.Second

// Main runs the tests of a package. It fails if a goroutine is left after them.
// Those of the runtime and of package testing do not count.
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	left := goroutines()
	pause := time.Millisecond // longer each time: a look stops the world
	for end := time.Now().Add(leakPatience); len(left) > 0 && time.Now().Before(end); left = goroutines() {
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
	if len(left) > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n\n%s\n", bytes.Join(left, []byte("\n\n")))
		code = 1
	}
	os.Exit(code)
}

// goroutines returns the stacks of all goroutines but the caller's own and those
// of the runtime and of package testing.
func goroutines() [][]byte {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for ; n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	return slices.DeleteFunc(bytes.Split(bytes.TrimSpace(buf[:n]), []byte("\n\n"))[1:], func(stack []byte) bool {
		return slices.ContainsFunc(systems, func(own string) bool { return strings.Contains(string(stack), own) })
	})
}

var systems = []string{
	"created by runtime", "created by os/signal", "created by runtime/trace",
	"created by testing.(*M)", "created by testing.runFuzz", "created by testing.(*T).Run",
	"created by testing.runTests", "testing.(*T).Parallel(", "testing.(*T).Run(", "testing.(*M).Run(",
}
