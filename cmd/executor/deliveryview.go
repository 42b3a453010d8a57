package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func printDeliveries(w io.Writer, list []client.Delivery) error {
	t := newTable(w, "ID", "EVENT OF", "TYPE", "COMMAND", "SEQUENCE", "STATE", "TRIES", "LAST", "NEXT")
	for _, d := range list {
		t.row(d.ID, stamp(d.At), d.Type, d.CommandID, d.Sequence, d.State, d.Tries, lastText(d), stampOrNone(d.NextAt))
	}
	return t.flush()
}

// lastText is what came of the last try.
func lastText(d client.Delivery) string {
	return tryText(d.Status, d.Failure, d.Detail)
}

func tryText(status int, category, detail string) string {
	text := statusText(status)
	if failure := failureText(category); failure != "" {
		text = strings.TrimSpace(text + " " + failure)
		if detail != "" {
			text += ": " + shorten(detail)
		}
	}
	return text
}

func showDelivery(cmd *cobra.Command, out format, d client.Delivery) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), d.JSON())
	}
	return printDelivery(cmd.OutOrStdout(), d)
}

func printDelivery(w io.Writer, d client.Delivery) error {
	t := newTable(w)
	t.row("id", d.ID)
	t.row("webhook", d.WebhookID)
	t.row("event", fmt.Sprintf("%s, %s", d.EventID, d.Type))
	if d.CommandID != "" {
		t.row("command", fmt.Sprintf("%s, sequence %d", d.CommandID, d.Sequence))
	}
	t.row("state", d.State)
	t.row("event of", stamp(d.At))
	if d.HeldUntil != nil {
		t.row("held until", stamp(*d.HeldUntil)+", unless another outcome comes before")
	}
	if d.EndedAt != nil {
		t.row("ended", stamp(*d.EndedAt))
	}
	if d.NextAt != nil {
		t.row("next try", stamp(*d.NextAt))
	}
	t.row("tries", d.Tries)
	if d.Tries > 0 {
		t.row("last", lastText(d))
	}
	if d.Payload != nil {
		t.row("payload", string(compact(d.Payload)))
	}
	if err := t.flush(); err != nil || len(d.Log) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "TRY", "STARTED", "TOOK", "ANSWER", "RECEIVER SAID", "NEXT", "INSTANCE")
	for _, try := range d.Log {
		t.row(try.Number, stamp(try.At), age(time.Duration(try.DurationMS)*time.Millisecond), tryText(try.Status, try.Failure, try.Detail), shorten(try.Excerpt), stampOrNone(try.NextAt), try.Instance)
	}
	return t.flush()
}

// compact writes JSON in one line.
func compact(document json.RawMessage) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		return document
	}
	return text
}

// showTried waits for one more try of a delivery and shows what came of it.
func (f *clientFlags) showTried(cmd *cobra.Command, c *client.Client, d client.Delivery, wait time.Duration) error {
	if wait == 0 {
		return showDelivery(cmd, f.out, d)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	seen, err := c.WaitDelivery(ctx, d.ID, d.Tries)
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case err != nil && ctx.Err() == nil:
		return err
	case seen.ID == "":
		seen = d
	}
	if err := showDelivery(cmd, f.out, seen); err != nil {
		return err
	}
	switch {
	case seen.State == client.DeliveryDelivered:
		return nil
	case seen.Tries == d.Tries && seen.State == client.DeliveryPending:
		cmd.PrintErrf("Not tried yet after %s; \"executor deliveries show %s\" shows it later.\n", wait, d.ID)
		return &exitError{code: exitStillRunning}
	default:
		return &exitError{code: exitFailure, err: errors.New("the receiver did not take it: " + orOpen(lastText(seen)))}
	}
}
