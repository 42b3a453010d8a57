package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
)

// actionFlags are those of every command by which a person decides something
// about a command.
type actionFlags struct {
	clientFlags
	version int
	reason  string
}

func (f *actionFlags) add(cmd *cobra.Command) {
	f.clientFlags.add(cmd)
	cmd.Flags().IntVar(&f.version, "version", 0, "the version that you decided on; without it the command is read first")
}

// addReason gives cmd the flag --reason, which needReason asks for.
func (f *actionFlags) addReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; kept with the name of your API key")
}

func needReason(reason string) error {
	if reason == "" {
		return usage(errors.New("--reason is needed: it is kept with the name of your API key"))
	}
	return nil
}

// deed is what a person does to the command with this version.
type deed func(ctx context.Context, c *client.Client, version int) (client.Command, error)

// act does it on the version that was given, or on the one that it reads and
// shows first. If the command has changed since, nothing is done.
func (f *actionFlags) act(cmd *cobra.Command, id, what string, do deed) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	ctx, version := cmd.Context(), f.version
	var before *client.Command
	if version == 0 {
		read, err := c.Get(ctx, id)
		if err != nil {
			return err
		}
		before, version = &read, read.Version
		cmd.PrintErrln(plain(what + ": " + briefly(read)))
	}
	after, err := do(ctx, c, version)
	if errors.Is(err, client.ErrStale) {
		return stale(ctx, c, id, version, before, err)
	}
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), f.out, after)
}

// briefly names a command and says where it stands, in one line.
func briefly(c client.Command) string {
	text := fmt.Sprintf("%s at %s, key %s, %s", c.Operation, c.Upstream, c.Key, c.State)
	if c.Outcome != nil {
		text += " (" + whyText(c.Outcome.Common()) + ")"
	}
	return fmt.Sprintf("%s, version %d", text, c.Version)
}

// stale tells that a command has changed since the version that was decided on,
// and how.
func stale(ctx context.Context, c *client.Client, id string, version int, before *client.Command, refused error) error {
	now, err := c.Get(ctx, id)
	if err != nil {
		return refused
	}
	return &exitError{code: exitFailure, err: fmt.Errorf("nothing was done: the command has changed since version %d: %s (now version %d)\nLook at it with \"executor get %s\" and decide again",
		version, changesText(before, now), now.Version, id)}
}

// changesText says what is different now.
func changesText(before *client.Command, now client.Command) string {
	var list []string
	if before == nil || before.State != now.State || sequence(*before) != sequence(now) {
		list = append(list, standText(now))
	}
	if before == nil {
		return list[0]
	}
	was, is := reconciliation(*before), reconciliation(now)
	if n := is.Lookups - was.Lookups; n > 0 {
		list = append(list, plural(n, "more lookup"))
	}
	if was.Phase != is.Phase && now.State == client.StateUnresolved {
		list = append(list, "it is in the phase "+is.Phase)
	}
	if was.Assignee != is.Assignee {
		list = append(list, "it is looked after by "+orNobody(is.Assignee))
	}
	if len(list) == 0 {
		return "something was added to its account, such as a note or evidence"
	}
	return strings.Join(list, ", ")
}

// standText is the state and who brought it about.
func standText(c client.Command) string {
	if c.Outcome == nil || c.Outcome.State() != c.State {
		return fmt.Sprintf("it is %s", c.State)
	}
	d := c.Outcome.Common()
	return fmt.Sprintf("it is %s, decided by %s at %s", c.State, d.DecidedBy, stamp(d.DecidedAt))
}

func sequence(c client.Command) int {
	if c.Outcome == nil {
		return 0
	}
	return c.Outcome.Common().Sequence
}

func reconciliation(c client.Command) client.Reconciliation {
	if c.Reconciliation == nil {
		return client.Reconciliation{}
	}
	return *c.Reconciliation
}

func orNobody(name string) string {
	if name == "" {
		return "nobody in particular"
	}
	return name
}
