package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
	"executor/internal/simulator"
)

// scene is one command of the demonstration.
type scene struct {
	title     string
	story     string
	key       string
	operation string
	params    map[string]string
	trouble   string // for the simulated upstream
	want      client.State
	moral     string
	settles   client.State // what it is found to be afterwards; "" = that was all
	after     string
}

func scenes() []scene {
	account := map[string]string{"account": "a1"}
	return []scene{
		{"success", "A payment of 100. The upstream books it, then drops the connection: the answer is lost.\n" +
			"Its contract says that it remembers keys, so the same bytes are sent again under the same key.",
			"demo-success", "create_payment", account, troubleLostAnswer, client.StateSuccess,
			"Two requests, one payment. A timeout was not taken for a failure, and not for a success either.", "", ""},
		{"rejected", "A payment that the upstream refuses with a 422.",
			"demo-rejected", "create_payment", account, troubleRefuse, client.StateRejected,
			"It answered, and its contract says that nothing was done. Asking again is pointless.", "", ""},
		{"unresolved", "A charge at an operation that knows no keys. The upstream charges the card and drops the connection.",
			"demo-unresolved", "charge_card", nil, troubleDoubt, client.StateUnresolved,
			"The card was charged. Nobody here can know that, so nothing is sent again and nothing is called failed.", "", ""},
		{"settled", "A transfer. Its answer is lost too, and the upstream does not say how long it remembers a key.\n" +
			"But it can be asked, and is: by the key of the transfer, with a request that does nothing.",
			"demo-settled", "send_transfer", account, troubleDoubt, client.StateUnresolved,
			"Unresolved is what the caller is told at once. Then the lookup:",
			client.StateSuccess, "The same command, one request, one payment: the first outcome was recovered, not made again."},
		{"cancelled", "A payment at an upstream that is too busy, until the attempts are used up.",
			"demo-cancelled", "create_payment", account, troubleBusy, client.StateCancelled,
			"It said each time that nothing was done, so this is no failure in doubt: it is safe to submit again.", "", ""},
	}
}

// demoBound ends a demonstration that hangs.
const demoBound = 5 * time.Minute

// runDemo plays the scenes on a machine of their own and ends with an error if
// one does not end as it should.
func runDemo(cmd *cobra.Command, o devOptions, getenv func(string) string) (err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), demoBound)
	defer cancel()
	if o.dir != "" {
		return usage(errors.New("--demo runs in a folder that it removes: leave --dir out"))
	}
	dir, err := demoDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.listen, o.metrics, o.upstream = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	d, err := openDev(ctx, dir, o, getenv, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	c, err := client.New(client.Config{URL: d.process.front.url(), APIKey: d.key})
	if err != nil {
		return err
	}
	return play(ctx, cmd.OutOrStdout(), d, c)
}

// play runs one scene after the other and ends with all of them in one list.
func play(ctx context.Context, w io.Writer, d *dev, c *client.Client) error {
	var ended []client.Command
	for i, s := range scenes() {
		command, err := perform(ctx, w, d, c, s, fmt.Sprintf("%d of %d", i+1, len(scenes())))
		if err != nil {
			return fmt.Errorf("scene %s: %w", s.title, err)
		}
		ended = append(ended, command)
	}
	fmt.Fprint(w, "\nAll of them\n\n")
	if err := printCommands(w, ended); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nTo try it yourself: %s dev\n", invocation(os.Args[0]))
	return nil
}

func perform(ctx context.Context, w io.Writer, d *dev, c *client.Client, s scene, number string) (client.Command, error) {
	fmt.Fprintf(w, "\n%s: %s\n\n%s\n\n", number, s.title, s.story)
	command, err := c.Run(ctx, client.Submission{
		Key: s.key, Upstream: "ledger", Operation: s.operation, Params: s.params,
		Headers: map[string]string{"Sim-Behavior": s.trouble}, Body: json.RawMessage(`{"amount": 100}`),
	})
	if err != nil {
		return command, err
	}
	attempts, err := c.Attempts(ctx, command.ID)
	if err != nil {
		return command, err
	}
	if err := printAttempts(w, attempts); err != nil {
		return command, err
	}
	fmt.Fprintf(w, "\nstate     %s: %s\n", command.State, meaning(command))
	fmt.Fprintf(w, "upstream  %s\n\n%s\n", whatItSaw(d.sim, command), s.moral)
	if command.State != s.want {
		return command, fmt.Errorf("command %s ended %s, not %s", command.ID, command.State, s.want)
	}
	if s.settles == "" {
		return command, nil
	}
	return settle(ctx, w, d, c, s, command)
}

// settle waits until the doubt about a command is gone, and shows how.
func settle(ctx context.Context, w io.Writer, d *dev, c *client.Client, s scene, command client.Command) (client.Command, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for command.State == client.StateUnresolved {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return command, ctx.Err()
		}
		var err error
		if command, err = c.Get(ctx, command.ID); err != nil {
			return command, err
		}
	}
	lookups, err := c.Lookups(ctx, command.ID)
	if err != nil {
		return command, err
	}
	fmt.Fprintln(w)
	if err := printLookups(w, lookups.Data); err != nil {
		return command, err
	}
	fmt.Fprintf(w, "\nstate     %s: %s\nupstream  %s\n\n%s\n", command.State, meaning(command), whatItSaw(d.sim, command), s.after)
	if command.State != s.settles {
		return command, fmt.Errorf("command %s settled as %s, not %s", command.ID, command.State, s.settles)
	}
	return command, nil
}

// whatItSaw asks the upstream's own ledger, which no executor ever sees.
func whatItSaw(sim *simulator.Simulator, command client.Command) string {
	requests, effects := 0, 0
	for _, r := range sim.Requests("") {
		if belongs(r.Key, r.Path, command) {
			requests++
		}
	}
	for _, e := range sim.Effects("") {
		if belongs(e.Key, e.Path, command) {
			effects++
		}
	}
	return fmt.Sprintf("it saw %s and booked %s", plural(requests, "request"), plural(effects, "payment"))
}

// belongs finds what a command caused: by its key, or for an operation without
// one by the path, which only one scene uses.
func belongs(key, path string, command client.Command) bool {
	if command.Record.Identity != nil {
		return key == command.Record.Identity.Key
	}
	return strings.HasPrefix(path, "/v1/charges")
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	default:
		return fmt.Sprintf("%d %ss", n, what)
	}
}
