package embedded

import (
	"bytes"
	"errors"
	"runtime"
)

// ErrBubble is returned by [Start] inside a testing/synctest bubble. A bubble
// cannot wait for the socket that a server listens at: its clock would stand
// still until the test is over. Package fairlimittest has a server for bubbles.
var ErrBubble = errors.New("fairlimit: embedded: no server inside a synctest bubble: " +
	"fairlimittest.New and fairlimittest.Start make one that needs no socket")

// inBubble reports whether this goroutine is in a bubble. Only the first line
// of its stack tells.
func inBubble() bool {
	var stack [256]byte
	first, _, _ := bytes.Cut(stack[:runtime.Stack(stack[:], false)], []byte("\n"))
	return bytes.Contains(first, []byte("synctest bubble"))
}
