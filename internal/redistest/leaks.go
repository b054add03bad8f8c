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
	if left := settle(leakPatience, nil); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// NoLeaks fails the test if goroutines are left when the test and its cleanups
// have ended. Those that ran when NoLeaks was called do not count. Call it
// first, and only in a test that is not parallel.
func NoLeaks(t testing.TB) {
	before := map[string]bool{}
	for id := range goroutines() {
		before[id] = true
	}
	t.Cleanup(func() {
		if left := settle(leakPatience, before); left != "" {
			t.Errorf("goroutines are left:\n\n%s", left)
		}
	})
}

// Running is how many goroutines have one of the texts in their stacks, such as
// "github.com/fairlimit/fairlimit." for those of the package at the root.
func Running(texts ...string) int {
	count := 0
	for _, stack := range goroutines() {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(stack, text) }) {
			count++
		}
	}
	return count
}

// settle waits until no goroutines are left but those known, or until the
// patience is over. It returns the stacks of those that are left.
func settle(patience time.Duration, known map[string]bool) string {
	pause := time.Millisecond // longer each time: a look stops the world
	for end := time.Now().Add(patience); ; pause = min(2*pause, 50*time.Millisecond) {
		var left []string
		for id, stack := range goroutines() {
			if !known[id] {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(pause)
	}
}

// goroutines returns the stacks by goroutine, without the caller's own and
// those of the runtime and of package testing.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for n := runtime.Stack(buf, true); ; n = runtime.Stack(buf, true) {
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		text := strings.TrimSpace(string(stack))
		if i == 0 || systems(text) {
			continue
		}
		id, _, _ := strings.Cut(text, " [")
		all[id] = text
	}
	return all
}

// systems reports whether the goroutine is one of the runtime or of package
// testing.
func systems(stack string) bool {
	for _, own := range []string{
		"created by runtime", "created by os/signal", "created by runtime/trace",
		"created by testing.(*M)", "created by testing.runFuzz", "created by testing.(*T).Run",
		"created by testing.runTests", "testing.(*T).Parallel(", "testing.(*T).Run(", "testing.(*M).Run(",
	} {
		if strings.Contains(stack, own) {
			return true
		}
	}
	return false
}
