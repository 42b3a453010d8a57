package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// found is what the search of payments says.
func found(t testing.TB, addr, query string) []any {
	t.Helper()
	res := wantStatus(t, 200)(ask(t, addr, "GET", "/v1/payments?"+query, ""))
	return member(t, res.body, "items").([]any)
}

func TestAPendingPaymentEndsWhenItWasAskedFor(t *testing.T) {
	for _, how := range []struct {
		more, end string
		effects   int
	}{{"", "done", 1}, {";errored", "errored", 0}} {
		s, addr := start(t, Config{})
		res := wantStatus(t, 202)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: pending=2"+how.more))
		for i, want := range []string{"pending", "pending", how.end, how.end} {
			got := wantStatus(t, 200)(ask(t, addr, "GET", res.Header.Get("Location"), ""))
			if member(t, got.body, "state") != want {
				t.Errorf("question %d: %s, want %s", i+1, got.body, want)
			}
		}
		wantEffects(t, s, "k1", how.effects)
		wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
		if c := s.Counts("k1"); c != (Counts{Commands: 2, Replayed: 1, Lookups: 4, Effects: how.effects}) {
			t.Errorf("counted %+v", c)
		}
	}
}

func TestLinksOfPendingPayments(t *testing.T) {
	_, addr := start(t, Config{})
	tests := []struct{ behavior, header, want string }{
		{"pending=1", "Location", "/v1/payments/pay_1"},
		{"pending=1;link=Operation-Location", "Operation-Location", "/v1/payments/pay_2"},
		{"pending=1;link_to=/jobs/{id}?full=1", "Location", "/jobs/pay_3?full=1"},
		{"pending=1;link=none", "Location", ""},
		{"pending=1;link=body", "Location", ""},
		{"pending=1;link_to=http://elsewhere.example/{id}", "Location", "http://elsewhere.example/pay_6"},
	}
	for _, tt := range tests {
		res := wantStatus(t, 202)(ask(t, addr, "POST", payments, pay100, "Sim-Behavior: "+tt.behavior))
		if got := res.Header.Get(tt.header); got != tt.want {
			t.Errorf("%s: %s is %q, want %q", tt.behavior, tt.header, got, tt.want)
		}
		if inBody := bytes.Contains(res.body, []byte(`"link":`)); inBody != strings.Contains(tt.behavior, "body") {
			t.Errorf("%s: %s", tt.behavior, res.body)
		}
		if strings.HasPrefix(tt.want, "/") {
			wantStatus(t, 200)(ask(t, addr, "GET", tt.want, ""))
		}
	}
	wantStatus(t, 404)(ask(t, addr, "GET", "/jobs/pay_3", ""))
}

func TestAnErroredPaymentCanBeFound(t *testing.T) {
	s, addr := start(t, Config{})
	res := wantStatus(t, 402)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: errored"))
	if member(t, res.body, "state") != "errored" || member(t, res.body, "error", "code") != "card_declined" {
		t.Errorf("answered %s", res.body)
	}
	_, err := ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k2", "Sim-Behavior: errored;drop")
	wantNone(t, response{}, err)
	for _, key := range []string{"k1", "k2"} {
		if items := found(t, addr, "key="+key); len(items) != 1 || items[0].(map[string]any)["state"] != "errored" {
			t.Errorf("found %v", items)
		}
	}
	wantEffects(t, s, "", 0)
}

func TestWhatSearchesFind(t *testing.T) {
	_, addr := start(t, Config{})
	make := func(key, behavior string) {
		wantStatus(t, 201)(ask(t, addr, "POST", payments, `{"amount":100}`, "Idempotency-Key: "+key, "Sim-Behavior: "+behavior))
	}
	make("many", "copies=3")
	make("other", "amount=7")
	make("gone", "vanish=1")
	items := found(t, addr, "key=many")
	if len(items) != 3 || items[0].(map[string]any)["id"] == items[1].(map[string]any)["id"] {
		t.Errorf("many are %v", items)
	}
	if items := found(t, addr, "key=other"); items[0].(map[string]any)["amount"] != 7.0 {
		t.Errorf("the other amount is %v", items)
	}
	if n := len(found(t, addr, "key=gone")); n != 1 {
		t.Errorf("found %d before it vanishes", n)
	}
	if n := len(found(t, addr, "key=gone")); n != 0 {
		t.Errorf("found %d after it vanished", n)
	}
	wantStatus(t, 404)(ask(t, addr, "GET", "/v1/payments/pay_3", ""))

	day := time.Now().UTC().Truncate(24 * time.Hour)
	for query, want := range map[string]int{
		"account=a1": 4, "account=a2": 0,
		"created_after=" + day.Add(-time.Hour).Format(time.RFC3339):   4,
		"created_before=" + day.Add(-time.Hour).Format(time.RFC3339):  0,
		"created_after=" + day.Add(48*time.Hour).Format(time.RFC3339): 0,
	} {
		if got := len(found(t, addr, query)); got != want {
			t.Errorf("%s finds %d, want %d", query, got, want)
		}
	}
	wantStatus(t, 400)(ask(t, addr, "GET", "/v1/payments?created_after=yesterday", ""))
}

func TestSilenceThenTheEffect(t *testing.T) {
	s, addr := start(t, Config{})
	c := dial(t, addr)
	c.request("POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: stall;effect_after=20ms")
	await(t, s, func() bool { return len(s.Effects("k1")) == 1 })
	if s.Requests("k1")[0].EndedAt != nil {
		t.Error("it was answered")
	}
}

// A command says what the questions about it meet, each command for itself.
func TestLookupsMeetWhatTheirCommandAskedFor(t *testing.T) {
	s, addr := start(t, Config{})
	pay := func(key, behavior string) {
		body := fmt.Sprintf(`{"client_reference":"ref-%s"}`, key)
		_, _ = ask(t, addr, "POST", payments, body, "Idempotency-Key: "+key, "Sim-Behavior: "+behavior)
	}
	pay("k1", "commit,drop;lookup.status=500;lookup.times=2")
	pay("k2", "commit,drop;lookup.redirect=/login")
	pay("k3", "drop;lookup.drop")
	pay("k4", "vanish=1;lookup.times=1;lookup.status=403")
	for _, want := range []int{500, 500, 200, 200} {
		wantStatus(t, want)(ask(t, addr, "GET", "/v1/payments?key=k1", ""))
	}
	wantStatus(t, 500)(ask(t, addr, "GET", "/v1/payments?client_reference=ref-k1", ""))
	wantStatus(t, 500)(ask(t, addr, "GET", "/v1/payments/pay_1", ""))
	if res := wantStatus(t, 302)(ask(t, addr, "GET", "/v1/payments/pay_2", "")); res.Header.Get("Location") != "/login" {
		t.Errorf("headers %v", res.Header)
	}
	res, err := ask(t, addr, "GET", "/v1/payments?key=k3", "")
	wantNone(t, res, err)
	wantStatus(t, 403)(ask(t, addr, "GET", "/v1/payments?key=k4", ""))
	if len(found(t, addr, "key=k4")) != 1 || len(found(t, addr, "key=k4")) != 0 {
		t.Error("a hidden answer counts as found")
	}
	wantStatus(t, 200)(ask(t, addr, "PUT", "/v1/accounts/a9", `{}`, "Sim-Behavior: lookup.status=401"))
	wantStatus(t, 401)(ask(t, addr, "GET", "/v1/accounts/a9", ""))
	for key, want := range map[string]Counts{
		"k1": {Commands: 1, Lookups: 5, Effects: 1}, "ref-k1": {Commands: 1, Lookups: 2, Effects: 1}, "k3": {Commands: 1, Lookups: 1},
	} {
		if got := s.Counts(key); got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	if n := len(s.Lookups("")); n != 12 {
		t.Errorf("%d lookups", n)
	}
	if len(s.Requests("k1")) != 1 {
		t.Error("lookups are among the requests of a key")
	}
}

func TestBehaviorsByMethod(t *testing.T) {
	s, addr := start(t, Config{})
	for prefix, behavior := range map[string]string{"GET /v1/charges": "status=500", "/v1/charges": "close", "GET /v1/": "status=502"} {
		if err := s.Behave(prefix, behavior); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, 500)(ask(t, addr, "GET", "/v1/charges?key=a", ""))
	wantStatus(t, 502)(ask(t, addr, "GET", "/v1/payments?key=a", ""))
	wantStatus(t, 201)(ask(t, addr, "POST", "/v1/charges", `{}`))
	if err := s.Behave("GET", "drop"); err == nil {
		t.Error("a method alone is taken")
	}
}

func TestDoubtOverHTTP(t *testing.T) {
	_, addr := start(t, Config{})
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1"))
	found(t, addr, "key=k1")
	found(t, addr, "key=k2")
	res := wantStatus(t, 200)(ask(t, addr, "GET", "/_ledger/counts?key=k1", ""))
	if string(bytes.TrimSpace(res.body)) != `{"commands":1,"replayed":0,"lookups":1,"effects":1}` {
		t.Errorf("counts are %s", res.body)
	}
	res = wantStatus(t, 200)(ask(t, addr, "GET", "/_ledger/lookups?key=k1", ""))
	if list := member(t, res.body, "data").([]any); len(list) != 1 || list[0].(map[string]any)["kind"] != "lookup" {
		t.Errorf("lookups are %s", res.body)
	}
}

// webhook is a delivery signed as ours are.
func webhook(id, secret string, at time.Time, body string) []string {
	var lines []string
	for name, values := range (signature{scheme: schemeStandard, secrets: []string{secret}, at: at}).headers(id, []byte(body)) {
		lines = append(lines, name+": "+values[0])
	}
	return lines
}

func TestHooksRecordWebhooks(t *testing.T) {
	s, addr := start(t, Config{})
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	wantStatus(t, 200)(ask(t, addr, "PUT", "/_hooks/shop", `{"behavior":"times=1;status=503;retry_after=1","secret":"`+secret+`"}`))
	for _, want := range []int{503, 200} {
		wantStatus(t, want)(ask(t, addr, "POST", "/_hooks/shop", `{"sim":"drop"}`, webhook("msg_1", secret, time.Now(), `{"sim":"drop"}`)...))
	}
	wantStatus(t, 503)(ask(t, addr, "POST", "/_hooks/shop", `{}`, webhook("msg_2", "other", time.Now(), `{}`)...))
	wantStatus(t, 503)(ask(t, addr, "POST", "/_hooks/shop", `{}`, webhook("msg_3", secret, time.Now().Add(-time.Hour), `{}`)...))
	wantStatus(t, 200)(ask(t, addr, "POST", "/_hooks/any", `{}`, "Sim-Behavior: close"))
	list := s.Deliveries("shop")
	if len(list) != 4 || list[1].Key != "msg_1" || list[1].Attempt != 2 || string(list[1].Body) != `{"sim":"drop"}` || list[0].Headers.Get("Webhook-Signature") == "" {
		t.Fatalf("came %+v", list)
	}
	for i, want := range []bool{true, true, false, false} {
		if v := list[i].Verified; v == nil || *v != want {
			t.Errorf("delivery %d verified: %v, want %v", i+1, v, want)
		}
	}
	if any := s.Deliveries("any"); len(any) != 1 || any[0].Verified != nil || len(s.Deliveries("")) != 5 || len(s.Requests("")) != 0 {
		t.Errorf("others are %+v", any)
	}
	res := wantStatus(t, 200)(ask(t, addr, "GET", "/_hooks/shop", ""))
	if n := len(member(t, res.body, "data").([]any)); n != 4 {
		t.Errorf("%d are listed", n)
	}
	wantStatus(t, 204)(ask(t, addr, "DELETE", "/_hooks/shop", ""))
	if len(s.Deliveries("shop")) != 0 || len(s.Deliveries("any")) != 1 {
		t.Error("forgot the wrong ones")
	}
	for _, body := range []string{`{"behavior":"explode"}`, `[]`} {
		wantStatus(t, 400)(ask(t, addr, "PUT", "/_hooks/shop", body))
	}
	wantStatus(t, 404)(ask(t, addr, "PATCH", "/_hooks/shop", `{}`))
}

func TestAnEndlessBody(t *testing.T) {
	s, addr := start(t, Config{})
	if err := s.SetHook("slow", "endless", ""); err != nil {
		t.Fatal(err)
	}
	c := dial(t, addr)
	c.request("POST", "/_hooks/slow", `{}`)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil || res.StatusCode != 200 || res.ContentLength != -1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if n, err := io.CopyN(io.Discard, res.Body, 50_000); err != nil {
		t.Fatalf("%d bytes, then %v", n, err)
	}
	c.Close()
	await(t, s, func() bool { return s.Deliveries("slow")[0].AnswerBytes > 50_000 })
}

func TestNoticesAreSigned(t *testing.T) {
	s, addr := start(t, Config{})
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	if err := s.SetHook("in", "", secret); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, 200)(ask(t, addr, "PUT", "/_notices", `{"url":"http://`+addr+`/_hooks/in","secret":"`+secret+`"}`))
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Idempotency-Key: k1", "Sim-Behavior: notice"))
	await(t, s, func() bool { return len(s.Deliveries("in")) == 1 && len(s.Notices()) == 1 })
	first := s.Deliveries("in")[0]
	if !*first.Verified || member(t, first.Body, "data", "idempotency_key") != "k1" || member(t, first.Body, "type") != "payment.done" || member(t, first.Body, "data", "client_reference") != "ref-1" {
		t.Errorf("came %s", first.Body)
	}
	send := func(n string, want int) []Request {
		t.Helper()
		before := len(s.Deliveries("in"))
		wantStatus(t, 202)(ask(t, addr, "POST", "/_notices", n))
		await(t, s, func() bool { return len(s.Deliveries("in")) == before+want && len(s.Notices()) == before+want })
		return s.Deliveries("in")[before:]
	}
	for _, d := range send(`{"payment":"k1","id":"evt_x","copies":3,"at_once":true,"after":"1ms"}`, 3) {
		if d.Key != "evt_x" || !*d.Verified {
			t.Errorf("a copy is %+v", d)
		}
	}
	swapped := send(`{"payment":"pay_1","states":["done","pending"]}`, 2)
	if member(t, swapped[0].Body, "data", "state") != "done" || member(t, swapped[1].Body, "data", "state") != "pending" || swapped[0].Key == swapped[1].Key {
		t.Errorf("out of order came %s, %s", swapped[0].Body, swapped[1].Body)
	}
	for _, n := range []string{`{"payment":"k1","wrong_signature":true}`, `{"payment":"k1","shift":"-10m"}`, `{"payment":"k1","secret":"whsec_b3RoZXI="}`} {
		if d := send(n, 1)[0]; *d.Verified {
			t.Errorf("%s is verified", n)
		}
	}
	if d := send(`{"payment":"nobody","secrets":["whsec_b3RoZXI=","`+secret+`"]}`, 1)[0]; !*d.Verified || member(t, d.Body, "data", "client_reference") != "nobody" {
		t.Errorf("of an unknown payment came %s", d.Body)
	}
	if d := send(`{"scheme":"hmac-sha256","secret":"s","header":"Sig","body":{"a":1}}`, 1)[0]; !strings.HasPrefix(d.Headers.Get("Sig"), "t=") || string(d.Body) != `{"a":1}` {
		t.Errorf("came %+v", d)
	}
	if d := send(`{"scheme":"hmac-sha256","secret":"s","header":"Sig","timestamp_header":"At","payment":"k1"}`, 1)[0]; len(d.Headers.Get("Sig")) != 64 || d.Headers.Get("At") == "" {
		t.Errorf("came %+v", d)
	}
	if sent := s.Notices(); slices.ContainsFunc(sent, func(n SentNotice) bool { return n.Status != 200 }) {
		t.Errorf("sent %+v", sent)
	}
}

func TestNoticesGoNowhereElse(t *testing.T) {
	s, addr := start(t, Config{})
	for _, n := range []string{
		`{}`, `[]`, `{"url":"http://192.0.2.1/","secret":"s"}`, `{"url":"http://example.com/","secret":"s"}`, `{"url":"ftp://127.0.0.1/","secret":"s"}`,
		`{"url":"http://127.0.0.1:1/"}`, `{"url":"http://127.0.0.1:1/","secret":"s","scheme":"rot13"}`, `{"url":"http://127.0.0.1:1/","secret":"s","after":"soon"}`,
		`{"url":"http://127.0.0.1:1/","secret":"s","copies":9999}`,
	} {
		wantStatus(t, 400)(ask(t, addr, "POST", "/_notices", n))
	}
	wantStatus(t, 400)(ask(t, addr, "PUT", "/_notices", `{"url":"http://10.0.0.1/","secret":"s"}`))
	// Without a receiver the step is told of, and nothing is sent.
	wantStatus(t, 201)(ask(t, addr, "POST", payments, pay100, "Sim-Behavior: notice"))
	await(t, s, func() bool { return len(s.Notices()) == 1 })
	if n := s.Notices()[0]; n.Error == "" || n.Status != 0 {
		t.Errorf("sent %+v", n)
	}
	if _, err := s.Notify(Notice{Receiver: Receiver{URL: "http://127.0.0.1:1/", Secret: "s"}, Payment: "p"}); err != nil {
		t.Fatal(err)
	}
	await(t, s, func() bool { return len(s.Notices()) == 2 })
	list, _ := json.Marshal(s.Notices())
	if !strings.Contains(string(list), "connection refused") {
		t.Errorf("sent %s", list)
	}
}
