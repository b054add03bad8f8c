package redistest

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"testing"
	"time"
)

// leakPatience is how long goroutines have to end. A client with default
// timeouts needs that long to give up a call.
const leakPatience = 10 * time.Second

// Main runs the tests of a package. It fails if a goroutine is left after them.
// Those of the runtime do not count.
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

// goroutines returns the stacks of all goroutines but the first, which is the
// caller's, and those of the runtime.
func goroutines() [][]byte {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	all := bytes.Split(bytes.TrimSpace(stacks.Bytes()), []byte("\n\n"))
	return slices.DeleteFunc(all[1:], func(stack []byte) bool {
		return bytes.Contains(stack, []byte("created by runtime")) || bytes.Contains(stack, []byte("created by os/signal"))
	})
}
