package api

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

const leastSubmit = `{"upstream":"ledger","operation":"pay"}`

func TestSubmit(t *testing.T) {
	g := newRig(t)
	var got commands.Submission
	g.commands.submit = func(_ context.Context, sub commands.Submission) (commands.Accepted, error) {
		got = sub
		return commands.Accepted{Command: pendingCommand(sub)}, nil
	}
	body := `{"amount":  9007199254740993, "note":"\u0000\ud800<&>"}`
	r := g.submit(`"k1"`, `{"upstream":"ledger","operation":"pay","body":`+body+`,"metadata":{"order":"42"}}`, as("exk_write")).want(202)
	if got.Tenant != "default" || got.Actor != "shop" || got.Key != "k1" || string(got.Body) != body {
		t.Errorf("the store got %+v", got)
	}
	c := r.command()
	want := map[string]string{
		"Location": "/v1/commands/" + c.ID, "Etag": `"1"`, "Retry-After": "1", "Vary": "Prefer",
		"Idempotent-Replayed": "", "Preference-Applied": "", "Content-Type": "application/json",
	}
	for name, value := range want {
		if r.header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, r.header.Get(name), value)
		}
	}
	if c.Final || c.State != "pending" || c.Outcome != nil || c.IdempotencyKey != "k1" || c.Metadata["order"] != "42" {
		t.Errorf("the command is %+v", c)
	}
}

func TestSubmitRepeated(t *testing.T) {
	g := newRig(t)
	for _, c := range []commands.Command{pendingCommand(commands.Submission{Key: "k1"}), doneCommand(`{}`)} {
		g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
			return commands.Accepted{Command: c, Replayed: true}, nil
		}
		if r := g.submit("k1", leastSubmit).want(200); r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Location") == "" {
			t.Errorf("a repeat's headers: %v", r.header)
		}
	}
}

func TestSubmitKeyReused(t *testing.T) {
	g := newRig(t)
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, &commands.KeyMismatch{CommandID: someID, Differs: []string{"operation", "body"}}
	}
	p := g.submit("k1", leastSubmit).want(422).problem(ProblemCodeIdempotencyKeyReused)
	if p.CommandID != someID.String() || !strings.Contains(p.Detail, "operation, body") {
		t.Errorf("the problem is %+v", p)
	}
}

func TestSubmitSaysWhatTheStoreRefuses(t *testing.T) {
	g := newRig(t)
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, &commands.Invalid{Detail: "no", Fields: []upstreams.FieldError{
			{Pointer: "/params/account", Code: "required", Detail: "a"}, {Pointer: "/idempotency_key", Code: "too_long", Detail: "b"}}}
	}
	want := []FieldProblem{{Pointer: "/params/account", Code: "required", Detail: "a"}, {Header: keyHeader, Code: "too_long", Detail: "b"}}
	if diff := cmp.Diff(want, g.submit("k1", leastSubmit).want(422).problem(ProblemCodeInvalidRequest).Errors); diff != "" {
		t.Error(diff)
	}
}

func TestSubmitWaits(t *testing.T) {
	g := newRig(t)
	ended := make(chan struct{})
	close(ended)
	g.commands.wait = waitsUntil(ended)
	r := g.submit("k1", leastSubmit, with("Prefer", "respond-async, wait=600")).want(200)
	if c := r.command(); !c.Final || r.header.Get("Preference-Applied") != "wait=30" || r.header.Get("Etag") != `"7"` {
		t.Errorf("%v %s", r.header, r.body)
	}
	g.commands.wait = waitsUntil(nil)
	r = g.submit("k1", leastSubmit, with("Prefer", "wait=1")).want(202)
	if c := r.command(); c.Final || r.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%v %s", r.header, r.body)
	}
	g.submit("k1", leastSubmit, with("Prefer", "wait=0")).want(202)
	g.submit("k1", leastSubmit, with("Prefer", "wait=never")).want(202)
}

func TestDryRun(t *testing.T) {
	g := newRig(t)
	done := doneCommand(`{}`)
	preview := commands.Preview{
		Method: "POST", URL: "https://ledger.example/v2/accounts/a1/payments", Headers: []upstreams.Header{{Name: "Idempotency-Key", Value: "k1"}},
		Body: []byte(`{ "amount" : 1.50 }`), ContentType: "application/json", BodyKind: outcome.BodyReplayable, Deadline: someTime, ProfileVersion: 3,
		Identity: upstreams.Identity{In: "header", Name: "Idempotency-Key", Key: "k1"}, Existing: &done,
	}
	g.commands.dryRun = func(context.Context, commands.Submission) (commands.Preview, error) { return preview, nil }
	r := g.do("POST", "/v1/commands?dry_run=true", with(keyHeader, "k1"), sending(leastSubmit)).want(200)
	if !bytes.Contains(r.body, []byte(`"body":{ "amount" : 1.50 },"body_bytes":19`)) {
		t.Errorf("the preview does not have the body as it is: %s", r.body)
	}
	var p Preview
	if r.decode(&p); p.Existing == nil || p.OperationIdentity.Key != "k1" || p.Request.Headers[0].Name != "Idempotency-Key" {
		t.Errorf("the preview is %s", r.body)
	}
	preview.Existing, preview.Identity, preview.Body = nil, upstreams.Identity{}, []byte{0xFF}
	r = g.do("POST", "/v1/commands?dry_run=true", with(keyHeader, "k1"), sending(leastSubmit)).want(200)
	if !bytes.Contains(r.body, []byte(`"body_base64":"/w=="`)) {
		t.Errorf("the preview is %s", r.body)
	}
}

func TestSubmitBatch(t *testing.T) {
	g := newRig(t, func(c *Config) { c.SubmitBytes = 64 })
	g.commands.submit = func(_ context.Context, sub commands.Submission) (commands.Accepted, error) {
		switch sub.Key {
		case "again":
			return commands.Accepted{Command: pendingCommand(sub), Replayed: true}, nil
		case "other":
			return commands.Accepted{}, &commands.KeyMismatch{CommandID: someID, Differs: []string{"body"}}
		case "away":
			return commands.Accepted{}, commands.ErrUnavailable
		case "field":
			return commands.Accepted{}, &commands.Invalid{Detail: "x", Fields: []upstreams.FieldError{{Pointer: "/params/a", Code: "unknown"}}}
		}
		return commands.Accepted{Command: pendingCommand(sub)}, nil
	}
	item := func(key, more string) string {
		return `{"idempotency_key":"` + key + `","upstream":"u","operation":"o"` + more + `}`
	}
	r := g.do("POST", "/v1/commands/batch", sending(`{"commands":[`+strings.Join([]string{
		item("new", ""), item("again", ""), item("other", ""), item("away", ""), item("field", ""),
		item("bad", `,"x":1`), item("large", `,"body":"`+strings.Repeat("x", 64)+`"`)}, ",")+`]}`)).want(200)
	var results BatchResults
	r.decode(&results)
	wantStatus := []int{202, 200, 422, 503, 422, 422, 413}
	wantCode := []ProblemCode{"", "", ProblemCodeIdempotencyKeyReused, ProblemCodeUnavailable, ProblemCodeInvalidRequest, ProblemCodeInvalidRequest, ProblemCodeBodyTooLarge}
	for i, result := range results.Results {
		var code ProblemCode
		if result.Problem != nil {
			code = result.Problem.Code
		}
		if result.Index != i || result.Status != wantStatus[i] || code != wantCode[i] || (result.Command == nil) == (result.Problem == nil) {
			t.Errorf("item %d: %+v", i, result)
		}
	}
	for i, pointer := range map[int]string{4: "/commands/4/params/a", 5: "/commands/5/x"} {
		if got := results.Results[i].Problem.Errors[0].Pointer; got != pointer {
			t.Errorf("item %d points at %s, want %s", i, got, pointer)
		}
	}
}
