//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"executor/client"
	"executor/outcome"
)

// faults lists what must not be.
func (o told) faults() []string {
	var list []string
	for _, rule := range []func() string{
		o.endedAsTold, o.attemptsAsTold, o.outcomeAddsUp, o.recordInOrder, o.recordAddsUp, o.onRecord, o.sameEachTime,
		o.effectsAsTold, o.stateIsTrue, o.announcedOnce, o.nothingShown,
	} {
		if text := rule(); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// outcome is the common part of how it ended.
func (o told) outcome() client.Decision {
	if o.command.Outcome == nil {
		return client.Decision{}
	}
	return o.command.Outcome.Common()
}

func (o told) endedAsTold() string {
	if got := fmt.Sprintf("%s %s %s", o.command.State, o.outcome().Reason, o.outcome().StoppedBy); got != o.ends {
		return fmt.Sprintf("it ended %q, want %q", got, o.ends)
	}
	return ""
}

// seen is an attempt in the words of a story.
func seen(a client.Attempt) string {
	words := []string{a.Evidence}
	if a.Category != "none" {
		words = append(words, a.Category)
	}
	if a.Answer != "" {
		words = append(words, a.Answer)
	}
	if a.Status != 0 {
		words = append(words, fmt.Sprint(a.Status))
	}
	return strings.Join(words, " ")
}

// attemptsAsTold: one after the other, as the story says.
func (o told) attemptsAsTold() string {
	var got []string
	for _, a := range o.record {
		got = append(got, seen(a))
	}
	left := got
	for _, want := range o.attempts {
		one, many := strings.CutSuffix(want, " +")
		if len(left) == 0 || left[0] != one {
			return fmt.Sprintf("its attempts were %q, want %q", got, o.attempts)
		}
		for left = left[1:]; many && len(left) > 0 && left[0] == one; {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("its attempts were %q, want %q", got, o.attempts)
	}
	return ""
}

// outcomeAddsUp: what a caller may do next follows from the state.
func (o told) outcomeAddsUp() string {
	d, next := o.outcome(), "none"
	if o.command.State == client.StateUnresolved {
		next = "review"
	}
	by := map[string]string{"deadline": "deadline", "cancel_requested": "cancel"}[d.StoppedBy]
	switch {
	case !o.command.Final || o.command.FinalizedAt == nil || o.command.NextAttemptAt != nil || o.command.Waiting != nil:
		return "it is final, and something is to come"
	case d.NextAction != next:
		return fmt.Sprintf("next action %q, want %q", d.NextAction, next)
	case d.SafeToResubmit != (o.command.State == client.StateCancelled):
		return fmt.Sprintf("safe to resubmit: %t", d.SafeToResubmit)
	case d.DecidedBy != "attempt" && d.DecidedBy != by:
		return fmt.Sprintf("decided by %q", d.DecidedBy)
	case (o.command.Reconciliation != nil) != (o.command.State == client.StateUnresolved):
		return fmt.Sprintf("reconciliation %+v", o.command.Reconciliation)
	}
	return ""
}

// recordInOrder: numbered without a gap, ended, no two at once, and all but the
// last were followed by a retry.
func (o told) recordInOrder() string {
	for i, a := range o.record {
		switch {
		case a.Number != i+1 || a.EndedAt == nil || a.Instance == "":
			return fmt.Sprintf("attempt %d of %d is numbered %d, made by %q, ended at %v", i+1, len(o.record), a.Number, a.Instance, a.EndedAt)
		case i > 0 && a.StartedAt.Before(*o.record[i-1].EndedAt):
			return fmt.Sprintf("attempt %d began before the end of the one before it", a.Number)
		case i < len(o.record)-1 && a.Decision != "retry" && a.Decision != "wait_budget":
			return fmt.Sprintf("attempt %d was decided %s, and another one followed", a.Number, a.Decision)
		}
	}
	return ""
}

// recordAddsUp: the boundaries follow from what was seen, and the command's record
// from its attempts.
func (o told) recordAddsUp() string {
	most := outcome.BoundaryNotCrossed
	for _, a := range o.record {
		b := outcome.BoundaryOf(o.kind, outcome.Evidence(a.Evidence), outcome.Answer(a.Answer))
		if string(b) != a.Boundary {
			return fmt.Sprintf("the boundary of attempt %d is %s, want %s", a.Number, a.Boundary, b)
		}
		if b == outcome.BoundaryCrossed || most == outcome.BoundaryNotCrossed {
			most = b
		}
	}
	id := o.command.Record.Identity
	switch r := o.command.Record; {
	case r.Attempts != len(o.record) || r.Boundary != string(most):
		return fmt.Sprintf("its decision record is %+v", r)
	case (id != nil) != (o.kind == outcome.IdempotencyKeyed):
		return fmt.Sprintf("its identity is %+v", id)
	case id != nil && id.Key != o.submission.Key && id.Key != o.command.ID:
		return fmt.Sprintf("its key at the upstream is %q", id.Key)
	}
	return ""
}

// onRecord: each attempt that was sent is one request on the wire, and nothing
// else reached the upstream.
func (o told) onRecord() string {
	sent := 0
	for _, a := range o.record {
		never := a.Evidence == string(outcome.EvidenceNotSent)
		if !never {
			sent++
		}
		if never != (a.Request.BytesHandedOver == 0) {
			return fmt.Sprintf("attempt %d is %s, with %d bytes handed over", a.Number, a.Evidence, a.Request.BytesHandedOver)
		}
	}
	if sent != len(o.wire) {
		return fmt.Sprintf("%d attempts were sent, and %d requests arrived", sent, len(o.wire))
	}
	return ""
}

// sameEachTime: whatever arrived is what was accepted, byte for byte, under the
// same key each time.
func (o told) sameEachTime() string {
	body, key := string(o.submission.Body)+string(o.submission.BodyBytes), ""
	if id := o.command.Record.Identity; id != nil {
		key = id.Key
	}
	if o.arrives != "" {
		body = strings.ReplaceAll(o.arrives, "{key}", key)
	}
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:])
	for i, q := range o.wire {
		a := o.record[0].Request
		switch {
		case !q.whole:
		case q.method != a.Method || !strings.HasSuffix(a.URL, q.target):
			return fmt.Sprintf("request %d was %s %s, on record it is %s %s", i+1, q.method, q.target, a.Method, a.URL)
		case q.digest != digest:
			return fmt.Sprintf("request %d carried %q, want %q", i+1, q.body, body)
		case o.keyed() && q.key != key:
			return fmt.Sprintf("request %d carried the key %q, want %q", i+1, q.key, key)
		case o.kind == outcome.IdempotencyNone && q.header.Get("Connection") != "close":
			return fmt.Sprintf("request %d may share its connection", i+1)
		}
	}
	if o.command.BodyKind == client.BodyOneShot { // of which nothing is kept
		digest = ""
	}
	for _, a := range o.record {
		if a.Request.BodySHA256 != digest {
			return fmt.Sprintf("attempt %d has another body on record", a.Number)
		}
	}
	return ""
}

// keyed says whether the key stands where the upstream finds it by itself. One made
// of bytes looks at the header only.
func (o told) keyed() bool {
	id := o.command.Record.Identity
	return o.made == nil || id == nil || id.In == "header" && id.Name == "Idempotency-Key"
}

func (o told) effectsAsTold() string {
	if len(o.took) != o.effects {
		return fmt.Sprintf("it took effect %d times, want %d", len(o.took), o.effects)
	}
	return ""
}

// stateIsTrue: a success took place, what was rejected or cancelled did not, and
// nothing that counts took place twice.
func (o told) stateIsTrue() string {
	acts := o.made == nil && o.base == "" && o.kind != outcome.IdempotencySafe
	undone := o.command.State == client.StateRejected || o.command.State == client.StateCancelled
	counts := o.kind == outcome.IdempotencyNone || o.kind == outcome.IdempotencyKeyed
	switch {
	case acts && o.command.State == client.StateSuccess && len(o.took) == 0:
		return "success, but it did not take effect"
	case undone && len(o.took) > 0:
		return "called undone, but it took effect"
	case counts && len(o.took) > 1:
		return "it took effect twice"
	}
	return ""
}

// announcedOnce: one outcome, one event.
func (o told) announcedOnce() string {
	var types []string
	for _, e := range o.events {
		if e.Sequence > 0 {
			types = append(types, e.Type)
		}
	}
	if want := "command." + string(o.command.State); !slices.Equal(types, []string{want}) {
		return fmt.Sprintf("its outcomes were announced as %q, want %q", types, want)
	}
	return ""
}

// nothingShown: no secret is in what the API says.
func (o told) nothingShown() string {
	for _, secret := range o.hidden {
		if bytes.Contains(o.shown, []byte(secret)) {
			return fmt.Sprintf("the secret %q is shown in %s", secret, o.shown)
		}
	}
	return ""
}

// nothingElse: whatever the simulator saw belongs to a story, or fetched a token.
func (s *stage) nothingElse(t *testing.T) {
	for _, q := range s.sim.Requests("") {
		known := strings.HasPrefix(q.Path, "/oauth/")
		for _, token := range s.tokens {
			known = known || strings.Contains(q.Path, token)
		}
		if !known {
			t.Errorf("nobody meant %s %s", q.Method, q.Path)
		}
	}
}
