//go:build !unix

package run

import (
	"errors"
	"fmt"
	"os"
)

func stop(*os.Process) error {
	return fmt.Errorf("a process cannot be put to sleep on this system: %w", errors.ErrUnsupported)
}

func goOn(*os.Process) error { return nil }
