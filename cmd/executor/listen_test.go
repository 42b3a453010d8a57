package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

const hookEvent = `{"type": "command.success", "timestamp": "2026-12-01T10:00:00Z", "data": {"id": "c1", "idempotency_key": "order-1", "sequence": 2,
	"previous_state": "unresolved", "outcome": {"state": "success", "reason": "applied", "stopped_by": "max_attempts", "decided_by": "lookup", "decided_at": "2026-12-01T10:00:00Z"}}}`

// deliverTo sends an event, signed by the reference library, and gives the status.
func deliverTo(t *testing.T, url, secret string) int {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := signer.Sign("e1", now, []byte(hookEvent))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(hookEvent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Webhook-Id", "e1")
	req.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	req.Header.Set("Webhook-Signature", signature)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// receive runs the receiver and gives its URL.
func receive(t *testing.T, args ...string) (url string, stdout, stderr *transcript, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stdout, stderr = newTranscript(), newTranscript()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"webhooks", "listen", "--port", "0"}, args...),
			world{in: strings.NewReader(""), out: stdout, err: stderr, getenv: func(string) string { return "" }})
	}()
	t.Cleanup(cancel)
	stop = func() int { cancel(); return <-ended }
	at := regexp.MustCompile(`at (http://\S+) until`)
	if !stderr.await(at.MatchString) {
		t.Fatalf("it does not listen: %s", stderr)
	}
	return at.FindStringSubmatch(stderr.String())[1], stdout, stderr, stop
}

func TestListen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(hookSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stdout, stderr, stop := receive(t, "--secret", "@"+file)
	if status := deliverTo(t, url, hookSecret); status != http.StatusNoContent {
		t.Errorf("status %d", status)
	}
	if status := deliverTo(t, url, "whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32)))); status != http.StatusUnauthorized {
		t.Errorf("forged: status %d", status)
	}
	if code := stop(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	want := "2026-12-01T10:00:00Z  command.success     e1  command c1, key order-1, sequence 2: unresolved → success (applied; no further attempt because of max_attempts)\n"
	if stdout.String() != want || !strings.Contains(stderr.String(), "refused POST / from 127.0.0.1") || !strings.Contains(stderr.String(), "no signature fits") {
		t.Errorf("stdout %q\nstderr %q", stdout, stderr)
	}
}

// What verifies is handed on as it came, and the answer is handed back.
func TestListenForwards(t *testing.T) {
	var got *http.Request
	var body []byte
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer app.Close()
	url, stdout, _, stop := receive(t, "--secret", hookSecret, "--forward-to", app.URL+"/hooks", "--output", "json")
	if status := deliverTo(t, url, hookSecret); status != http.StatusTeapot {
		t.Errorf("status %d", status)
	}
	stop()
	if got.URL.Path != "/hooks" || string(body) != hookEvent || got.Header.Get("Webhook-Id") != "e1" || got.Header.Get("Webhook-Signature") == "" {
		t.Errorf("forwarded %v %s", got.Header, body)
	}
	line := decode[struct {
		ID       string `json:"webhook_id"`
		Answered int
		Event    struct{ Type string }
	}](t, stdout.String())
	if line.ID != "e1" || line.Answered != http.StatusTeapot || line.Event.Type != "command.success" {
		t.Errorf("printed %s", stdout)
	}
}

func TestListenToNobody(t *testing.T) {
	app := httptest.NewServer(http.NotFoundHandler())
	app.Close()
	url, stdout, _, stop := receive(t, "--secret", hookSecret, "--forward-to", app.URL)
	if status := deliverTo(t, url, hookSecret); status != http.StatusBadGateway {
		t.Errorf("status %d", status)
	}
	stop()
	if !strings.Contains(stdout.String(), "refused)") {
		t.Errorf("printed %s", stdout)
	}
}
