//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"executor/outcome"
)

// settings are members of a profile or of an operation, each with its YAML in flow
// style; {sim} stands for the simulator's URL.
type settings map[string]string

// usual is the profile where a story says nothing else: a connection for each
// attempt, few attempts quickly after one another, and much patience with a busy
// machine.
func usual() settings {
	return settings{
		"egress":     "{allow: [127.0.0.0/8]}",
		"connection": "{fresh: always}",
		"timeouts":   "{connect: 20s, tls: 20s, response_header: 20s, total: 30s}",
		"limits":     "{max_in_flight: 100}",
		"deadline":   "5m",
		"retry": "{max_attempts: 3, min_attempt_window: 100ms, backoff: {initial: 20ms, max: 100ms}, " +
			"budget: {ratio: 1, floor_per_second: 100, burst: 1000}, throttle_pauses_upstream: false}",
	}
}

// keyed is the contract of an operation with a key, and some more of it.
func keyed(more ...string) string {
	return "{" + strings.Join(append([]string{"kind: keyed", "key: {in: header, name: Idempotency-Key}", "retention: 24h"}, more...), ", ") + "}"
}

// apply makes a profile known to the executor.
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
	text = bytes.ReplaceAll(text, []byte("{sim}"), []byte(s.simURL))
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
		m["idempotency"] = keyed()
	case outcome.IdempotencyNatural:
		m["method"], m["path"], m["idempotency"] = "PUT", "/v1/accounts/{account}", "{kind: natural}"
	case outcome.IdempotencySafe:
		m["method"], m["path"], m["idempotency"] = "GET", "/v1/payments", "{kind: safe}"
		m["query"] = `{client_reference: "{account}"}`
	}
	maps.Copy(m, pl.story.operation)
	return m
}
