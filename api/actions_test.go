package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/apikeys"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// actions are the calls of people on one command, with the least that each asks
// for.
var actions = map[string]string{
	"resolve": `{"state":"success","reason":"on the statement"}`, "lookup": `{"reason":"asked for"}`, "resend": `{"reason":"it was never there"}`,
	"assign": `{"assignee":"bob","reason":"knows the bank"}`, "notes": `{"text":"called them"}`, "correct": `{"state":"rejected","reason":"it was undone"}`,
}

// newJudge is a rig whose store has one command, and what asks about it.
func newJudge(t *testing.T) (*rig, func(action, body string, options ...askOption) *reply) {
	g := newRig(t)
	g.commands.get = func(_ context.Context, tenant string, id uuid.UUID) (commands.Command, error) {
		if tenant != "default" || id != someID {
			return commands.Command{}, commands.ErrNotFound
		}
		return doneCommand(`{}`), nil
	}
	return g, func(action, body string, options ...askOption) *reply {
		t.Helper()
		options = append([]askOption{as("exk_judge"), with(versionHeader, `"6"`), sending(body)}, options...)
		return g.do("POST", "/v1/commands/"+someID.String()+"/"+action, options...)
	}
}

func TestActions(t *testing.T) {
	g, act := newJudge(t)
	for action, body := range actions {
		r := act(action, body).want(200)
		if c := r.command(); c.ID != someID.String() || r.header.Get("ETag") != `"7"` {
			t.Errorf("%s answered %s with the ETag %s", action, r.body, r.header.Get("ETag"))
		}
		want := reconcile.Action{Tenant: "default", Command: someID, Version: 6, Actor: "ann", Reason: g.reviews.action.Reason}
		if g.reviews.action != want || g.reviews.did != action || !strings.Contains(body, want.Reason) || want.Reason == "" {
			t.Errorf("%s did %s: %+v", action, g.reviews.did, g.reviews.action)
		}
	}
}

func TestActionsSayAllThatThePersonSaid(t *testing.T) {
	g, act := newJudge(t)
	act("resolve", `{"state":"rejected","reason":"r","evidence_reference":"ticket 7","reference":"pay_9","code":"no_funds","message":"none"}`).want(200)
	if diff := cmp.Diff(reconcile.Resolution{State: outcome.StateRejected, Reference: "pay_9", Code: "no_funds", Message: "none"}, g.reviews.resolution); diff != "" {
		t.Error(diff)
	}
	if g.reviews.action.EvidenceReference != "ticket 7" {
		t.Errorf("%+v", g.reviews.action)
	}
	act("resolve", `{"state":"success","reason":"r","evidence_reference":null,"reference":null}`).want(200)
	act("resend", `{"reason":"r","evidence_reference":"e","absent":true}`).want(200)
	if !g.reviews.absent || g.reviews.action.EvidenceReference != "e" {
		t.Errorf("%+v", g.reviews)
	}
	act("assign", `{"assignee":"bob","reason":"r"}`).want(200)
	if g.reviews.assignee != "bob" {
		t.Errorf("assigned to %q", g.reviews.assignee)
	}
	act("assign", `{"assignee":null,"reason":"r"}`).want(200)
	if g.reviews.assignee != "" {
		t.Errorf("assigned to %q", g.reviews.assignee)
	}
}

func TestActionsNeedTheVersion(t *testing.T) {
	g, act := newJudge(t)
	for action, body := range actions {
		for _, none := range []askOption{without(versionHeader), func(a *ask) { a.header[versionHeader] = []string{""} }} {
			p := act(action, body, none).want(428).problem(ProblemCodePreconditionRequired)
			if len(p.Errors) != 1 || p.Errors[0].Header != versionHeader {
				t.Errorf("%+v", p)
			}
		}
		for _, bad := range []string{"*", `W/"6"`, `"6", "7"`, `"6`, `6"`, `""`, "0", `"0"`, "-1", "six", "99999999999", "6.0"} {
			act(action, body, func(a *ask) { a.header[versionHeader] = []string{bad} }).want(400).problem(ProblemCodeInvalidParameter)
		}
		act(action, body, with(versionHeader, "7")).want(400)
	}
	if g.reviews.did != "" {
		t.Errorf("%s was done without a version", g.reviews.did)
	}
	act("resolve", actions["resolve"], func(a *ask) { a.header[versionHeader] = []string{"12"} }).want(200)
	if g.reviews.action.Version != 12 {
		t.Errorf("the version is %d", g.reviews.action.Version)
	}
	g.reviews.err = reconcile.ErrVersionRequired
	act("notes", actions["notes"]).want(428)
}

func TestActionsOnAnOlderVersion(t *testing.T) {
	g, act := newJudge(t)
	g.reviews.err = fmt.Errorf("resolve: %w", &reconcile.Stale{Version: 9})
	for action, body := range actions {
		r := act(action, body).want(412)
		if p := r.problem(ProblemCodePreconditionFailed); p.CurrentVersion != 9 || r.header.Get("ETag") != `"9"` {
			t.Errorf("%s: %s with the ETag %s", action, r.body, r.header.Get("ETag"))
		}
	}
}

func TestRefusalsHaveTheirOwnProblems(t *testing.T) {
	g, act := newJudge(t)
	for _, code := range append(reconcile.RefusalCodes(), reconcile.RefusedReportOnly, reconcile.RefusedNotCompared) {
		g.reviews.err = &reconcile.Refused{Code: code, Detail: "Because.", Count: 7}
		if p := act("resolve", actions["resolve"]).want(409).problem(ProblemCode(code)); p.Detail != "Because." || p.Count != 7 {
			t.Errorf("%+v", p)
		}
	}
	g.reviews.err = &reconcile.Refused{Code: "not_found", Detail: "A code that means another status."}
	act("resolve", actions["resolve"]).want(409).problem(ProblemCodeConflict)
	g.reviews.err = &commands.NotResendable{Reason: outcome.ReasonAmbiguous, Rule: 4}
	act("resend", actions["resend"]).want(409).problem(ProblemCodeResendNotSafe)
	g.reviews.err = commands.ErrNotFound
	act("resend", actions["resend"]).want(404).problem(ProblemCodeNotFound)
	g.reviews.err = commands.ErrUnavailable
	act("resend", actions["resend"]).want(503).problem(ProblemCodeUnavailable)
}

func TestActionsNamePlaces(t *testing.T) {
	g, act := newJudge(t)
	long := strings.Repeat("ä", maxWhy+1)
	for _, tt := range []struct {
		action, body string
		places       []string
	}{
		{"resolve", `{}`, []string{"/state", "/reason"}},
		{"resolve", `{"state":"done","reason":" "}`, []string{"/state", "/reason"}},
		{"resolve", `{"state":null,"reason":null}`, []string{"/state", "/reason"}},
		{"resolve", `{"state":"unresolved","reason":7}`, []string{"/state", "/reason"}},
		{"resolve", `{"state":"success","reason":"r","Reference":"x","note":{"a":1}}`, []string{"/Reference", "/note"}},
		{"resolve", `{"state":"success","reason":"` + long + `"}`, []string{"/reason"}},
		{"resolve", `{"state":"success","reason":"\u0000"}`, []string{"/reason"}},
		{"resolve", `[]`, []string{""}},
		{"lookup", `{}`, []string{"/reason"}},
		{"lookup", `{"reason":"r","state":"success"}`, []string{"/state"}},
		{"resend", `{"reason":"r","absent":"yes"}`, []string{"/absent"}},
		{"assign", `{"reason":"r"}`, []string{"/assignee"}},
		{"assign", `{"reason":"r","assignee":""}`, []string{"/assignee"}},
		{"assign", `{"assignee":"bob"}`, []string{"/reason"}},
		{"notes", `{"reason":"r"}`, []string{"/reason", "/text"}},
		{"correct", `{"state":"rejected"}`, []string{"/reason"}},
	} {
		p := act(tt.action, tt.body).want(422).problem(ProblemCodeInvalidRequest)
		if got := pointers(p); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(tt.places))) {
			t.Errorf("%s %.80s points at %q, want %q", tt.action, tt.body, got, tt.places)
		}
	}
	act("notes", `{"text":"a","text":"b"}`).want(400).problem(ProblemCodeMalformedJSON)
	act("notes", `{"text":"a"}`, without("Content-Type")).want(415)
	act("notes", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`).want(413)
	if g.reviews.did != "" {
		t.Errorf("%s was done", g.reviews.did)
	}
	g.reviews.err = &commands.Invalid{Detail: "No.", Fields: []upstreams.FieldError{{Pointer: "/reason", Code: "not_printable", Detail: "No."}}}
	for action, place := range map[string]string{"notes": "/text", "assign": "/reason"} {
		if p := act(action, actions[action]).want(422).problem(ProblemCodeInvalidRequest); pointers(p)[0] != place {
			t.Errorf("%s: %+v", action, p)
		}
	}
}

// pointers are where a problem points.
func pointers(p Problem) []string {
	var list []string
	for _, field := range p.Errors {
		list = append(list, field.Pointer)
	}
	return list
}

func TestActionsOfOthers(t *testing.T) {
	g, act := newJudge(t)
	g.keys["exk_other"] = apikeys.Key{Tenant: "other", Name: "eve", Scopes: []string{"reviews:write"}}
	g.reviews.err = commands.ErrNotFound
	for action, body := range actions {
		if act(action, body, as("exk_other")).want(404); g.reviews.tenant != "other" {
			t.Errorf("%s asked for the tenant %q", action, g.reviews.tenant)
		}
		for _, secret := range []string{"exk_read", "exk_write"} {
			act(action, body, as(secret)).want(403).problem(ProblemCodeMissingScope)
		}
		g.do(http.MethodPost, "/v1/commands/x/"+action, with(versionHeader, "1"), sending(body)).want(400)
	}
}
