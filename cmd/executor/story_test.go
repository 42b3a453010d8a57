//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"crypto/tls"
	"slices"
	"testing"

	"executor/client"
	"executor/internal/testkit"
	"executor/outcome"
)

// story is a command that meets a hostile upstream, and how it must end. What a
// caller sees over REST is held against what reached the upstream and what took
// effect there.
//
// To add one, write a literal into one of the tables. It tells what is special
// about it; what holds for all of them is checked for each (told.faults).
type story struct {
	name string // in plain words; upstream, operation and key are called after it
	kind outcome.Idempotency

	// Whom it meets: the simulator, or an upstream made of bytes, or nobody.
	meets   string                               // what the simulator is asked for (docs/simulator.md)
	script  func(*peer)                          // what the upstream made of bytes does on each connection
	listens []testkit.RawOption                  // how it listens
	secure  func(*testkit.Authority) *tls.Config // its TLS
	base    string                               // the base URL of nobody

	// What it says besides the usual (story_profile_test.go).
	profile   settings
	operation settings
	change    func(*client.Submission)

	ends     string   // state, what is known of the remote side, what stopped it
	attempts []string // each as evidence, category, answer, status; with " +" it stands for one or more
	effects  int      // that took place at the simulator
	arrives  string   // the body on the wire where it is not the submitted one; {key} is the key
	check    func(*testing.T, told)
}

// What attempts of most stories look like.
const (
	lost         = "sent_no_response connection_reset"
	silence      = "sent_no_response header_timeout"
	created      = "response_received applied 201"
	done         = "response_received applied 200"
	refused      = "response_received refused 422"
	noConnection = "not_sent connect_refused"
)

// TestStories tells all of them to one process: the commands of the tables at the
// same time, then those that somebody interferes with.
func TestStories(t *testing.T) {
	s := newStage(t)
	plots := s.open(t, slices.Concat(
		lostStories(), statusStories(), throttleStories(), keyStories(), bodyStories(), wireStories(), egressStories(), credentialStories(),
	)...)
	running := s.submitAll(t, plots)
	secretComes := s.secretComesLater(t)
	for _, r := range running {
		t.Run(r.name, func(t *testing.T) { r.end(t) })
	}
	for _, one := range s.interferences() {
		t.Run(one.name, one.tell)
	}
	t.Run("a missing secret that comes", secretComes)
	t.Run("a way back to oneself", s.loop)
	t.Run("two processes share the work", s.twoProcesses)
	t.Run("freeze and resume", s.freezeAndResume)
	t.Run("nothing was shown that must be hidden", s.nothingLeaked)
	t.Run("the proxy of the environment was not asked", s.proxyUnused)
	t.Run("nothing arrived that nobody meant", s.nothingElse)
}
