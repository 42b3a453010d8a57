package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/attempts"
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

// waitsUntil is a store whose commands end when their waiting does.
func waitsUntil(end <-chan struct{}) func(context.Context, string, uuid.UUID) (commands.Command, error) {
	return func(ctx context.Context, _ string, _ uuid.UUID) (commands.Command, error) {
		select {
		case <-end:
			return doneCommand(`{}`), nil
		case <-ctx.Done():
			return pendingCommand(commands.Submission{Key: "k1"}), nil
		}
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
		Body: []byte(`{ "amount" : 1.50 }`), ContentType: "application/json", Deadline: someTime, ProfileVersion: 3,
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

func TestGetCommand(t *testing.T) {
	g := newRig(t)
	body := `{"id": 9007199254740993, "html": "<b>&amp;</b>", "z": "\u0000", "e": 1e400, "a":1,"a":2 }`
	g.commands.get = func(_ context.Context, tenant string, id uuid.UUID) (commands.Command, error) {
		if tenant != "default" || id != someID {
			return commands.Command{}, commands.ErrNotFound
		}
		return doneCommand(body), nil
	}
	path := "/v1/commands/" + someID.String()
	r := g.do("GET", path, as("exk_read")).want(200)
	if !bytes.Contains(r.body, []byte(`"body":`+body+`,`)) {
		t.Errorf("the upstream's body was rewritten: %s", r.body)
	}
	if r.header.Get("Etag") != `"7"` {
		t.Errorf("ETag is %s", r.header.Get("Etag"))
	}
	if r := g.do("GET", path, with("If-None-Match", `"7"`)).want(304); len(r.body) != 0 {
		t.Errorf("a 304 with a body: %s", r.body)
	}
	g.do("GET", path, with("If-None-Match", `"6"`)).want(200)
	if r := g.do("HEAD", path).want(200); r.header.Get("Content-Length") == "" {
		t.Error("HEAD gives no length")
	}
	g.do("GET", "/v1/commands/"+uuid.NewString()).want(404).problem(ProblemCodeNotFound)
	for _, bad := range []string{"x", "{" + someID.String() + "}", strings.ReplaceAll(someID.String(), "-", "")} {
		g.do("GET", "/v1/commands/"+bad).want(400).problem(ProblemCodeInvalidParameter)
	}
}

func TestGetCommandWaits(t *testing.T) {
	g := newRig(t)
	ended := make(chan struct{})
	close(ended)
	g.commands.wait = waitsUntil(ended)
	path := "/v1/commands/" + someID.String()
	if c := g.do("GET", path+"?wait=30").want(200).command(); !c.Final {
		t.Error("the wait did not last until the end")
	}
	if r := g.do("GET", path, with("Prefer", "wait=3")).want(200); r.header.Get("Preference-Applied") != "wait=3" {
		t.Errorf("Preference-Applied is %q", r.header.Get("Preference-Applied"))
	}
	g.commands.wait = waitsUntil(nil)
	if c := g.do("GET", path+"?wait=1").want(200).command(); c.Final {
		t.Error("a pending command was called final")
	}
	g.do("GET", path+"?wait=-1").want(400).problem(ProblemCodeInvalidParameter)
	g.do("GET", path+"?wait=soon").want(400).problem(ProblemCodeInvalidParameter)
}

func TestDrainEndsWaits(t *testing.T) {
	g := newRig(t)
	waiting := make(chan struct{})
	g.commands.wait = func(ctx context.Context, _ string, _ uuid.UUID) (commands.Command, error) {
		close(waiting)
		return waitsUntil(nil)(ctx, "", uuid.UUID{})
	}
	done := make(chan *reply)
	go func() { done <- g.do("GET", "/v1/commands/"+someID.String()+"?wait=30") }()
	<-waiting
	g.server.Drain()
	select {
	case r := <-done:
		r.want(200)
	case <-time.After(patience / 2): // the wait itself would be twice as long
		t.Fatal("the wait outlived the drain")
	}
	g.do("GET", "/readyz").want(503)
}

// TestWaitOutlivesReadTimeout: the server's time for reading a request is not
// the client's time for waiting.
func TestWaitOutlivesReadTimeout(t *testing.T) {
	g := newRig(t)
	g.commands.wait = func(ctx context.Context, _ string, _ uuid.UUID) (commands.Command, error) {
		select {
		case <-ctx.Done(): // the wait is 1 s, and the connection's deadlines are over by then
			return doneCommand(`{}`), nil
		case <-time.After(patience):
			return commands.Command{}, errors.New("the wait has no end")
		}
	}
	short := httptest.NewUnstartedServer(g.server.Routes())
	short.Config.ReadTimeout, short.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	short.Start()
	t.Cleanup(short.Close)
	g.http = short
	g.do("GET", "/v1/commands/"+someID.String()+"?wait=1").want(200)
}

func TestListCommands(t *testing.T) {
	g := newRig(t)
	var got commands.Filter
	g.commands.list = func(_ context.Context, f commands.Filter) ([]commands.Command, string, error) {
		got = f
		return []commands.Command{doneCommand(`[]`), pendingCommand(commands.Submission{Key: "k2"})}, "next", nil
	}
	after := someTime.Truncate(time.Second)
	path := "/v1/commands" + query("state", "unresolved", "state", "success,rejected", "upstream", "ledger", "operation", "pay", "key", "k", "reference", "pay_9",
		"metadata.order", "42", "metadata.a.b", "", "created_after", after.Format(time.RFC3339), "created_before", "2027-01-01T00:00:00+02:00", "cursor", "abc", "limit", "7")
	var page CommandList
	if g.do("GET", path).want(200).decode(&page); len(page.Data) != 2 || page.NextCursor == nil || *page.NextCursor != "next" {
		t.Errorf("the page is %+v", page)
	}
	before := time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC)
	want := commands.Filter{
		Tenant: "default", States: []string{"unresolved", "success", "rejected"}, Upstream: "ledger", Operation: "pay", Key: "k", Reference: "pay_9",
		Metadata: map[string]string{"order": "42", "a.b": ""}, CreatedAfter: &after, CreatedBefore: &before, Cursor: "abc", Limit: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	g.commands.list = nil
	if r := g.do("GET", "/v1/commands").want(200); string(r.body) != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("an empty page is %s", r.body)
	}
}

func TestListCommandsNamesBadParameters(t *testing.T) {
	g := newRig(t)
	for _, tt := range []struct{ query, parameter string }{
		{"staet=success", "staet"}, {"metadata=x", "metadata"}, {"wait=1", "wait"}, {"state=done", "state"}, {"state=", "state"}, {"state=success,", "state"},
		{"limit=0", "limit"}, {"limit=101", "limit"}, {"limit=ten", "limit"}, {"limit=", "limit"}, {"limit=1&limit=2", "limit"}, {"created_after=yesterday", "created_after"},
		{"created_before=2026-12-01T00:00:00+02:00", "created_before"}, {"upstream=", "upstream"}, {"key=%00", "key"}, {"reference=%ff", "reference"},
		{"metadata.a=1&metadata.a=2", "metadata.a"}, {"metadata.%00=1", "metadata.\x00"},
	} {
		p := g.do("GET", "/v1/commands?"+tt.query).want(400).problem(ProblemCodeInvalidParameter)
		if len(p.Errors) != 1 || p.Errors[0].Parameter != tt.parameter {
			t.Errorf("%s: %+v", tt.query, p.Errors)
		}
	}
	g.do("GET", "/v1/commands?a=%zz").want(400).problem(ProblemCodeInvalidParameter)
	g.do("GET", "/v1/commands?a;b").want(400).problem(ProblemCodeInvalidParameter)
	g.commands.list = func(context.Context, commands.Filter) ([]commands.Command, string, error) {
		return nil, "", commands.ErrBadCursor
	}
	if p := g.do("GET", "/v1/commands?cursor=x").want(400).problem(ProblemCodeInvalidParameter); p.Errors[0].Parameter != "cursor" {
		t.Errorf("%+v", p)
	}
}

func TestCancel(t *testing.T) {
	g := newRig(t)
	var actor string
	g.commands.cancel = func(_ context.Context, _ string, id uuid.UUID, a string) (commands.Command, commands.CancelResult, error) {
		actor = a
		c := pendingCommand(commands.Submission{Key: "k1"})
		c.CancelRequested = true
		return c, commands.CancelRequested, nil
	}
	path := "/v1/commands/" + someID.String() + "/cancel"
	for _, options := range [][]askOption{{}, {sending(`{}`)}, {with("Content-Length", "0")}} {
		var c CancelledCommand
		g.do("POST", path, append(options, as("exk_write"))...).want(200).decode(&c)
		if c.Cancel != "requested" || !c.CancelRequested || c.ID != someID.String() || actor != "shop" {
			t.Errorf("cancel by %s gave %+v", actor, c)
		}
	}
	g.do("POST", path, sending(`{"reason":"x"}`)).want(422).problem(ProblemCodeInvalidRequest)
	g.do("POST", path, sending(`{`)).want(400).problem(ProblemCodeMalformedJSON)
	g.do("POST", path, sending(`{}`), without("Content-Type")).want(415).problem(ProblemCodeUnsupportedMediaType)
	g.commands.cancel = nil
	g.do("POST", path).want(404)
}

func TestListAttempts(t *testing.T) {
	g := newRig(t)
	ended, wait, retry := someTime.Add(time.Second), int64(500), someTime.Add(2*time.Second)
	full := commands.Attempt{
		Number: 1, Instance: "host-1", ProfileVersion: 3, StartedAt: someTime, EndedAt: &ended, Evidence: outcome.EvidenceResponseReceived, Stage: "done",
		Category: "none", Detail: "", Answer: outcome.AnswerUnclear, Status: 502, Boundary: outcome.BoundaryPossiblyCrossed, Rule: 9, Decision: "retry",
		Reason: "status_502", WaitMS: &wait, RetryAt: &retry, BytesTotal: 300, BytesHandedOver: 300, BodySHA256: []byte{1, 2},
		Request:         commands.AttemptRequest{Method: "POST", URL: "https://x.example/y", Headers: []upstreams.Header{{Name: "A", Value: "b"}}},
		ResponseHeaders: http.Header{"X-Odd\"Name": {"1", "\xff"}}, ResponseBody: []byte("<html>\x00&"), ResponseSHA256: []byte{3}, ResponseBytes: 8, ResponseTruncated: true,
		Reference: "r", RejectionCode: "c", RejectionMessage: "m", Addresses: []commands.Address{{Address: "192.0.2.1:443", Category: "connect_refused", Detail: "refused"}, {Address: "192.0.2.2:443"}},
		Timings: map[string]float64{"dns": 0.25, "connect": 1e-7}, Remote: "192.0.2.2:443", Protocol: "HTTP/1.1", DeadlineLeftMS: 100, BudgetTokens: 19.8, Notes: []string{"n"},
	}
	g.commands.attempts = func(context.Context, string, uuid.UUID) ([]commands.Attempt, error) {
		return []commands.Attempt{full, {Number: 2, Instance: "host-1", StartedAt: someTime}}, nil
	}
	var page AttemptList
	r := g.do("GET", "/v1/commands/"+someID.String()+"/attempts").want(200)
	r.decode(&page)
	a, open := page.Data[0], page.Data[1]
	if *a.Response.BodyText != "<html>\x00&" || a.Response.Headers["X-Odd\"Name"][1] != "\uFFFD" || *a.WaitMs != 500 || *a.Request.BodySha256 != "0102" ||
		a.TimingsMs["connect"] != 1e-7 || a.Addresses[1].Category != nil || *a.Rule != 9 || *a.Status != 502 {
		t.Errorf("the attempt is %s", r.body)
	}
	if open.EndedAt != nil || open.Evidence != nil || open.Rule != nil || open.Response != nil || open.Connection != nil || open.Status != nil {
		t.Errorf("the open attempt is %s", r.body)
	}
}

func TestListLookups(t *testing.T) {
	g := newRig(t)
	path := "/v1/commands/" + someID.String() + "/lookups"
	g.do("GET", path).want(404)
	g.commands.get = func(context.Context, string, uuid.UUID) (commands.Command, error) { return doneCommand(`{}`), nil }
	if r := g.do("GET", path).want(200); string(r.body) != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("lookups: %s", r.body)
	}
}

// someEvents are n events with ids that tell their number.
func someEvents(n int) []commands.Event {
	var list []commands.Event
	for i := range n {
		list = append(list, commands.Event{ID: uuid.UUID{15: byte(i + 1)}, Number: i + 1, Type: "attempt.ended", At: someTime, Actor: "host", Data: []byte("{\"a\":\n 1}")})
	}
	return list
}

func TestListEvents(t *testing.T) {
	g := newRig(t)
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(2), nil }
	var page EventList
	if g.do("GET", "/v1/commands/"+someID.String()+"/events").want(200).decode(&page); len(page.Data) != 2 || page.Data[1].Number != 2 {
		t.Errorf("the page is %+v", page)
	}
}

// openStream asks for a stream of events.
func (g *rig) openStream(options ...askOption) *bufio.Scanner {
	g.t.Helper()
	a := &ask{header: http.Header{"Authorization": {"Bearer exk_read"}, "Accept": {"text/event-stream"}}}
	for _, option := range options {
		option(a)
	}
	req, _ := http.NewRequestWithContext(g.t.Context(), "GET", g.http.URL+"/v1/commands/"+someID.String()+"/events", nil)
	req.Header = a.header
	resp, err := g.http.Client().Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != eventStream {
		body, _ := io.ReadAll(resp.Body)
		g.t.Fatalf("the stream is %d %s %s", resp.StatusCode, resp.Header, body)
	}
	return bufio.NewScanner(resp.Body)
}

// nextID reads a stream up to the next event and returns its id; "" at the end.
func nextID(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	id := ""
	for lines.Scan() {
		line := lines.Text()
		if after, ok := strings.CutPrefix(line, "id: "); ok {
			id = after
		}
		if after, ok := strings.CutPrefix(line, "data: "); ok && !strings.HasPrefix(after, `{"id":"`+id+`"`) {
			t.Errorf("the data is %s", line)
		}
		if line == "" && id != "" {
			return id
		}
	}
	return id
}

func TestStreamEvents(t *testing.T) {
	g := newRig(t)
	more := make(chan int, 1)
	known := 2
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) {
		select {
		case known = <-more:
		default:
		}
		return someEvents(known), nil
	}
	all := someEvents(4)
	lines := g.openStream()
	for i := range 2 {
		if id := nextID(t, lines); id != all[i].ID.String() {
			t.Fatalf("event %d has id %s", i, id)
		}
	}
	more <- 4
	for i := range 2 {
		if id := nextID(t, lines); id != all[2+i].ID.String() {
			t.Fatalf("event %d has id %s", 2+i, id)
		}
	}
	g.server.Drain()
	if id := nextID(t, lines); id != "" {
		t.Errorf("after the drain came %s", id)
	}
}

func TestStreamResumes(t *testing.T) {
	g := newRig(t)
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(3), nil }
	all := someEvents(3)
	if id := nextID(t, g.openStream(with("Last-Event-ID", all[1].ID.String()))); id != all[2].ID.String() {
		t.Errorf("resumed at %s", id)
	}
	if id := nextID(t, g.openStream(with("Last-Event-ID", "unknown"))); id != all[0].ID.String() {
		t.Errorf("resumed at %s", id)
	}
}

func TestStreamBeats(t *testing.T) {
	g := newRig(t)
	g.server.heartbeat = time.Millisecond
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(1), nil }
	lines := g.openStream()
	for lines.Scan() {
		if lines.Text() == ": still here" {
			return
		}
	}
	t.Error("the stream ended without a heartbeat")
}

const someProfile = `version: 1
upstream: ledger
base_url: https://ledger.example/v2
operations:
  pay:
    method: POST
    path: /payments
`

func yamlBody(src string) askOption {
	return func(a *ask) { a.body = src; a.header.Set("Content-Type", yamlType) }
}

func TestUpstreams(t *testing.T) {
	g := newRig(t)
	if r := g.do("GET", "/v1/upstreams").want(200); string(r.body) != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("no upstreams: %s", r.body)
	}
	g.do("GET", "/v1/upstreams/ledger").want(404)
	var applied struct {
		Version int
		Changed bool
	}
	r := g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	if r.decode(&applied); !applied.Changed || applied.Version != 1 || r.header.Get("Location") != "/v1/upstreams/ledger" {
		t.Errorf("applied: %s", r.body)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(200).decode(&applied)
	if applied.Changed {
		t.Error("the same profile made a new version")
	}
	g.do("PUT", "/v1/upstreams/ledger", sending(`{"version":1,"upstream":"ledger","base_url":"https://ledger.example/v3","operations":{"pay":{"method":"POST","path":"/p"}}}`)).want(200).decode(&applied)
	if !applied.Changed || applied.Version != 2 {
		t.Errorf("a profile in JSON gave %+v", applied)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(200)
	var u Upstream
	if g.do("GET", "/v1/upstreams/ledger", as("exk_read")).want(200).decode(&u); u.Profile != someProfile || u.Paused != nil || len(u.Warnings) == 0 {
		t.Errorf("the upstream is %+v", u)
	}
	if r := g.do("GET", "/v1/upstreams/ledger", with("Accept", yamlType)).want(200); string(r.body) != someProfile || r.header.Get("Content-Type") != yamlType {
		t.Errorf("the profile is %s", r.body)
	}
	var list UpstreamList
	if g.do("GET", "/v1/upstreams").want(200).decode(&list); len(list.Data) != 1 || list.Data[0].Profile != "" || list.Data[0].Operations[0] != "pay" {
		t.Errorf("the list is %+v", list)
	}
}

func TestPauseAndResume(t *testing.T) {
	g := newRig(t)
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	var u Upstream
	g.do("POST", "/v1/upstreams/ledger/pause", sending(`{"reason":"it burns"}`)).want(200).decode(&u)
	if u.Paused == nil || u.Paused.Reason != "it burns" || u.Paused.By != "boss" {
		t.Errorf("paused: %+v", u.Paused)
	}
	for body, pointer := range map[string]string{`{}`: "/reason", `{"reason":""}`: "/reason", `{"reason":1}`: "/reason", `{"reason":"x","why":"y"}`: "/why", `[]`: "", `{"reason":"` + strings.Repeat("x", 501) + `"}`: "/reason"} {
		p := g.do("POST", "/v1/upstreams/ledger/pause", sending(body)).want(422).problem(ProblemCodeInvalidRequest)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%.40s: %+v", body, p.Errors)
		}
	}
	u = Upstream{}
	if g.do("POST", "/v1/upstreams/ledger/resume").want(200).decode(&u); u.Paused != nil {
		t.Errorf("resumed: %+v", u.Paused)
	}
	g.do("POST", "/v1/upstreams/other/pause", sending(`{"reason":"x"}`)).want(404)
	g.do("POST", "/v1/upstreams/other/resume").want(404)
}

func TestApplyRefusesWithLineAndColumn(t *testing.T) {
	g := newRig(t)
	put := func(src string) Problem {
		return g.do("PUT", "/v1/upstreams/ledger", yamlBody(src)).want(422).problem(ProblemCodeInvalidProfile)
	}
	p := put(someProfile + "    colour: red\n")
	if len(p.Errors) == 0 || p.Errors[0].Line != 8 || p.Errors[0].Column != 5 {
		t.Errorf("%+v", p)
	}
	if p := put(strings.Replace(someProfile, "upstream: ledger", "upstream: other", 1)); p.Errors[0].Pointer != "/upstream" {
		t.Errorf("%+v", p)
	}
	if p := put("tenant: acme\n" + someProfile); p.Errors[0].Pointer != "/tenant" {
		t.Errorf("%+v", p)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody("a: \xff")).want(400).problem(ProblemCodeMalformedBody)
	g.do("PUT", "/v1/upstreams/Led%2Fger", yamlBody(someProfile)).want(400).problem(ProblemCodeInvalidParameter)
}

func TestExplain(t *testing.T) {
	g := newRig(t)
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	var m Matrix
	if g.do("GET", "/v1/upstreams/ledger/explain").want(200).decode(&m); len(m.Operations) != 1 || len(m.Operations[0].Rows) == 0 {
		t.Errorf("the matrix is %+v", m)
	}
	if r := g.do("GET", "/v1/upstreams/ledger/explain", with("Accept", "text/plain")).want(200); !strings.Contains(string(r.body), "connection refused") {
		t.Errorf("the matrix is %s", r.body)
	}
}

func TestDeployment(t *testing.T) {
	g := newRig(t)
	g.deployment.state = attempts.DeploymentState{ID: "prod", Expected: "copy"}
	var d DeploymentView
	if g.do("GET", "/v1/deployment", as("exk_read")).want(200).decode(&d); d.ID != "prod" || *d.ProcessID != "copy" || d.Frozen || d.FrozenBy != nil {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/freeze", sending(`{"reason":"restore"}`)).want(200).decode(&d); !d.Frozen || *d.FrozenReason != "restore" || *d.FrozenBy != "boss" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/adopt").want(200).decode(&d); d.ID != "copy" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/resume").want(200).decode(&d); d.Frozen {
		t.Errorf("%+v", d)
	}
	g.do("POST", "/v1/deployment/freeze", sending(`{}`)).want(422)
	g.deployment.err = attempts.ErrOtherDeployment
	g.do("POST", "/v1/deployment/resume").want(409).problem(ProblemCodeConflict)
	g.do("POST", "/v1/deployment/adopt").want(409).problem(ProblemCodeConflict)
}

func TestHealth(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		if r := g.do("GET", path, without("Authorization")).want(200); string(r.body) != `{"status":"ok"}`+"\n" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	var h HealthView
	for _, q := range []string{"?verbose", "?verbose=", "?verbose=true"} {
		if g.do("GET", "/readyz"+q).want(200).decode(&h); len(h.Checks) != 2 {
			t.Errorf("%s: %+v", q, h)
		}
	}
	g.do("GET", "/readyz?verbose=yes").want(400).problem(ProblemCodeInvalidParameter)
	g.health.err = errors.New("the database cannot be reached")
	if g.do("GET", "/readyz").want(503).decode(&h); h.Status != HealthStatusNotReady || len(h.Checks) != 1 || h.Checks[0].Detail != g.health.err.Error() {
		t.Errorf("%+v", h)
	}
	g.do("GET", "/livez").want(200)
}
