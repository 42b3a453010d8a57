package simulator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = 10 * time.Second

// start serves a simulator for the length of the test.
func start(t testing.TB, cfg Config) (*Simulator, string) {
	t.Helper()
	s := New(cfg)
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, strings.TrimPrefix(url, "http://")
}

// raw is a connection on which the test writes bytes and reads responses.
type raw struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &raw{c, t, bufio.NewReader(c)}
}

func (c *raw) write(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// request writes a whole request with the header lines given.
func (c *raw) request(method, path, body string, headers ...string) {
	c.t.Helper()
	c.write(encode(method, path, body, headers...))
}

func encode(method, path, body string, headers ...string) string {
	lines := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: sim\r\n", method, path)
	for _, h := range headers {
		lines += h + "\r\n"
	}
	if body != "" {
		lines += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return lines + "\r\n" + body
}

type response struct {
	*http.Response
	body    []byte
	bodyErr error
}

func (c *raw) response() (response, error) {
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(res.Body)
	return response{res, body, err}, nil
}

func (c *raw) want(status int) response {
	c.t.Helper()
	res, err := c.response()
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode != status {
		c.t.Fatalf("answered %d %s, want %d", res.StatusCode, res.body, status)
	}
	return res
}

// ask sends one request on a connection of its own.
func ask(t testing.TB, addr, method, path, body string, headers ...string) (response, error) {
	t.Helper()
	c := dial(t, addr)
	c.request(method, path, body, headers...)
	return c.response()
}

func wantStatus(t testing.TB, status int) func(response, error) response {
	return func(res response, err error) response {
		t.Helper()
		if err != nil || res.StatusCode != status {
			t.Fatalf("got %+v %s, %v; want %d", res.Response, res.body, err, status)
		}
		return res
	}
}

// wantNone expects the connection to end without an answer.
func wantNone(t testing.TB, _ response, err error) {
	t.Helper()
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want the end of the connection", err)
	}
}

func wantEffects(t testing.TB, s *Simulator, key string, n int) {
	t.Helper()
	if got := s.Effects(key); len(got) != n {
		t.Fatalf("%d effects of %q, want %d", len(got), key, n)
	}
}

func await(t testing.TB, s *Simulator, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Wait(ctx, ok); err != nil {
		t.Fatal(err)
	}
}

func member(t testing.TB, body []byte, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s has no %v", body, path)
		}
		v = m[name]
	}
	return v
}

const (
	payments = "/v1/accounts/a1/payments"
	pay100   = `{"amount":100,"client_reference":"ref-1"}`
)

func TestAPaymentThatWorks(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	body := `{"amount":12345678901234567890.10,"client_reference":"ref-1"}`
	c.request("POST", payments, body, `Idempotency-Key: "k1"`, "Authorization: Bearer secret", "X-Api-Key: secret", "Cookie: a=b")
	res := c.want(http.StatusCreated)
	if id := member(t, res.body, "id"); id != "pay_1" || res.Header.Get("Location") != "/v1/payments/pay_1" || member(t, res.body, "state") != "done" {
		t.Errorf("answered %s, %v", res.body, res.Header)
	}
	if !bytes.Contains(res.body, []byte("12345678901234567890.10")) {
		t.Errorf("the amount changed its digits: %s", res.body)
	}
	c.request("GET", "/v1/payments/pay_1", "")
	c.want(http.StatusOK)

	requests := s.Requests("k1")
	if len(requests) != 1 {
		t.Fatalf("%d requests", len(requests))
	}
	r, sum := requests[0], sha256.Sum256([]byte(body))
	if r.Method != "POST" || r.Path != payments || r.Reference != "ref-1" || string(r.Body) != body || r.BodySHA256 != hex.EncodeToString(sum[:]) ||
		!r.Complete || r.Status != 201 || r.AnswerBytes == 0 || r.EndedAt == nil || r.Connection != 1 || r.Attempt != 1 || res.Header.Get("Sim-Request") != fmt.Sprint(r.Number) {
		t.Errorf("the ledger says %+v", r)
	}
	for _, name := range credentials {
		if got := r.Headers.Get(name); got != "" && got != "[redacted]" {
			t.Errorf("%s is kept: %s", name, got)
		}
	}
	effects := s.Effects("k1")
	if len(effects) != 1 || effects[0].ID != "pay_1" || effects[0].Request != r.Number || string(effects[0].Body) != body {
		t.Errorf("effects %+v", effects)
	}
	for _, key := range []string{"ref-1", payments, ""} {
		wantEffects(t, s, key, 1)
	}
	if last := s.Requests(""); last[len(last)-1].Connection != 1 {
		t.Error("the second request counts as another connection")
	}
}

func TestChargesAndAccounts(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	c.request("POST", "/v1/charges", `{"amount":1}`, "Idempotency-Key: c1")
	if res := c.want(201); member(t, res.body, "object") != "charge" || member(t, res.body, "client_reference") != "c1" {
		t.Errorf("answered %s", res.body)
	}
	c.request("GET", "/v1/charges?key=c1", "")
	if res := c.want(200); len(member(t, res.body, "items").([]any)) != 1 {
		t.Errorf("found %s", res.body)
	}
	c.request("GET", "/v1/accounts/a9", "")
	c.want(404)
	for range 2 {
		c.request("PUT", "/v1/accounts/a9", `{"name":"x"}`)
		c.want(200)
	}
	wantEffects(t, s, "/v1/accounts/a9", 2)
	for behavior, status := range map[string]int{"status=200;commit=false": 200, "status=500": 500, "commit,status=500": 500} {
		c.request("PUT", "/v1/accounts/a8", `{}`, "Sim-Behavior: "+behavior)
		c.want(status)
	}
	wantEffects(t, s, "/v1/accounts/a8", 1)
	c.request("GET", "/v1/accounts/a9", "")
	if res := c.want(200); member(t, res.body, "data", "name") != "x" {
		t.Errorf("answered %s", res.body)
	}
	for _, path := range []string{"/v1/payments/none", "/v2", "/v1/accounts", "/v1/accounts/a/b/c"} {
		c.request("GET", path, "")
		c.want(404)
	}
	c.request("POST", "/", `{}`)
	c.want(404)
	c.request("HEAD", "/v1/none", "")
	if res, err := http.ReadResponse(c.r, &http.Request{Method: "HEAD"}); err != nil || res.StatusCode != 404 {
		t.Errorf("HEAD: %v %v", res, err)
	}
	c.request("GET", "/", "")
	c.want(200)
}

// What a behaviour leaves on the wire and in the books, for the first attempt and
// for a second one with the same key, both asking for it.
func TestBehaviors(t *testing.T) {
	const none = 0
	tests := []struct {
		behavior string
		first    int // status; none: the connection ended without an answer
		effects  int // after the first
		second   int
		after    int // effects after the second
	}{
		{"", 201, 1, 201, 1},
		{"commit", 201, 1, 201, 1},
		{"drop", none, 0, none, 0},
		{"reset", none, 0, none, 0},
		{"commit,drop", none, 1, none, 1},
		{"drop;commit", none, 1, none, 1},
		{"commit=true;reset", none, 1, none, 1},
		{"times=1;commit,drop", none, 1, 201, 1},
		{"times=1;drop", none, 0, 201, 1},
		{"first=1;status=503", 503, 0, 201, 1},
		{"status=503", 503, 0, 503, 0},
		{"status=503;commit=true", 503, 1, 503, 1},
		{"times=1;status=503;commit", 503, 1, 201, 1},
		{"times=1;status=500;store_errors", 500, 0, 500, 0},
		{"times=1;status=500;store_errors;commit", 500, 1, 500, 1},
		{"times=1;status=422", 422, 0, 201, 1},
		{"status=200", 200, 1, 200, 1},
		{"status=204", 204, 1, 204, 1},
		{"status=201;commit=false", 201, 0, 201, 0},
		{"commit=false", 503, 0, 503, 0},
		{"status=429;retry_after=7", 429, 0, 429, 0},
		{"html", 200, 0, 200, 0},
		{"html;commit", 200, 1, 200, 1},
		{"html;status=502", 502, 0, 502, 0},
		{"redirect", 302, 0, 302, 0},
		{"redirect=/x;status=307;commit", 307, 1, 307, 1},
		{"replay=off", 201, 1, 201, 2},
		{"replay=off;commit,drop", none, 1, none, 2},
		{"replay=on", 201, 1, 201, 1},
		{"pending", 202, 0, 202, 0},
		{"stall=1ms", 201, 1, 201, 1},
		{"commit,stall=1ms", 201, 1, 201, 1},
		{"stall=1ms,drop", none, 0, none, 0},
		{"close", 201, 1, 201, 1},
		{"gzip", 201, 1, 201, 1},
		{"leftover", 201, 1, 201, 1},
		{"expired_token", 401, 0, 401, 0},
		{"effect_after=1h", 201, 0, 409, 0},
		{"effect_after=1h;drop", none, 0, 409, 0},
		{"effect_after=1h;status=503", 503, 0, 409, 0},
	}
	for _, tt := range tests {
		for _, by := range []string{"header", "body"} {
			t.Run(tt.behavior+" by "+by, func(t *testing.T) {
				s, addr := start(t, Config{})
				body, headers := pay100, []string{"Idempotency-Key: k1"}
				if by == "header" {
					headers = append(headers, "Sim-Behavior: "+tt.behavior)
				} else {
					body = fmt.Sprintf(`{"amount":100,"sim":%q}`, tt.behavior)
				}
				for i, want := range []struct{ status, effects int }{{tt.first, tt.effects}, {tt.second, tt.after}} {
					res, err := ask(t, addr, "POST", payments, body, headers...)
					if want.status == none {
						wantNone(t, res, err)
					} else {
						wantStatus(t, want.status)(res, err)
					}
					wantEffects(t, s, "k1", want.effects)
					inForce := tt.behavior
					if i > 0 && (strings.HasPrefix(inForce, "times=1") || strings.HasPrefix(inForce, "first=1")) {
						inForce = ""
					}
					if r := s.Requests("k1")[i]; r.Status != want.status || r.EndedAt == nil || (r.AnswerBytes == 0) != (want.status == none) || r.Behavior != inForce || r.Attempt != i+1 {
						t.Errorf("attempt %d is in the ledger as %+v", i+1, r)
					}
				}
			})
		}
	}
}

func TestReplayAnswersTheSame(t *testing.T) {
	s, addr := start(t, Config{})
	first := wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
	second := wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
	if !bytes.Equal(first.body, second.body) || second.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("first %s, then %s %v", first.body, second.body, second.Header)
	}
	if r := s.Requests("k1"); r[0].Replayed || !r[1].Replayed {
		t.Errorf("the ledger says %+v", r)
	}
	wantStatus(t, 422)(ask(t, addr, "POST", payments, `{"amount":200}`, "Idempotency-Key: k1"))
	wantStatus(t, 422)(ask(t, addr, "POST", "/v1/charges", pay100, "Idempotency-Key: k1"))
	wantEffects(t, s, "k1", 1)
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100))
	wantEffects(t, s, "ref-1", 3)
}

func TestTheKeyMayStandElsewhere(t *testing.T) {
	s, addr := start(t, Config{})
	wantStatus(t, 201)(ask(t, addr, "POST", payments+"?idempotency_key=q1", pay100))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"idempotency_key":"b1"}`))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"idempotency_key":"b1"}`))
	wantEffects(t, s, "q1", 1)
	wantEffects(t, s, "b1", 1)
	wantStatus(t, 201)(ask(t, addr, "GET", "/v1/none", "", "Sim-Reference: r9", "Sim-Behavior: status=201"))
	if len(s.Requests("r9")) != 1 {
		t.Error("a reference in the header is not in the ledger")
	}
}

func TestAFormSaysTheSame(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	// What curl -d sends without being told the type.
	c.write("POST /v1/charges HTTP/1.1\r\nHost: sim\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 20\r\n\r\n" + `{"sim":"status=418"}`)
	c.want(418)
	form := "amount=100&client_reference=f1&sim=status%3D503%3Bcommit"
	c.write(fmt.Sprintf("POST /v1/charges HTTP/1.1\r\nHost: sim\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form))
	c.want(503)
	if e := s.Effects("f1"); len(e) != 1 || string(e[0].Body) != form {
		t.Errorf("effects %+v", e)
	}
}

func TestRetentionEnds(t *testing.T) {
	s, addr := start(t, Config{})
	deadline := time.Now().Add(patience)
	for len(s.Effects("k1")) < 2 && time.Now().Before(deadline) {
		wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: retention=20ms"))
	}
	wantEffects(t, s, "k1", 2)
}

func TestAConcurrentDuplicateIsTold(t *testing.T) {
	s, addr := start(t, Config{})
	stalled := dial(t, addr)
	stalled.request("POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: times=1;stall")
	await(t, s, func() bool { r := s.Requests("k1"); return len(r) == 1 && r[0].Attempt == 1 })
	res := wantStatus(t, 409)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: times=1;stall"))
	if member(t, res.body, "error", "code") != "in_progress" || res.Header.Get("Retry-After") == "" {
		t.Errorf("answered %s %v", res.body, res.Header)
	}
	// The stalled client goes: nothing took place, and the key is free again.
	stalled.Close()
	await(t, s, func() bool { return s.Requests("k1")[0].EndedAt != nil })
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: times=1;stall"))
	wantEffects(t, s, "k1", 1)
}

func TestStallsWithoutEnd(t *testing.T) {
	tests := []struct {
		behavior string
		effects  int
	}{{"stall", 0}, {"commit,stall", 1}, {"stall;commit=false", 0}, {"early;stall", 0}}
	for _, tt := range tests {
		s, addr := start(t, Config{})
		c := dial(t, addr)
		c.request("POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: "+tt.behavior)
		await(t, s, func() bool {
			r := s.Requests("k1")
			return len(r) == 1 && r[0].Attempt == 1 && len(s.Effects("k1")) == tt.effects
		})
		if s.Requests("k1")[0].EndedAt != nil {
			t.Errorf("%s ended by itself", tt.behavior)
		}
		c.Close()
		await(t, s, func() bool { return s.Requests("k1")[0].EndedAt != nil })
		wantEffects(t, s, "k1", tt.effects)
	}
}

func TestCloseEndsAStall(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	c.request("POST", payments, pay100, "Sim-Behavior: stall=1h")
	await(t, s, func() bool { return len(s.Requests("")) == 1 })
	s.Close()
	res, err := c.response()
	wantNone(t, res, err)
	wantEffects(t, s, "", 0)
	if _, err := s.Listen("127.0.0.1:0"); !errors.Is(err, ErrClosed) {
		t.Errorf("Listen after Close: %v", err)
	}
}

func TestTheEffectMayComeLate(t *testing.T) {
	for _, how := range []string{"effect_after=30ms", "effect_after=30ms;drop", "effect_after=30ms;status=504"} {
		s, addr := start(t, Config{})
		_, _ = ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: "+how)
		await(t, s, func() bool { return len(s.Effects("k1")) == 1 })
		wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
		wantEffects(t, s, "k1", 1)
		if e, r := s.Effects("k1")[0], s.Requests("k1")[0]; !e.Time.After(*r.EndedAt) {
			t.Errorf("%s: effect at %s, answer at %s", how, e.Time, r.EndedAt)
		}
		wantStatus(t, 200)(ask(t, addr, "PUT", "/v1/accounts/late", `{}`, "Sim-Behavior: effect_after=1ms"))
		await(t, s, func() bool { return len(s.Effects("/v1/accounts/late")) == 1 })
	}
}

func TestAPendingPaymentFinishes(t *testing.T) {
	s, addr := start(t, Config{})
	res := wantStatus(t, 202)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: pending=20ms"))
	link := res.Header.Get("Location")
	if member(t, res.body, "state") != "pending" || link != "/v1/payments/pay_1" {
		t.Errorf("answered %s %v", res.body, res.Header)
	}
	await(t, s, func() bool { return len(s.Effects("k1")) == 1 })
	if res := wantStatus(t, 200)(ask(t, addr, "GET", link, "")); member(t, res.body, "state") != "done" {
		t.Errorf("the link says %s", res.body)
	}
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
	wantEffects(t, s, "k1", 1)

	wantStatus(t, 202)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k2", "Sim-Behavior: pending"))
	if res := wantStatus(t, 200)(ask(t, addr, "GET", "/v1/payments?key=k2", "")); !bytes.Contains(res.body, []byte(`"pending"`)) {
		t.Errorf("found %s", res.body)
	}
	wantEffects(t, s, "k2", 0)
}

func TestSearchLags(t *testing.T) {
	s, addr := start(t, Config{})
	found := func(query string) int {
		res := wantStatus(t, 200)(ask(t, addr, "GET", "/v1/payments?"+query, ""))
		return len(member(t, res.body, "items").([]any))
	}
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"client_reference":"soon"}`, "Idempotency-Key: k1", "Sim-Behavior: lag=30ms"))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"client_reference":"later"}`, "Idempotency-Key: k2", "Sim-Behavior: lag=1h"))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"client_reference":"never"}`, "Idempotency-Key: k3", "Sim-Behavior: lag"))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"client_reference":"now"}`, "Idempotency-Key: k4"))
	wantEffects(t, s, "", 4)
	for query, want := range map[string]int{"client_reference=later": 0, "key=k2": 0, "client_reference=never": 0, "client_reference=now": 1, "key=k4": 1, "key=k4&client_reference=soon": 0} {
		if got := found(query); got != want {
			t.Errorf("%s finds %d, want %d", query, got, want)
		}
	}
	for deadline := time.Now().Add(patience); found("client_reference=soon") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the lag never ends")
		}
	}
	wantStatus(t, 200)(ask(t, addr, "GET", "/v1/payments/pay_2", "")) // by its own id at once
}

func TestTruncate(t *testing.T) {
	_, addr := start(t, Config{})
	for _, n := range []int{0, 10} {
		res := wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, fmt.Sprintf("Sim-Behavior: truncate=%d", n)))
		if len(res.body) != n || !errors.Is(res.bodyErr, io.ErrUnexpectedEOF) || res.ContentLength <= 10 {
			t.Errorf("%d of %d bytes, %v", len(res.body), res.ContentLength, res.bodyErr)
		}
	}
	res := wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Sim-Behavior: truncate=100000"))
	if res.bodyErr != nil {
		t.Errorf("a body shorter than the cut came as %v", res.bodyErr)
	}
}

func TestReset(t *testing.T) {
	_, addr := start(t, Config{})
	if _, err := ask(t, addr, "POST", payments, pay100, "Sim-Behavior: commit,reset"); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestGzip(t *testing.T) {
	_, addr := start(t, Config{})
	for how, good := range map[string]bool{"gzip": true, "gzip=broken": false} {
		res := wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Sim-Behavior: "+how))
		if res.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("headers %v", res.Header)
		}
		var plain []byte
		r, err := gzip.NewReader(bytes.NewReader(res.body))
		if err == nil {
			plain, err = io.ReadAll(r)
		}
		if (err == nil) != good || good && !json.Valid(plain) {
			t.Errorf("%s: %q, %v", how, plain, err)
		}
	}
}

func TestHeadersOfAnswers(t *testing.T) {
	_, addr := start(t, Config{})
	tests := []struct{ behavior, header, want string }{
		{"status=429;retry_after=7", "Retry-After", "7"},
		{"status=503;retry_after=Fri 31 Dec 1999 23:59:59 GMT", "Retry-After", "Fri 31 Dec 1999 23:59:59 GMT"},
		{"redirect", "Location", "/v1/elsewhere"},
		{"redirect=http://127.0.0.1:1/x;status=308", "Location", "http://127.0.0.1:1/x"},
		{"html", "Content-Type", "text/html; charset=utf-8"},
		{"close", "Connection", ""},
	}
	for _, tt := range tests {
		c := dial(t, addr)
		c.request("POST", payments, pay100, "Sim-Behavior: "+tt.behavior)
		res, err := c.response()
		if err != nil || res.Header.Get(tt.header) != tt.want {
			t.Errorf("%s: %v, %v", tt.behavior, res.Header, err)
		}
		if tt.behavior == "close" && !res.Close {
			t.Error("the connection is not announced to close")
		}
	}
}

func TestLeftoverAnswerComesUnasked(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	c.request("POST", payments, pay100, "Sim-Behavior: leftover")
	c.want(201)
	if res := c.want(200); member(t, res.body, "id") != "leftover" {
		t.Errorf("then came %s", res.body)
	}
	c.request("POST", payments, pay100)
	c.want(201)
	if r := s.Requests(""); len(r) != 2 || r[0].Connection != r[1].Connection {
		t.Errorf("the ledger says %+v", r)
	}
}

func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	whole := encode("POST", payments, strings.Repeat("x", 1000), "Idempotency-Key: k1", "Sim-Behavior: early")
	c.write(whole[:len(whole)-900])
	c.want(201)
	if r := s.Requests("k1")[0]; r.Complete || r.Status != 201 {
		t.Errorf("before the body the ledger says %+v", r)
	}
	wantEffects(t, s, "k1", 1)
	c.write(whole[len(whole)-900:])
	await(t, s, func() bool { return s.Requests("k1")[0].Complete })
	c.request("POST", payments, pay100) // the connection goes on
	c.want(201)

	c.request("POST", payments, pay100, "Idempotency-Key: k2", "Sim-Behavior: early;status=413;close")
	c.want(413)
	wantEffects(t, s, "k2", 0)

	// After an early answer the client need not send the body it held back.
	c = dial(t, addr)
	c.write("POST " + payments + " HTTP/1.1\r\nHost: sim\r\nExpect: 100-continue\r\nContent-Length: 10\r\nSim-Behavior: early\r\n\r\n")
	c.want(201)
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("then %v, want the end", err)
	}
}

func TestExpectContinue(t *testing.T) {
	_, addr := start(t, Config{})
	c := dial(t, addr)
	c.write("POST /v1/charges HTTP/1.1\r\nHost: sim\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if line, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := c.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	c.write("{}")
	c.want(201)
}

func TestExpiredToken(t *testing.T) {
	s, addr := start(t, Config{})
	token := func() string {
		body := "grant_type=client_credentials&client_id=a&client_secret=canary"
		res := wantStatus(t, 200)(ask(t, addr, "POST", "/oauth/token", body, "Idempotency-Key: t"))
		if member(t, res.body, "token_type") != "Bearer" || member(t, res.body, "expires_in") != 3600.0 {
			t.Errorf("answered %s", res.body)
		}
		return "Authorization: Bearer " + member(t, res.body, "access_token").(string)
	}
	old := token()
	send := func(auth string) (response, error) {
		return ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: expired_token", auth)
	}
	res := wantStatus(t, 401)(send(old))
	if !strings.Contains(res.Header.Get("WWW-Authenticate"), "invalid_token") {
		t.Errorf("headers %v", res.Header)
	}
	wantStatus(t, 401)(send(old))
	wantStatus(t, 401)(send("Authorization: Bearer made-up"))
	wantStatus(t, 401)(send("X: y"))
	wantStatus(t, 201)(send(token()))
	wantEffects(t, s, "k1", 1)
	ledger, _ := json.Marshal(s.Requests(""))
	if strings.Contains(string(ledger), "canary") || strings.Contains(string(ledger), "sim-token") {
		t.Errorf("credentials are in the ledger: %s", ledger)
	}
}

func TestUnknownBehaviorIsRefused(t *testing.T) {
	s, addr := start(t, Config{})
	for _, text := range []string{"explode", "status=99", "status=600", "status=abc", "stall=-1s", "stall=soon", "times=0", "truncate=-1", "gzip=zip", "replay=maybe", "drop=2", "effect_after", "retention"} {
		res := wantStatus(t, 400)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: "+text))
		if member(t, res.body, "error", "code") != "unknown_behavior" {
			t.Errorf("%s: %s", text, res.body)
		}
		wantStatus(t, 400)(ask(t, addr, "POST", payments, fmt.Sprintf(`{"sim":%q}`, text)))
	}
	c := dial(t, addr)
	for range 2 { // the connection goes on behind the body
		c.request("POST", payments, pay100, "Sim-Behavior: explode")
		c.want(400)
	}
	wantEffects(t, s, "", 0)
	if _, err := ParseBehavior("retry_after=a\r\nb"); err == nil {
		t.Error("a line end passes into a header")
	}
}

func TestBehaviorsByPath(t *testing.T) {
	s, addr := start(t, Config{})
	if err := s.Behave("/v1/charges", "times=1;status=503"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, 200)(ask(t, addr, "PUT", "/_behavior", `{"/v1/":"status=500", "/v1/accounts/a1":"status=502;commit"}`))
	wantStatus(t, 500)(ask(t, addr, "POST", "/v1/charges", `{}`))
	wantStatus(t, 502)(ask(t, addr, "POST", payments, pay100))
	wantStatus(t, 500)(ask(t, addr, "GET", "/v1/payments/pay_1", ""))
	wantStatus(t, 200)(ask(t, addr, "POST", "/oauth/token", `{}`))
	wantStatus(t, 503)(ask(t, addr, "POST", payments, pay100, "Sim-Behavior: status=503"))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"sim":"commit"}`))
	for _, body := range []string{`{"v1":"drop"}`, `{"/v1":"explode"}`, `[]`, `{`} {
		wantStatus(t, 400)(ask(t, addr, "PUT", "/_behavior", body))
	}
	if res := wantStatus(t, 200)(ask(t, addr, "GET", "/_behavior", "")); member(t, res.body, "/v1/") != "status=500" {
		t.Errorf("set is %s", res.body)
	}
	wantStatus(t, 204)(ask(t, addr, "DELETE", "/_behavior", ""))
	wantStatus(t, 201)(ask(t, addr, "POST", "/v1/charges", `{}`))
}

func TestLedgerOverHTTP(t *testing.T) {
	_, addr := start(t, Config{})
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
	wantStatus(t, 201)(ask(t, addr, "POST", "/v1/charges", "not json", "Idempotency-Key: k2"))
	wantStatus(t, 201)(ask(t, addr, "POST", "/v1/charges", "\xff\xfe", "Idempotency-Key: k3"))
	for path, want := range map[string]int{
		"/_ledger": 3, "/_ledger?key=k1": 1, "/_ledger?key=ref-1": 1, "/_ledger?path=/v1/ch": 2, "/_ledger?key=k1&path=/v1/ch": 0, "/_ledger?limit=2": 2,
		"/_ledger/effects": 3, "/_ledger/effects?key=k2": 1, "/_ledger/effects?path=/v1/accounts": 1, "/_ledger/effects?limit=0": 0,
	} {
		res := wantStatus(t, 200)(ask(t, addr, "GET", path, ""))
		if got := len(member(t, res.body, "data").([]any)); got != want {
			t.Errorf("%s lists %d, want %d", path, got, want)
		}
	}
	wantStatus(t, 400)(ask(t, addr, "GET", "/_ledger?limit=x", ""))
	wantStatus(t, 404)(ask(t, addr, "POST", "/_ledger", `{}`))
	res := wantStatus(t, 200)(ask(t, addr, "GET", "/_ledger/effects?limit=3", ""))
	var list struct{ Data []struct{ Body any } }
	if err := json.Unmarshal(res.body, &list); err != nil || list.Data[1].Body != "not json" || list.Data[2].Body != "//4=" {
		t.Errorf("%s, %v", res.body, err)
	}
	wantStatus(t, 204)(ask(t, addr, "DELETE", "/_ledger", ""))
	if res := wantStatus(t, 200)(ask(t, addr, "GET", "/_ledger", "")); member(t, res.body, "total") != 0.0 {
		t.Errorf("after DELETE %s", res.body)
	}
	wantStatus(t, 404)(ask(t, addr, "GET", "/v1/payments/pay_1", ""))
}

func TestResetForgetsWhatWasStillToCome(t *testing.T) {
	s, addr := start(t, Config{})
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: effect_after=5ms"))
	s.Reset()
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k2", "Sim-Behavior: effect_after=20ms"))
	await(t, s, func() bool { return len(s.Effects("k2")) == 1 })
	wantEffects(t, s, "k1", 0)
}

func TestPartialRequestsAreInTheLedger(t *testing.T) {
	s, addr := start(t, Config{})
	whole := encode("POST", payments, pay100, "Idempotency-Key: k1", "Authorization: Bearer canary")
	tests := []struct {
		bytes             int
		method, path, key string
		bodyBytes         int64
	}{
		{2, "", "", "", 0},
		{len("POST " + payments + " HTTP/1.1\r\n"), "POST", payments, "", 0},
		{strings.Index(whole, "k1") + 1, "POST", payments, "", 0},
		{strings.Index(whole, "Content-Type"), "POST", payments, "k1", 0},
		{strings.Index(whole, "{") + 5, "POST", payments, "k1", 5},
	}
	for i, tt := range tests {
		c := dial(t, addr)
		c.write(whole[:tt.bytes])
		c.Conn.(*net.TCPConn).CloseWrite()
		await(t, s, func() bool { r := s.Requests(""); return len(r) == i+1 && r[i].EndedAt != nil })
		r := s.Requests("")[i]
		if r.Complete || r.Method != tt.method || r.Path != tt.path || r.Key != tt.key || r.BodyBytes != tt.bodyBytes || r.Status != 0 {
			t.Errorf("%d bytes are in the ledger as %+v", tt.bytes, r)
		}
	}
	dial(t, addr).Close() // not a single byte: not a request
	ledger, _ := json.Marshal(s.Requests(""))
	if strings.Contains(string(ledger), "canary") {
		t.Errorf("credentials are in the ledger: %s", ledger)
	}
	wantEffects(t, s, "", 0)
}

func TestMalformedRequests(t *testing.T) {
	s, addr := start(t, Config{})
	for _, text := range []string{"nonsense\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n", "GET / HTTP/1.1\r\nA: " + strings.Repeat("x", headBytes) + "\r\n"} {
		c := dial(t, addr)
		go io.WriteString(c, text)
		c.want(400)
	}
	if n := len(s.Requests("")); n != 3 {
		t.Errorf("%d requests in the ledger", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s, addr := start(t, Config{MaxEntries: 3, BodyBytes: 4})
	c := dial(t, addr)
	for i := range 5 {
		c.request("POST", payments, pay100, fmt.Sprintf("Idempotency-Key: k%d", i))
		c.want(201)
	}
	requests, effects := s.Requests(""), s.Effects("")
	if len(requests) != 3 || len(effects) != 3 || requests[0].Key != "k2" || effects[2].Key != "k4" {
		t.Errorf("kept %d requests from %s, %d effects", len(requests), requests[0].Key, len(effects))
	}
	if string(requests[0].Body) != pay100[:4] || requests[0].BodyBytes != int64(len(pay100)) {
		t.Errorf("kept %q of %d", requests[0].Body, requests[0].BodyBytes)
	}
	if s.payments.order.Len() != 3 || len(s.keys.byKey) != 3 || len(s.attempts.byKey) != 3 {
		t.Error("the rest grows without bound")
	}
	res := wantStatus(t, 200)(ask(t, addr, "GET", "/_ledger", ""))
	if member(t, res.body, "dropped") != 4.0 {
		t.Errorf("the ledger says %s", res.body)
	}
}

func TestManyAtOnceWithOneKey(t *testing.T) {
	s, addr := start(t, Config{})
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			res, err := ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: stall=1ms")
			if err != nil || res.StatusCode != 201 && res.StatusCode != 409 {
				t.Errorf("%v %v", res.Response, err)
			}
		})
	}
	all.Wait()
	wantEffects(t, s, "k1", 1)
}

func TestAsAHandlerOfAnotherServer(t *testing.T) {
	s := New(Config{})
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	c := dial(t, addr)
	for i := range 2 {
		c.request("POST", payments, pay100, fmt.Sprintf("Idempotency-Key: k%d", i))
		c.want(201)
	}
	c.write("POST /v1/charges HTTP/1.1\r\nHost: sim\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	c.want(201)
	c = dial(t, addr)
	c.write("POST /v1/charges HTTP/1.1\r\nHost: sim\r\nIdempotency-Key: k9\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.write("2\r\n{}\r\n0\r\n\r\n")
	c.want(201)
	wantNone(t, response{}, func() error {
		_, err := ask(t, addr, "POST", payments, pay100, "Sim-Behavior: drop")
		return err
	}())
	if r := s.Requests("k9"); len(r) != 1 || !r[0].Complete || string(r[0].Body) != "{}" {
		t.Errorf("the ledger says %+v", r)
	}
}

func TestHelpAndManualNameEveryStep(t *testing.T) {
	manual, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	help := Help("http://127.0.0.1:9911")
	for _, s := range Steps() {
		row := fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(s[0], "|", `\|`), s[1])
		if !strings.Contains(help, s[0]) || !strings.Contains(string(manual), row) {
			t.Errorf("%s is missing in the help, or in the manual as %s", s[0], row)
		}
	}
}
