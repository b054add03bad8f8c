//go:build unix

package redistest

import (
	"os/exec"
	"syscall"
)

// setApart keeps what a terminal sends on Ctrl-C from the command.
func setApart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
