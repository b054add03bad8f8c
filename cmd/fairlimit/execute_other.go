//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// execute runs the command and exits with its status. It returns only if it
// cannot run.
func execute(path string, command []string) error {
	run := exec.Command(path, command[1:]...)
	run.Args[0] = command[0]
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	var ended *exec.ExitError
	switch err := run.Run(); {
	case errors.As(err, &ended):
		os.Exit(ended.ExitCode())
	case err != nil:
		return cannotRun(err)
	}
	os.Exit(statusOK)
	return nil
}
