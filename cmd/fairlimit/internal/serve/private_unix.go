//go:build unix

package serve

import "syscall"

// private lets files that this process makes be its user's alone, until the
// function that it returns is called.
func private() (restore func()) {
	before := syscall.Umask(0o177)
	return func() { syscall.Umask(before) }
}
