//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"executor/outcome"
)

// settings are members of a profile or of an operation, each with its YAML in flow
// style. {sim}, {files} and {token} stand for the simulator's URL, the folder of
// secrets and the plot's token.
type settings map[string]string

// usual is what holds where a story says nothing else: quick retries and plenty of
// them, and a connection for each attempt.
func usual() settings {
	return settings{
		"egress":     "{allow: [127.0.0.0/8]}",
		"connection": "{fresh: always}",
		"timeouts":   "{connect: 10s, tls: 10s, response_header: 20s, total: 30s}",
		"limits":     "{max_in_flight: 100}",
		"deadline":   "5m",
		"retry":      retrying(""),
	}
}

// retrying is the usual retry section with some more in it.
func retrying(more string) string {
	return "{max_attempts: 3, min_attempt_window: 100ms, backoff: {initial: 20ms, max: 100ms, jitter: full}, " +
		"budget: {ratio: 1, floor_per_second: 100, burst: 1000}, throttle_pauses_upstream: false" + after(", ", more) + "}"
}

// keyed is the usual contract of keyed operations with some more in it.
func keyed(more string) string {
	return "{kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h" + after(", ", more) + "}"
}

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// apply applies a profile.
func (s *stage) apply(t testing.TB, name, base string, changes settings, operations map[string]settings) {
	t.Helper()
	profile := usual()
	maps.Copy(profile, changes)
	text := fmt.Appendf(nil, "version: 1\nupstream: %s\nbase_url: %s\n", name, base)
	text = append(text, profile.lines("")...)
	text = append(text, "operations:\n"...)
	for _, operation := range slices.Sorted(maps.Keys(operations)) {
		text = fmt.Appendf(text, "  %s:\n%s", operation, operations[operation].lines("    "))
	}
	text = []byte(strings.NewReplacer("{sim}", s.simURL, "{files}", s.files).Replace(string(text)))
	if _, err := s.api.PutUpstream(bounded(t), name, text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func (m settings) lines(indent string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, m[name])
	}
	return b.String()
}

// contract is the story's operation: what is usual for its kind, and what it says.
func (pl *plot) contract() settings {
	m := settings{"method": "POST", "path": "/v1/accounts/{account}/payments", "caller_headers": "[Sim-Behavior]"}
	switch pl.kind {
	case outcome.IdempotencyKeyed:
		m["idempotency"] = keyed("")
	case outcome.IdempotencyNatural:
		m["method"], m["path"], m["idempotency"] = "PUT", "/v1/accounts/{account}", "{kind: natural}"
	case outcome.IdempotencySafe:
		m["method"], m["path"], m["idempotency"] = "GET", "/v1/payments", "{kind: safe}"
		m["query"] = `{client_reference: "{account}"}`
	}
	maps.Copy(m, pl.story.operation)
	return m
}
