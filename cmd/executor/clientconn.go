package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

// clientFlags are those of every command that talks to the API.
type clientFlags struct {
	url string
	key string
	out format
}

func (f *clientFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "http://127.0.0.1:8080", "where the service is")
	flags.StringVar(&f.key, "api-key", "", "the API key; better given as a variable, which process lists do not show")
	fromEnv(flags, "url", "EXECUTOR_URL")
	fromEnv(flags, "api-key", "EXECUTOR_API_KEY")
	addOutput(cmd, &f.out)
}

// commandRetries keeps a person from waiting long at a service that is down.
const commandRetries = 3

func (f *clientFlags) connect() (*client.Client, error) {
	if f.key == "" {
		return nil, &exitError{code: exitAuthentication, err: errors.New(`no API key: set EXECUTOR_API_KEY ("executor keys create" makes one)`)}
	}
	c, err := client.New(client.Config{URL: f.url, APIKey: f.key, Retries: commandRetries, Timeout: 30 * time.Second, UserAgent: "executor/" + readBuild().Version})
	return c, usage(err)
}

// clientCode is the exit code of an error of the client; 0 if it is none that
// has a code of its own.
func clientCode(err error) int {
	switch {
	case errors.Is(err, client.ErrUnauthorized), errors.Is(err, client.ErrForbidden):
		return exitAuthentication
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrInvalid):
		return exitUsage
	default:
		return 0
	}
}

// clientText says what went wrong in words of the command line.
func clientText(err error) string {
	var open *client.Unconfirmed
	var unanswered *client.Unanswered
	var problem *client.Problem
	var dial *net.OpError
	var address *url.Error
	switch {
	case errors.As(err, &open):
		return fmt.Sprintf("it is not known whether the command was accepted: %s\nThe same submit with --key %s is safe, at any time.",
			clientText(open.Err), shellQuote(open.Key))
	case errors.As(err, &unanswered):
		return "it is not known whether it was done: " + clientText(unanswered.Err) + "\nLook how it stands before you do it again."
	case errors.As(err, &problem):
		return problemText(err, problem)
	case errors.As(err, &dial) && dial.Op == "dial" && errors.As(err, &address):
		return fmt.Sprintf("%v\nIs the service running there? EXECUTOR_URL or --url says where it is; \"executor dev\" starts one.", err)
	default:
		return err.Error()
	}
}

// problemText leaves out what is for programs, and keeps what the client added.
func problemText(err error, p *client.Problem) string {
	var b strings.Builder
	if before, ok := strings.CutSuffix(err.Error(), p.Error()); ok {
		b.WriteString(before)
	}
	switch {
	case len(p.Errors) == 1 && p.Errors[0].Detail == p.Detail:
		b.WriteString(p.Errors[0].String()) // the same with its place
	case p.Code == "invalid_profile" && len(p.Errors) > 0 && p.Errors[0].Line > 0:
		b.WriteString(p.Detail) // with all places, and what is written there
	case p.Detail != "":
		b.WriteString(p.Detail + fieldsText(p.Errors))
	default:
		b.WriteString(p.Title + fieldsText(p.Errors))
	}
	if p.CommandID != "" {
		b.WriteString("\n  the key's command: " + p.CommandID)
	}
	if p.Status >= 500 && p.RequestID != "" {
		b.WriteString("\n  request " + p.RequestID)
	}
	return b.String()
}

// fieldsText lists the places that are wrong, a line each.
func fieldsText(list []client.FieldError) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString("\n  " + e.String())
	}
	return b.String()
}
