package main

import (
	"errors"
	"os/exec"
	"syscall"
)

// die ends the process as kill -9 does; it returns only if that fails.
func die() error {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

// wasKilled says whether a process died as die makes it.
func wasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
