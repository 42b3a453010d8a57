package main

import (
	"context"
	"errors"
	"strings"

	"executor/client"
)

// Exit codes. They are part of the interface: scripts branch on them, so a
// number never changes its meaning.
const (
	exitSuccess        = 0
	exitFailure        = 1
	exitUsage          = 2
	exitNotFound       = 3
	exitAuthentication = 4 // 401 and 403
	exitRejected       = 5
	exitUnresolved     = 6
	exitCancelled      = 7
	exitStillRunning   = 8 // the wait ended before the command did
	exitInterrupted    = 130
)

// exitError ends the program with a code of its own. A nil err ends it
// silently: what there was to say is on stdout already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the caller's: wrong flags, wrong arguments, a
// setting that cannot be.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitUsage, err: err}
}

// exitCode is the code that err ends the program with.
func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitSuccess
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case clientCode(err) != 0:
		return clientCode(err)
	case isCobraUsage(err):
		return exitUsage
	default:
		return exitFailure
	}
}

// isCobraUsage recognises the mistakes that cobra reports after it has begun
// to run a command, which it does not type.
func isCobraUsage(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "required flag(s)") ||
		strings.HasPrefix(text, "if any flags in the group") ||
		strings.HasPrefix(text, "at least one of the flags in the group")
}

// stateCode is the exit code of a command that was waited for.
func stateCode(s client.State) int {
	switch s {
	case client.StateSuccess:
		return exitSuccess
	case client.StateRejected:
		return exitRejected
	case client.StateUnresolved:
		return exitUnresolved
	case client.StateCancelled:
		return exitCancelled
	default:
		return exitStillRunning
	}
}

// stateExit ends the program with the code of a state, saying nothing more.
func stateExit(s client.State) error {
	if code := stateCode(s); code != exitSuccess {
		return &exitError{code: code}
	}
	return nil
}
