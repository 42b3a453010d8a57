// Withpg runs a command with a PostgreSQL that lives as long as the command:
//
//	go run ./internal/testkit/withpg go test ./...
//
// The command finds it in EXECUTOR_TEST_DATABASE_URL. Signals go on to the
// command and its exit code is passed on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"executor/internal/postgres"
	"executor/internal/testkit/scratch"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	code, err := run(os.Args[1:], signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
	}
	os.Exit(code)
}

func run(command []string, signals <-chan os.Signal) (code int, err error) {
	if len(command) == 0 {
		return 2, errors.New("usage: withpg COMMAND [ARGUMENT…]")
	}
	dir, err := scratch.Dir("executor-withpg-")
	if err != nil {
		return 1, err
	}
	server, err := postgres.Start(context.Background(), postgres.DevConfig{Dir: dir, NoFsync: true, Remove: true})
	if err != nil {
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	code, err = supervise(command, append(os.Environ(), "EXECUTOR_TEST_DATABASE_URL="+server.URL), signals)
	return code, errors.Join(err, server.Stop())
}

// supervise runs the command in a process group of its own, so that signals
// reach all of it, and so that nothing of it is left when it has ended.
func supervise(command, env []string, signals <-chan os.Signal) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	group := -cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(group, s.(syscall.Signal))
		case err := <-ended:
			_ = syscall.Kill(group, syscall.SIGKILL)
			return exitCode(cmd.ProcessState), onlyUnusual(err)
		}
	}
}

// exitCode is the command's own, or as shells have it 128 and the signal.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// onlyUnusual drops the error that says no more than the exit code.
func onlyUnusual(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
