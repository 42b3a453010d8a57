package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
)

func printWebhooks(w io.Writer, list []client.Webhook) error {
	t := newTable(w, "ID", "URL", "EVENTS", "UPSTREAMS", "ORDERED", "SENDING", "DESCRIPTION")
	for _, h := range list {
		t.row(h.ID, h.URL, orAll(h.Events), orAll(h.Upstreams), yes(h.Ordered), enabledText(h), h.Description)
	}
	return t.flush()
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

func enabledText(h client.Webhook) string {
	switch {
	case h.Disabled == nil && len(h.Secrets) == 0:
		return "no secret to sign with: rotate it"
	case h.Disabled == nil && h.Verified == nil:
		return "not verified"
	case h.Disabled == nil:
		return "on"
	}
	return strings.TrimSuffix(fmt.Sprintf("disabled (%s): %s", h.Disabled.By, h.Disabled.Reason), ": ")
}

func showWebhook(cmd *cobra.Command, out format, h client.Webhook) error {
	if out == formatJSON {
		if err := writeJSON(cmd.OutOrStdout(), h.JSON()); err != nil {
			return err
		}
	} else if err := printWebhook(cmd.OutOrStdout(), h); err != nil {
		return err
	}
	if h.Disabled == nil && h.Verified == nil {
		cmd.PrintErrf("The receiver gets nothing else until it has answered a challenge; \"executor webhooks verify %s\" asks it at once.\n", h.ID)
	}
	if h.Secret != "" {
		cmd.PrintErrln("Keep the secret now: it cannot be shown again. Receivers verify signatures with it.")
	}
	return nil
}

func printWebhook(w io.Writer, h client.Webhook) error {
	t := newTable(w)
	t.row("id", h.ID)
	t.row("url", h.URL)
	if h.Description != "" {
		t.row("description", h.Description)
	}
	t.row("events", orAll(h.Events))
	t.row("upstreams", orAll(h.Upstreams))
	t.row("ordered", yes(h.Ordered))
	t.row("sending", enabledText(h))
	if h.Disabled != nil {
		t.row("disabled", stamp(h.Disabled.At))
	}
	if h.Verified != nil {
		t.row("verified", h.Verified.By+", "+stamp(h.Verified.At))
	}
	if h.FailingSince != nil {
		t.row("failing", "since "+stamp(*h.FailingSince))
	}
	t.row("created", stamp(h.CreatedAt))
	for _, s := range h.Secrets {
		text := "of " + stamp(s.CreatedAt)
		if s.ExpiresAt != nil {
			text += ", signs until " + stamp(*s.ExpiresAt)
		}
		t.row("signed by", text)
	}
	if h.Secret != "" {
		t.row("secret", h.Secret)
	}
	return t.flush()
}
