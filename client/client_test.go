package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const commandJSON = `{"id":"0193-a","state":"%s","final":%t,"version":7,"idempotency_key":"k1","upstream":"ledger","operation":"create_payment",
 "profile_version":3,"priority":"normal","created_at":"2026-11-01T00:00:00Z","deadline":"2026-11-01T00:15:00Z","not_before":null,
 "finalized_at":null,"next_attempt_at":"2026-11-01T00:01:00Z","cancel_requested":true,"waiting":{"for":"backoff","until":"2026-11-01T00:01:00Z"},
 "outcome":%s,"decision_record":{"attempts":2,"last_response_class":"5xx","last_timeout":{"kind":"response_header","at":"2026-11-01T00:00:30Z"},
 "elapsed_ms":3012,"operation_identity":{"in":"header","name":"Idempotency-Key","key":"k1"},"boundary":"possibly_crossed"},
 "reconciliation":{"phase":"lookup","lookups":1,"next_lookup_at":null,"absent_in_a_row":0,"conflicts":2,"assignee":"ann"},"metadata":{"order":"42"},"added_later":[1]}`

const decisionJSON = `"reason":"no_response","stopped_by":"max_attempts","decided_by":"attempt","decided_at":"2026-11-01T00:00:31Z","sequence":1,"safe_to_resubmit":%t,"next_action":"lookup"`

func outcomeJSON(state State, more string) string {
	return fmt.Sprintf(`{"state":%q,`+decisionJSON+more+`}`, state, state == StateCancelled)
}

func pending() string { return fmt.Sprintf(commandJSON, StatePending, false, "null") }

func succeeded() string {
	return fmt.Sprintf(commandJSON, StateSuccess, true, outcomeJSON(StateSuccess, `,"result":{"status":201,"reference":"pay_9","headers":{"x-a":["1","2"]},"content_type":"application/json","body":{"n": 1.00, "x":"<é>"},"incomplete":false}`))
}

// seen is a request as the service saw it.
type seen struct {
	method, path, body string
	query              url.Values
	header             http.Header
}

// service answers request n (from 0) with handlers[n], the last one repeated.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

func serve(t *testing.T, handlers ...http.HandlerFunc) (*service, *Client) {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, seen{r.Method, r.URL.EscapedPath(), string(body), r.URL.Query(), r.Header})
		s.mu.Unlock()
		handlers[min(n, len(handlers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, APIKey: "exk_secret"})
	if err != nil {
		t.Fatal(err)
	}
	c.backoff = func(_ int, asked time.Duration) time.Duration { return asked }
	return s, c
}

func (s *service) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func reply200(body string) http.HandlerFunc { return replyWith(200, "application/json", body) }

func replyWith(status int, media, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, code string, headers ...string) http.HandlerFunc {
	body := fmt.Sprintf(`{"type":"/problems/%[2]s","title":"T","status":%[1]d,"detail":"D","code":%[2]q,"request_id":"r1","errors":[{"pointer":"/body","code":"c","detail":"bad"}]}`, status, code)
	return replyWith(status, "application/problem+json", body, headers...)
}

// lost closes the connection after the request was read.
func lost(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNewChecksItsConfiguration(t *testing.T) {
	for _, cfg := range []Config{{}, {URL: "127.0.0.1:8080", APIKey: "k"}, {URL: "ftp://x", APIKey: "k"}, {URL: "http://", APIKey: "k"}, {URL: "http://x"}, {URL: "http://x", APIKey: "a b"}, {URL: "http://x", APIKey: "a\n"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v passes", cfg)
		}
	}
	c, err := New(Config{URL: "http://x", APIKey: "exk_secret"})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c, *c); strings.Contains(text, "exk_secret") {
		t.Errorf("the API key prints: %s", text)
	}
}

func TestSubmitOnTheWire(t *testing.T) {
	s, c := serve(t, replyWith(202, "application/json", pending()))
	body := `{ "amount": 12345678901234567890.10, "note": "<&>\u00e9" }`
	at := time.Date(2026, 12, 1, 0, 0, 0, 5, time.FixedZone("", 3600))
	got, err := c.Submit(background(t), Submission{
		Key: "k1", Upstream: "ledger", Operation: "create_payment", Params: map[string]string{"account": "a1"}, Query: map[string]string{"q": "1"},
		Headers: map[string]string{"X-H": "1"}, Body: json.RawMessage(body), Deadline: at, NotBefore: at, Priority: PriorityHigh,
		Metadata: map[string]string{"order": "42"}, Wait: 1500 * time.Millisecond,
	})
	if err != nil || got.Replayed || got.Command.ID != "0193-a" {
		t.Fatalf("%+v, %v", got, err)
	}
	r := s.all()[0]
	want := `{"body":` + body + `,"upstream":"ledger","operation":"create_payment","params":{"account":"a1"},"query":{"q":"1"},"headers":{"X-H":"1"},` +
		`"deadline":"2026-11-30T23:00:00.000000005Z","not_before":"2026-11-30T23:00:00.000000005Z","priority":"high","metadata":{"order":"42"}}`
	if r.method != "POST" || r.path != "/v1/commands" || r.body != want {
		t.Errorf("sent %s %s\n%s\nwant\n%s", r.method, r.path, r.body, want)
	}
	for name, want := range map[string]string{"Idempotency-Key": "k1", "Authorization": "Bearer exk_secret", "Prefer": "wait=2", "Content-Type": "application/json", "Accept": "application/json", "User-Agent": "executor-client"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestSubmitOtherBodies(t *testing.T) {
	s, c := serve(t, reply200(pending()))
	for _, sub := range []Submission{{BodyBytes: []byte("a\x00b"), ContentType: "text/plain", Timeout: 90 * time.Second}, {BodyBytes: []byte{}}, {}} {
		if _, err := c.Submit(background(t), sub); err != nil {
			t.Fatal(err)
		}
	}
	r := s.all()
	for i, want := range []string{`"body_base64":"YQBi","content_type":"text/plain","timeout":"1m30s"`, `"body_base64":""`, `{"upstream":"","operation":""}`} {
		if !strings.Contains(r[i].body, want) {
			t.Errorf("sent %s, want %s", r[i].body, want)
		}
	}
	if k := r[0].header.Get("Idempotency-Key"); len(k) < 20 || k == r[1].header.Get("Idempotency-Key") || r[0].header.Get("Prefer") != "" {
		t.Errorf("headers %v", r[0].header)
	}
}

// What can never be accepted is not sent, and is told from what went wrong on
// the way.
func TestWhatIsInvalidIsNotSent(t *testing.T) {
	s, c := serve(t, reply200(pending()))
	submit := func(sub Submission) error { _, err := c.Submit(background(t), sub); return err }
	preview := func(sub Submission) error { _, err := c.DryRun(background(t), sub); return err }
	batch := func(sub Submission) error { _, err := c.SubmitBatch(background(t), []Submission{sub}); return err }
	get := func(sub Submission) error { _, err := c.Get(background(t), sub.Key); return err }
	for _, tt := range []struct {
		sub   Submission
		field string
		calls []func(Submission) error
	}{
		{Submission{Key: "k", Body: []byte("{")}, "Body", []func(Submission) error{submit, preview, batch}},
		{Submission{Body: []byte("{}"), BodyBytes: []byte("x")}, "Body", []func(Submission) error{submit, preview, batch}},
		{Submission{Key: "é"}, "Key", []func(Submission) error{submit, preview}},
		{Submission{Key: "a\nb"}, "Key", []func(Submission) error{submit, preview}},
		{Submission{Key: strings.Repeat("k", 256)}, "Key", []func(Submission) error{submit, preview}},
		{Submission{}, "", []func(Submission) error{get}},
	} {
		for i, call := range tt.calls {
			var invalid *Invalid
			err := call(tt.sub)
			if !errors.As(err, &invalid) || invalid.Field != tt.field || !errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) || errors.As(err, new(*Unconfirmed)) {
				t.Errorf("%+v, call %d: %v", tt.sub, i, err)
			}
		}
	}
	if n := len(s.all()); n != 0 {
		t.Errorf("%d requests", n)
	}
	if err := submit(Submission{Key: strings.Repeat("k", 255)}); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}

func TestALostSubmitIsRepeatedWithTheSameKey(t *testing.T) {
	s, c := serve(t, lost, problem(503, "unavailable", "Retry-After", "0"), replyWith(502, "text/html", "<html>"), replyWith(504, "text/html", ""),
		replyWith(200, "application/json", pending(), "Idempotent-Replayed", "true"))
	got, err := c.Submit(background(t), Submission{Upstream: "ledger", Operation: "o", Body: []byte(`{"a":1}`)})
	if err != nil || !got.Replayed {
		t.Fatalf("%+v, %v", got, err)
	}
	all := s.all()
	if len(all) != 5 {
		t.Fatalf("%d requests", len(all))
	}
	for _, r := range all[1:] {
		if r.header.Get("Idempotency-Key") != all[0].header.Get("Idempotency-Key") || r.body != all[0].body {
			t.Errorf("a repeat differs: %+v", r)
		}
	}
}

func TestWhatIsNotKnownIsUnconfirmed(t *testing.T) {
	truncated := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "{")
	}
	tests := []struct {
		name     string
		handlers []http.HandlerFunc
		requests int
	}{
		{"away", []http.HandlerFunc{problem(503, "unavailable", "Retry-After", "0")}, 3},
		{"lost", []http.HandlerFunc{lost}, 3},
		{"cut", []http.HandlerFunc{truncated}, 3},
		{"our fault", []http.HandlerFunc{problem(500, "internal_error")}, 1},
		{"a proxy's refusal", []http.HandlerFunc{replyWith(403, "text/html", "<html>")}, 1},
		{"a page", []http.HandlerFunc{replyWith(200, "text/html", "<html>")}, 1},
		{"no command", []http.HandlerFunc{reply200(`[]`)}, 1},
		{"an unknown outcome", []http.HandlerFunc{reply200(fmt.Sprintf(commandJSON, "exploded", true, `{"state":"exploded"}`))}, 1},
		{"lost, then refused", []http.HandlerFunc{lost, problem(401, "unauthorized")}, 2},
		{"lost, then a redirect", []http.HandlerFunc{lost, replyWith(302, "text/html", "", "Location", "/login")}, 2},
	}
	for _, tt := range tests {
		s, c := serve(t, tt.handlers...)
		c.retries = 2
		_, err := c.Submit(background(t), Submission{Key: "k1"})
		var u *Unconfirmed
		if !errors.As(err, &u) || u.Key != "k1" || !strings.Contains(err.Error(), `"k1"`) || u.Err == nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if n := len(s.all()); n != tt.requests {
			t.Errorf("%s: %d requests, want %d", tt.name, n, tt.requests)
		}
	}
	for _, code := range []string{"backlog_full", "not_accepted"} {
		s, c := serve(t, problem(503, code, "Retry-After", "0"))
		c.retries = 2
		_, err := c.Submit(background(t), Submission{Key: "k1"}) // certainly not accepted, and asked again all the same
		if errors.As(err, new(*Unconfirmed)) || !errors.Is(err, ErrUnavailable) || len(s.all()) != 3 {
			t.Errorf("%s: %v after %d requests", code, err, len(s.all()))
		}
	}
	_, c := serve(t, lost)
	c.retries = -1
	if _, err := c.SubmitBatch(background(t), []Submission{{Key: "first"}, {}}); !errors.As(err, new(*Unconfirmed)) {
		t.Errorf("a lost batch: %v", err)
	}
}

func TestWhatWasRefusedIsAProblem(t *testing.T) {
	kinds := []error{ErrUnauthorized, ErrForbidden, ErrNotFound, ErrConflict, ErrInvalid, ErrKeyReused, ErrUnavailable}
	tests := []struct {
		status int
		code   string
		is     []error
	}{
		{400, "malformed_json", []error{ErrInvalid}},
		{401, "unauthorized", []error{ErrUnauthorized}},
		{403, "missing_scope", []error{ErrForbidden}},
		{404, "not_found", []error{ErrNotFound}},
		{409, "conflict", []error{ErrConflict}},
		{413, "body_too_large", []error{ErrInvalid}},
		{415, "unsupported_media_type", []error{ErrInvalid}},
		{422, "invalid_request", []error{ErrInvalid}},
		{422, "idempotency_key_reused", []error{ErrInvalid, ErrKeyReused}},
		{405, "method_not_allowed", nil},
	}
	for _, tt := range tests {
		s, c := serve(t, problem(tt.status, tt.code))
		_, err := c.Submit(background(t), Submission{Key: "k1"})
		var p *Problem
		if !errors.As(err, &p) || errors.As(err, new(*Unconfirmed)) || p.Status != tt.status || p.Code != tt.code || p.RequestID != "r1" || len(p.Errors) != 1 {
			t.Errorf("%d: %v", tt.status, err)
		}
		for _, kind := range kinds {
			if got := errors.Is(err, kind); got != slices.Contains(tt.is, kind) {
				t.Errorf("%d %s is %q: %v", tt.status, tt.code, kind, got)
			}
		}
		if n := len(s.all()); n != 1 {
			t.Errorf("%d: %d requests", tt.status, n)
		}
	}
}

func TestProblemText(t *testing.T) {
	p := &Problem{Status: 422, Code: "invalid_profile", Title: "T", Detail: "It does not hold.", RequestID: "r9", Errors: []FieldError{
		{Pointer: "/body", Detail: "a"}, {Parameter: "wait", Detail: "b"}, {Header: "Prefer", Detail: "c"}, {Line: 3, Column: 5, Detail: "d"}, {Detail: "e"}}}
	want := "422 invalid_profile: It does not hold.\n  /body: a\n  wait: b\n  header Prefer: c\n  3:5: d\n  e (request r9)"
	if p.Error() != want {
		t.Errorf("reads %q", p.Error())
	}
	if got := (&Problem{Status: 500, Title: "T"}).Error(); got != "500: T" {
		t.Errorf("reads %q", got)
	}
	_, c := serve(t, replyWith(404, "", "", "X-Request-Id", "r7"))
	_, err := c.Get(background(t), "x")
	var other *Problem
	if !errors.As(err, &other) || errors.Is(err, ErrNotFound) || other.RequestID != "r7" || !strings.Contains(err.Error(), "is the URL right") {
		t.Errorf("a 404 of something else: %v", err)
	}
}

func TestCommandIsReadWhole(t *testing.T) {
	_, c := serve(t, reply200(succeeded()))
	cmd, err := c.Get(background(t), "0193-a")
	if err != nil {
		t.Fatal(err)
	}
	if string(cmd.JSON()) != succeeded() {
		t.Errorf("the document changed: %s", cmd.JSON())
	}
	if again, err := json.Marshal(cmd); err != nil || !bytes.Contains(again, []byte("added_later")) {
		t.Errorf("marshals as %s, %v", again, err)
	}
	if none, err := json.Marshal(Command{}); err != nil || string(none) != "null" {
		t.Errorf("an empty command marshals as %s, %v", none, err)
	}
	at := func(text string) *time.Time { v, _ := time.Parse(time.RFC3339, text); return &v }
	want := Command{
		ID: "0193-a", State: StateSuccess, Final: true, Version: 7, Key: "k1", Upstream: "ledger", Operation: "create_payment", ProfileVersion: 3, Priority: PriorityNormal,
		CreatedAt: *at("2026-11-01T00:00:00Z"), Deadline: *at("2026-11-01T00:15:00Z"), NextAttemptAt: at("2026-11-01T00:01:00Z"), CancelRequested: true,
		Waiting: &Waiting{"backoff", at("2026-11-01T00:01:00Z")},
		Outcome: Success{Decision{"no_response", "max_attempts", "", "attempt", *at("2026-11-01T00:00:31Z"), 1, false, "lookup"},
			Result{201, "pay_9", http.Header{"X-A": {"1", "2"}}, "application/json", []byte(`{"n": 1.00, "x":"<é>"}`), false}},
		Record:         Record{2, "5xx", &Timeout{"response_header", *at("2026-11-01T00:00:30Z")}, 3012, &Identity{"header", "Idempotency-Key", "k1"}, "possibly_crossed"},
		Reconciliation: &Reconciliation{"lookup", 1, nil, 0, 2, "ann"}, Metadata: map[string]string{"order": "42"},
	}
	cmd.document = nil
	if !reflect.DeepEqual(cmd, want) {
		t.Errorf("read %+v\nwant %+v", cmd, want)
	}
}

func TestMatchTakesEveryOutcomeApart(t *testing.T) {
	tests := []struct {
		state State
		more  string
		want  string
	}{
		{StateSuccess, `,"result":{"status":200,"reference":null,"body_text":"plain","incomplete":true}`, "success plain true"},
		{StateSuccess, `,"result":{"status":200,"reference":null,"body_base64":"/w==","incomplete":false}`, "success \xff false"},
		{StateSuccess, ``, "success  false"},
		{StateRejected, `,"rejection":{"status":422,"code":"no_funds","message":null}`, "rejected 422 no_funds"},
		{StateRejected, ``, "rejected 0 "},
		{StateUnresolved, ``, "unresolved lookup"},
		{StateCancelled, ``, "cancelled true"},
	}
	for _, tt := range tests {
		_, c := serve(t, reply200(fmt.Sprintf(commandJSON, tt.state, true, outcomeJSON(tt.state, tt.more))))
		cmd, err := c.Get(background(t), "x")
		if err != nil {
			t.Fatal(err)
		}
		got := Match(cmd.Outcome,
			func(o Success) string { return fmt.Sprintf("success %s %t", o.Result.Body, o.Result.Incomplete) },
			func(o Rejected) string { return fmt.Sprintf("rejected %d %s", o.Rejection.Status, o.Rejection.Code) },
			func(o Unresolved) string { return "unresolved " + o.NextAction },
			func(o Cancelled) string { return fmt.Sprintf("cancelled %t", o.SafeToResubmit) },
		)
		if got != tt.want || cmd.Outcome.State() != tt.state || cmd.Outcome.Common().Reason != "no_response" {
			t.Errorf("%s: %q, want %q", tt.state, got, tt.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no outcome matched something")
		}
	}()
	Match(nil, func(Success) int { return 0 }, func(Rejected) int { return 0 }, func(Unresolved) int { return 0 }, func(Cancelled) int { return 0 })
}

func TestStatesAreFinalOrNot(t *testing.T) {
	for _, s := range States() {
		if s.Final() != !slices.Contains([]State{StatePending, StateExecuting}, s) {
			t.Errorf("%s: final %t", s, s.Final())
		}
	}
	if State("new").Final() {
		t.Error("an unknown state is final")
	}
}

func TestWaitPollsUntilFinal(t *testing.T) {
	s, c := serve(t, reply200(pending()), reply200(pending()), problem(503, "unavailable", "Retry-After", "0"), lost, reply200(succeeded()))
	cmd, err := c.Wait(background(t), "0193-a")
	if err != nil || cmd.State != StateSuccess {
		t.Fatalf("%+v, %v", cmd, err)
	}
	all := s.all()
	if all[0].query.Get("wait") != "" || all[1].query.Get("wait") == "" || all[1].path != "/v1/commands/0193-a" {
		t.Errorf("asked %+v", all)
	}
}

func TestWaitKeepsAskingWhileTheServiceIsAway(t *testing.T) {
	handlers := slices.Repeat([]http.HandlerFunc{problem(503, "unavailable", "Retry-After", "0")}, 4)
	s, c := serve(t, append(handlers, reply200(succeeded()))...)
	c.retries = -1
	if cmd, err := c.Wait(background(t), "x"); err != nil || !cmd.Final {
		t.Fatalf("%+v, %v", cmd, err)
	}
	if n := len(s.all()); n != 5 {
		t.Errorf("%d requests", n)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	answered := make(chan struct{}, 100)
	s, c := serve(t, reply200(pending()), func(w http.ResponseWriter, r *http.Request) {
		answered <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-answered; cancel() }()
	cmd, err := c.Wait(ctx, "x")
	if !errors.Is(err, context.Canceled) || cmd.State != StatePending {
		t.Errorf("%+v, %v", cmd, err)
	}
	if n := len(s.all()); n != 2 {
		t.Errorf("%d requests", n)
	}
	_, c = serve(t, reply200(pending()))
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if cmd, err := c.Wait(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || cmd.State != StatePending {
		t.Errorf("%+v, %v", cmd, err)
	}
	_, c = serve(t, problem(404, "not_found"))
	if _, err := c.Wait(background(t), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestRun(t *testing.T) {
	s, c := serve(t, replyWith(202, "application/json", pending()), reply200(pending()), reply200(succeeded()))
	cmd, err := c.Run(background(t), Submission{Key: "k1"})
	if err != nil || cmd.State != StateSuccess || s.all()[0].header.Get("Prefer") == "" {
		t.Errorf("%+v, %v", cmd, err)
	}
	s, c = serve(t, reply200(succeeded()))
	if cmd, err := c.Run(background(t), Submission{Key: "k1"}); err != nil || !cmd.Final || len(s.all()) != 1 {
		t.Errorf("%+v, %v", cmd, err)
	}
	_, c = serve(t, replyWith(202, "application/json", pending()), problem(403, "missing_scope"))
	if cmd, err := c.Run(background(t), Submission{Key: "k1"}); !errors.Is(err, ErrForbidden) || cmd.ID == "" {
		t.Errorf("%+v, %v", cmd, err)
	}
}

func TestWithin(t *testing.T) {
	if got := within(context.Background(), longestPoll); got != longestPoll {
		t.Errorf("without a deadline %s", got)
	}
	for left, want := range map[time.Duration]time.Duration{10500 * time.Millisecond: 10 * time.Second, 300 * time.Millisecond: time.Second, time.Hour: longestPoll} {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		if got := within(ctx, longestPoll); got != want {
			t.Errorf("with %s left %s, want %s", left, got, want)
		}
		cancel()
	}
}

func TestSubmitBatch(t *testing.T) {
	answer := fmt.Sprintf(`{"results":[{"index":2,"status":422,"problem":{"code":"invalid_request","detail":"no"}},{"index":0,"status":202,"command":%s},{"index":1,"status":200,"command":%s},{"index":9,"status":200}]}`, pending(), succeeded())
	s, c := serve(t, lost, reply200(answer))
	items := []Submission{{Key: "k1", Body: []byte(`{"a":  1}`)}, {}, {Key: "k3"}, {Key: "k4"}}
	got, err := c.SubmitBatch(background(t), items)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].Accepted.Replayed || !got[1].Accepted.Replayed || got[1].Accepted.Command.State != StateSuccess || !errors.Is(got[2].Err, ErrInvalid) || got[3].Err == nil {
		t.Errorf("results %+v", got)
	}
	all := s.all()
	if items[1].Key == "" || len(all) != 2 || all[0].body != all[1].body || all[0].path != "/v1/commands/batch" {
		t.Errorf("sent %+v", all)
	}
	want := `{"commands":[{"body":{"a":  1},"idempotency_key":"k1","upstream":"","operation":""},{"idempotency_key":"` + items[1].Key + `",`
	if !strings.HasPrefix(all[0].body, want) {
		t.Errorf("sent %s", all[0].body)
	}
	if got, err := c.SubmitBatch(background(t), nil); got != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", got, err)
	}
	if _, err := c.SubmitBatch(background(t), []Submission{{Body: []byte("{")}}); err == nil {
		t.Error("a broken body passes")
	}
	_, c = serve(t, reply200("[]"))
	if _, err := c.SubmitBatch(background(t), []Submission{{Key: "k1"}}); !errors.As(err, new(*Unconfirmed)) {
		t.Errorf("an unreadable answer: %v", err)
	}
}

func TestDryRun(t *testing.T) {
	answer := `{"dry_run":true,"request":{"method":"POST","url":"https://l/x","headers":[{"name":"A","value":"1"}],"content_type":"application/json","body":{"a": 1},"body_bytes":8},
		"deadline":"2026-11-01T00:15:00Z","profile_version":2,"operation_identity":{"in":"header","name":"Idempotency-Key","key":"k1"},"existing":` + pending() + `}`
	s, c := serve(t, reply200(answer))
	p, err := c.DryRun(background(t), Submission{Upstream: "ledger"})
	if err != nil || p.Request.Method != "POST" || string(p.Request.Body) != `{"a": 1}` || p.Request.Headers[0] != (Header{"A", "1"}) || p.Identity.Key != "k1" || p.Existing.State != StatePending || string(p.JSON()) != answer {
		t.Errorf("%+v, %v", p, err)
	}
	if r := s.all()[0]; r.query.Get("dry_run") != "true" || r.header.Get("Idempotency-Key") == "" {
		t.Errorf("sent %+v", r)
	}
	if _, err := c.DryRun(background(t), Submission{Key: "é"}); err == nil {
		t.Error("a bad key passes")
	}
}

func TestListGoesThroughAllPages(t *testing.T) {
	page := func(next string) http.HandlerFunc {
		return reply200(`{"data":[` + pending() + `,` + succeeded() + `],"next_cursor":` + next + `}`)
	}
	s, c := serve(t, page(`"c2"`), problem(503, "unavailable", "Retry-After", "0"), page(`"c3"`), page(`null`))
	filter := Filter{States: []State{StatePending, StateSuccess}, Upstream: "ledger", Operation: "o", Key: "k", Reference: "r", Metadata: map[string]string{"a": "1"},
		CreatedAfter: time.Unix(0, 0), CreatedBefore: time.Unix(1, 0), Limit: 2}
	n := 0
	for cmd, err := range c.List(background(t), filter) {
		if err != nil || cmd.ID == "" {
			t.Fatalf("%+v, %v", cmd, err)
		}
		n++
	}
	all := s.all()
	if n != 6 || len(all) != 4 || all[3].query.Get("cursor") != "c3" {
		t.Errorf("%d commands in %d requests, last %v", n, len(all), all[len(all)-1].query)
	}
	want := url.Values{"state": {"pending", "success"}, "upstream": {"ledger"}, "operation": {"o"}, "key": {"k"}, "reference": {"r"}, "metadata.a": {"1"},
		"created_after": {"1970-01-01T00:00:00Z"}, "created_before": {"1970-01-01T00:00:01Z"}, "limit": {"2"}}
	if !reflect.DeepEqual(all[0].query, want) {
		t.Errorf("asked %v, want %v", all[0].query, want)
	}
	for range c.List(background(t), Filter{}) {
		break
	}
	_, c = serve(t, page(`"c2"`), page(`"c2"`))
	var last error
	for _, err := range c.List(background(t), Filter{}) {
		last = err
	}
	if last == nil {
		t.Error("a cursor that does not move ends in no error")
	}
	_, c = serve(t, problem(400, "invalid_parameter"))
	for _, err := range c.List(background(t), Filter{}) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

func TestCancel(t *testing.T) {
	s, c := serve(t, lost, reply200(strings.Replace(pending(), "{", `{"cancel":"requested",`, 1)))
	got, err := c.Cancel(background(t), "0193-a")
	if err != nil || got.Result != CancelRequested || got.Command.ID != "0193-a" {
		t.Errorf("%+v, %v", got, err)
	}
	if r := s.all()[1]; r.method != "POST" || r.path != "/v1/commands/0193-a/cancel" || r.body != "" {
		t.Errorf("sent %+v", r)
	}
	_, c = serve(t, problem(404, "not_found"))
	if _, err := c.Cancel(background(t), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestAttemptsAndEvents(t *testing.T) {
	attempt := `{"number":1,"started_at":"2026-11-01T00:00:00Z","ended_at":null,"evidence":null,"answer":null,"status":null,"rule":null,"wait_ms":null,
		"request":{"method":"POST","url":"u","headers":[{"name":"A","value":"1"}],"bytes_total":9,"bytes_handed_over":3,"body_sha256":"s"},
		"response":{"headers":{"retry-after":["1"]},"body_text":"hm","truncated":true,"sha256":null,"bytes":7},
		"addresses":[{"address":"10.0.0.1:1","category":"connect_refused","detail":"d"}],"timings_ms":{"dns":1.5},"connection":null,"notes":["n"]}`
	s, c := serve(t, reply200(`{"data":[`+attempt+`],"next_cursor":null}`), reply200(`{"data":[]}`),
		reply200(`{"data":[{"id":"e1","number":1,"type":"command.accepted","at":"2026-11-01T00:00:00Z","sequence":0,"actor":null,"data":{"a": 1}}],"next_cursor":null}`))
	attempts, err := c.Attempts(background(t), "x")
	if err != nil || len(attempts) != 1 {
		t.Fatalf("%+v, %v", attempts, err)
	}
	a := attempts[0]
	if a.Number != 1 || a.EndedAt != nil || a.Evidence != "" || string(a.Response.Body) != "hm" || a.Response.Headers.Get("Retry-After") != "1" || a.Response.Bytes != 7 ||
		a.Addresses[0].Category != "connect_refused" || a.TimingsMS["dns"] != 1.5 || a.Connection != nil || a.Request.BytesHandedOver != 3 {
		t.Errorf("read %+v", a)
	}
	if raw, err := c.AttemptsJSON(background(t), "x"); err != nil || string(raw) != `{"data":[]}` {
		t.Errorf("%s, %v", raw, err)
	}
	events, err := c.Events(background(t), "x")
	if err != nil || len(events) != 1 || events[0].Type != "command.accepted" || string(events[0].Data) != `{"a": 1}` {
		t.Errorf("%+v, %v", events, err)
	}
	var paths []string
	for _, r := range s.all() {
		paths = append(paths, r.path)
	}
	if want := []string{"/v1/commands/x/attempts", "/v1/commands/x/attempts", "/v1/commands/x/events"}; !slices.Equal(paths, want) {
		t.Errorf("asked %v", paths)
	}
}

func TestFollowTakesUpABrokenStream(t *testing.T) {
	events := func(ids ...string) http.HandlerFunc {
		body := ": hello\n\n"
		for _, id := range ids {
			body += fmt.Sprintf("id: %s\nevent: t\ndata: {\"id\":%q,\"type\":\"t\"}\n\n", id, id)
		}
		return replyWith(200, "text/event-stream", body)
	}
	s, c := serve(t, events("e1", "e2"), lost, problem(503, "unavailable", "Retry-After", "0"), events(), events("e3"))
	var got []string
	for e, err := range c.Follow(background(t), "x") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.ID); e.ID == "e3" {
			break
		}
	}
	all := s.all()
	if !slices.Equal(got, []string{"e1", "e2", "e3"}) || all[0].header.Get("Last-Event-ID") != "" || all[4].header.Get("Last-Event-ID") != "e2" || all[0].header.Get("Accept") != "text/event-stream" {
		t.Errorf("got %v by %+v", got, all)
	}
	for name, h := range map[string]http.HandlerFunc{"refused": problem(404, "not_found"), "page": replyWith(200, "text/html", ""), "garbage": replyWith(200, "text/event-stream", "data: {\n\n")} {
		_, c := serve(t, h)
		var last error
		for _, last = range c.Follow(background(t), "x") {
		}
		if last == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		events()(w, r)
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	for e, err := range c.Follow(ctx, "x") {
		t.Errorf("after the end: %+v, %v", e, err)
	}
}

func TestUpstreams(t *testing.T) {
	upstream := `{"name":"ledger","tenant":"default","version":2,"operations":["o"],"paused":{"at":"2026-11-01T00:00:00Z","by":"ops","reason":"r"},"profile":"version: 1","warnings":[{"code":"c","line":1}],"changed":true}`
	s, c := serve(t, reply200(`{"data":[`+upstream+`]}`), reply200(upstream), replyWith(201, "application/json", upstream), reply200(upstream), reply200(upstream),
		replyWith(200, "text/plain; charset=utf-8", "table"), reply200(`{"m": 1}`))
	ctx := background(t)
	all, err := c.Upstreams(ctx)
	if err != nil || len(all) != 1 || all[0].Paused.By != "ops" {
		t.Fatalf("%+v, %v", all, err)
	}
	one, err := c.Upstream(ctx, "ledger")
	if err != nil || one.Profile != "version: 1" || one.Warnings[0].Line != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	if put, err := c.PutUpstream(ctx, "ledger", []byte("version: 1\n")); err != nil || !put.Changed {
		t.Errorf("%+v, %v", put, err)
	}
	if _, err := c.PauseUpstream(ctx, "ledger", `say "why"`); err != nil {
		t.Error(err)
	}
	if _, err := c.ResumeUpstream(ctx, "ledger", "over"); err != nil {
		t.Error(err)
	}
	if text, err := c.Explain(ctx, "ledger"); err != nil || text != "table" {
		t.Errorf("%q, %v", text, err)
	}
	if m, err := c.ExplainJSON(ctx, "ledger"); err != nil || string(m) != `{"m": 1}` {
		t.Errorf("%s, %v", m, err)
	}
	want := []string{"GET /v1/upstreams ", "GET /v1/upstreams/ledger ", "PUT /v1/upstreams/ledger version: 1\n", `POST /v1/upstreams/ledger/pause {"reason":"say \"why\""}`,
		`POST /v1/upstreams/ledger/resume {"reason":"over"}`, "GET /v1/upstreams/ledger/explain ", "GET /v1/upstreams/ledger/explain "}
	var got []string
	for _, r := range s.all() {
		got = append(got, r.method+" "+r.path+" "+r.body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
	if media := s.all()[2].header.Get("Content-Type"); media != "application/yaml" {
		t.Errorf("a profile was sent as %s", media)
	}
}

func TestDeployment(t *testing.T) {
	s, c := serve(t, reply200(`{"id":"prod","process_id":"prod","frozen":true,"frozen_at":"2026-11-01T00:00:00Z","frozen_by":"ops","frozen_reason":"r","doubtful":true}`))
	ctx := background(t)
	for _, ask := range []func() (Deployment, error){
		func() (Deployment, error) { return c.Deployment(ctx) }, func() (Deployment, error) { return c.Freeze(ctx, "r") },
		func() (Deployment, error) { return c.Resume(ctx) }, func() (Deployment, error) { return c.Adopt(ctx) },
	} {
		if d, err := ask(); err != nil || d.ID != "prod" || !d.Frozen || d.FrozenAt == nil || !d.Doubtful {
			t.Errorf("%+v, %v", d, err)
		}
	}
	var got []string
	for _, r := range s.all() {
		got = append(got, r.method+" "+r.path+" "+r.body)
	}
	if want := []string{"GET /v1/deployment ", `POST /v1/deployment/freeze {"reason":"r"}`, "POST /v1/deployment/resume ", "POST /v1/deployment/adopt "}; !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
}

// What sets a state that another may have changed meanwhile is sent once.
func TestWhatIsNotSafeToRepeatIsSentOnce(t *testing.T) {
	s, c := serve(t, problem(503, "unavailable", "Retry-After", "0"))
	ctx := background(t)
	_, err1 := c.PutUpstream(ctx, "ledger", nil)
	_, err2 := c.PauseUpstream(ctx, "ledger", "r")
	_, err3 := c.ResumeUpstream(ctx, "ledger")
	_, err4 := c.Freeze(ctx, "r")
	_, err5 := c.Resume(ctx)
	_, err6 := c.Adopt(ctx)
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		var p *Problem
		if !errors.As(err, &p) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if n := len(s.all()); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
}

func TestNamesStayInTheirSegment(t *testing.T) {
	s, c := serve(t, reply200(pending()))
	for _, id := range []string{"a/b", "..", ".", "a?b#c", "a b", "%2F"} {
		if _, err := c.Get(background(t), id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	var got []string
	for _, r := range s.all() {
		got = append(got, r.path)
	}
	if want := []string{"/v1/commands/a%2Fb", "/v1/commands/%2E%2E", "/v1/commands/%2E", "/v1/commands/a%3Fb%23c", "/v1/commands/a%20b", "/v1/commands/%252F"}; !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
	for _, call := range []func() error{
		func() error { _, err := c.Get(background(t), ""); return err },
		func() error { _, err := c.Cancel(background(t), ""); return err },
		func() error { _, err := c.Upstream(background(t), ""); return err },
	} {
		if call() == nil {
			t.Error("an empty name was asked for")
		}
	}
	if n := len(s.all()); n != len(got) {
		t.Errorf("%d requests", n)
	}
}

func TestBaseURLKeepsItsPath(t *testing.T) {
	s, _ := serve(t, reply200(pending()))
	for _, suffix := range []string{"/executor", "/executor/"} {
		c, err := New(Config{URL: s.URL + suffix, APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(background(t), "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.all() {
		if r.path != "/executor/v1/commands/x" {
			t.Errorf("asked %s", r.path)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other, _ := serve(t, reply200(pending()))
	_, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	var p *Problem
	if _, err := c.Get(background(t), "x"); !errors.As(err, &p) || p.Status != 307 || len(other.all()) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfterIsHonouredWithinTheContext(t *testing.T) {
	s, c := serve(t, problem(503, "unavailable", "Retry-After", "3600"))
	if _, err := c.Get(background(t), "x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := len(s.all()); n != 1 {
		t.Errorf("%d requests: the wait does not fit into the context", n)
	}
	now := time.Now()
	for value, want := range map[string]time.Duration{"": -1, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": -1, "soon": -1, "99999999999999999999": -1,
		now.Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour, "Fri, 31 Dec 1999 23:59:59 GMT": 0} {
		got := retryAfter(value, now)
		if diff := (want - got).Abs(); diff > time.Second || (want <= 0 && got != want) {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
	for n := 1; n < 70; n++ {
		if got := backoff(n, 0); got < 0 || got > longBackoff {
			t.Errorf("try %d waits %s", n, got)
		}
		if got := backoff(n, time.Minute); got != time.Minute {
			t.Errorf("try %d waits %s although a minute was asked for", n, got)
		}
	}
}

func TestAServiceThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := New(Config{URL: "http://" + l.Addr().String(), APIKey: "k", Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(background(t), "x"); err == nil || errors.As(err, new(*Problem)) || errors.As(err, new(errUncertain)) {
		t.Errorf("got %T %v", err, err)
	}
	if _, err := c.Submit(background(t), Submission{Key: "k1"}); err == nil || errors.As(err, new(*Unconfirmed)) {
		t.Errorf("a submit that was never sent: %v", err)
	}
}

func TestABadCertificateIsNotTriedAgain(t *testing.T) {
	server := httptest.NewUnstartedServer(reply200(pending()))
	accepted := 0
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted++
		}
	}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	c, err := New(Config{URL: server.URL, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(background(t), Submission{Key: "k1"}); err == nil || errors.As(err, new(*Unconfirmed)) {
		t.Errorf("an unknown authority: %v", err)
	}
	server.Close()
	if accepted != 1 {
		t.Errorf("%d connections", accepted)
	}
}

func TestEachTryIsBounded(t *testing.T) {
	s, c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, reply200(pending()))
	c.timeout = 50 * time.Millisecond
	if _, err := c.Submit(background(t), Submission{Key: "k1"}); err != nil {
		t.Errorf("got %v", err)
	}
	if n := len(s.all()); n != 2 {
		t.Errorf("%d requests", n)
	}
}
