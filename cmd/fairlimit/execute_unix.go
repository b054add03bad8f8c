//go:build unix

package main

import (
	"os"
	"syscall"
)

// execute becomes the command, so that its exit status, its terminal and all
// signals are its own. It returns only if it cannot.
func execute(path string, command []string) error {
	return cannotRun(&os.PathError{Op: "run", Path: path, Err: syscall.Exec(path, command, os.Environ())})
}
