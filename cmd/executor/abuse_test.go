package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// knock is a request of somebody behind a proxy.
func knock(t *testing.T, method, address, client string, form url.Values, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", client)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestServeBoundsThoseWhoAsk: the settings reach what they are for, and behind a
// trusted proxy clients are told apart, keys and sign-ins.
func TestServeBoundsThoseWhoAsk(t *testing.T) {
	d := newDeployment(t)
	p := d.serve("--roles", "api,web", "--trusted-proxies", "127.0.0.0/8", "--address-rate", "4", "--key-rate", "20", "--backlog", "2")
	d.apply()
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		for n, want := range []int{401, 401, 401, 401, 429, 429} {
			status, body := knock(t, http.MethodGet, p.URL()+"/v1/commands", client, nil, "Authorization", "Bearer exk_guess")
			if status != want {
				t.Errorf("guess %d of %s: %d %s", n, client, status, body)
			}
		}
	}
	for _, key := range []string{"a", "b"} {
		d.execute("submit", "--upstream", "ledger", "--operation", "create_payment", "--key", key, "--param", "account=a1", "--body", `{"amount":1}`).must(t, exitSuccess)
	}
	bearer := []string{"Authorization", "Bearer " + d.env["EXECUTOR_API_KEY"], "Content-Type", "application/json", "Idempotency-Key", "c"}
	submit := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/v1/commands",
			strings.NewReader(`{"upstream":"ledger","operation":"create_payment","params":{"account":"a1"},"body":{"amount":1}}`))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(bearer); i += 2 {
			req.Header.Set(bearer[i], bearer[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, body := submit(); status != 503 || !strings.Contains(body, "backlog_full") {
		t.Errorf("a third of two commands: %d %s", status, body)
	}
	for deadline := time.Now().Add(patience); ; {
		if status, _ := submit(); status == 429 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a key may ask as often as it likes")
		}
	}
	guessPasswords(t, p.URL())
	if log := p.Log("backlog full: submissions are refused"); log["tenant"] != "default" {
		t.Errorf("%v", log)
	}
}

// guessPasswords makes an address wait, and no other.
func guessPasswords(t *testing.T, base string) {
	t.Helper()
	guess := func(name, client string) int {
		status, _ := knock(t, http.MethodPost, base+"/sign-in", client, url.Values{"name": {name}, "password": {"not the password"}})
		return status
	}
	for n := range 20 { // the names differ: none of them is what slows down
		if status := guess("nobody"+string(rune('a'+n)), "198.51.100.1"); status != 401 {
			t.Fatalf("guess %d: %d", n, status)
		}
	}
	if status := guess("somebody", "198.51.100.1"); status != 429 {
		t.Errorf("after twenty guesses: %d", status)
	}
	if status := guess("somebody", "6.6.6.6, 198.51.100.1"); status != 429 {
		t.Errorf("an address that the client wrote itself is believed: %d", status)
	}
	if status := guess("somebody", "198.51.100.2"); status != 401 {
		t.Errorf("another client: %d", status)
	}
}
