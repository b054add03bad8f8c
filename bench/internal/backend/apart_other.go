//go:build !unix

package backend

import "os/exec"

func setApart(*exec.Cmd) {}
