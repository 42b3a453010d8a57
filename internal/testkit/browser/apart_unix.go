//go:build unix

package browser

import (
	"os/exec"
	"syscall"
)

// apart keeps the interrupt that ends a test run from a command that has to
// outlive it for a moment.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
