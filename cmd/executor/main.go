// Command executor sends commands to remote APIs that may time out and ends
// each with one honest answer. This package holds its subcommands, one a file,
// and all wiring: the other packages know neither flags nor environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"executor/client"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], world{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
	}))
}

// world is what the program sees of its surroundings, passed in so that a test
// can run it whole.
type world struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
}

// run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM ends ctx, which every command takes as the wish to stop in good
// order; after it both signals do what they do by default, so that a second
// one ends the process at once.
func run(ctx context.Context, args []string, w world) int {
	ctx, stop := untilSignal(ctx)
	defer stop()

	root := newRootCommand(w.getenv)
	root.SetArgs(args)
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	err := root.ExecuteContext(ctx)
	if text := complaint(err); text != "" {
		fmt.Fprintln(w.err, "executor: "+plainLines(text))
	}
	return exitCode(err)
}

// untilSignal ends ctx with the first SIGINT or SIGTERM. Both do what they do by
// default again before anybody can see that it ended.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, cancel
}

// complaint is what stderr says of err; nothing for an error without text and
// for an interruption, which the user already knows of, unless it leaves open
// whether a command exists, or whether something was done.
func complaint(err error) string {
	var open *client.Unconfirmed
	var unanswered *client.Unanswered
	if err == nil || exitCode(err) == exitInterrupted && errors.Is(err, context.Canceled) && !errors.As(err, &open) && !errors.As(err, &unanswered) {
		return ""
	}
	return clientText(err)
}
