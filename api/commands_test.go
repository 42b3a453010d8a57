package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

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
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(commands.Filter{})); diff != "" {
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
	g.do("POST", path, sending(`{"reason":" "}`)).want(422).problem(ProblemCodeInvalidRequest)
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
