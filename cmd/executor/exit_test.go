package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"executor/client"
)

func TestExitCode(t *testing.T) {
	problem := func(status int, code string) error {
		return fmt.Errorf("submit: %w", &client.Problem{Status: status, Code: code})
	}
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nothing wrong", nil, 0},
		{"any error", errors.New("x"), 1},
		{"usage", usage(errors.New("x")), 2},
		{"required flag", errors.New(`required flag(s) "x" not set`), 2},
		{"malformed request", problem(400, "invalid_parameter"), 2},
		{"never acceptable", problem(422, "invalid_request"), 2},
		{"not sent, as it never can be accepted", fmt.Errorf("item 3: %w", &client.Invalid{Field: "Key", Detail: "x"}), 2},
		{"not found", problem(404, "not_found"), 3},
		{"a proxy's 404", problem(404, ""), 1},
		{"no key", problem(401, "unauthorized"), 4},
		{"no scope", problem(403, "missing_scope"), 4},
		{"conflict", problem(409, "conflict"), 1},
		{"away", problem(503, "unavailable"), 1},
		{"unconfirmed", &client.Unconfirmed{Key: "k", Err: errors.New("x")}, 1},
		{"interrupted submit", &client.Unconfirmed{Key: "k", Err: context.Canceled}, 130},
		{"interrupted", fmt.Errorf("wait: %w", context.Canceled), 130},
		{"success", stateExit(client.StateSuccess), 0},
		{"rejected", stateExit(client.StateRejected), 5},
		{"unresolved", stateExit(client.StateUnresolved), 6},
		{"cancelled", stateExit(client.StateCancelled), 7},
		{"pending", stateExit(client.StatePending), 8},
		{"executing", stateExit(client.StateExecuting), 8},
	}
	for _, tt := range tests {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestComplaint(t *testing.T) {
	for want, err := range map[string]error{
		"":  stateExit(client.StateRejected),
		"x": errors.New("x"),
		"The request has 2 invalid fields.\n  /upstream: unknown\n  /operation: missing": &client.Problem{
			Status: 422, Code: "invalid_request", Detail: "The request has 2 invalid fields.", RequestID: "r1",
			Errors: []client.FieldError{{Pointer: "/upstream", Detail: "unknown"}, {Pointer: "/operation", Detail: "missing"}},
		},
		"id: The parameter is not a UUID.": &client.Problem{ // once, not as detail and error
			Status: 400, Code: "invalid_parameter", Detail: "The parameter is not a UUID.",
			Errors: []client.FieldError{{Parameter: "id", Detail: "The parameter is not a UUID."}},
		},
		"apply ledger: The database did not answer.\n  request r1": fmt.Errorf("apply ledger: %w", &client.Problem{
			Status: 503, Code: "unavailable", Detail: "The database did not answer.", RequestID: "r1",
		}),
		"it is not known whether the command was accepted: The database did not answer.\nThe same submit with --key 'a b' is safe, at any time.": &client.Unconfirmed{
			Key: "a b", Err: &client.Problem{Status: 503, Code: "unavailable", Detail: "The database did not answer."},
		},
		"it is not known whether the command was accepted: send: context canceled\nThe same submit with --key k is safe, at any time.": &client.Unconfirmed{
			Key: "k", Err: fmt.Errorf("send: %w", context.Canceled), // an interruption that leaves something open
		},
	} {
		if got := complaint(err); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	if got := complaint(context.Canceled); got != "" {
		t.Errorf("an interruption says %q", got)
	}
}
