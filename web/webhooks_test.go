package web_test

import (
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/web"
	"executor/webhooks"
)

// receiver is a program that webhooks tell of outcomes.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	answer string
	got    []*http.Request
	bodies []string
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, r.answer)
	}))
	t.Cleanup(r.Close)
	return r
}

// answers sets what it answers from now on.
func (r *receiver) answers(status int, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.answer = status, body
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// until waits for a state of things.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for pause := 10 * time.Millisecond; !ok(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-time.After(pause):
		}
	}
}

var seenField = regexp.MustCompile(`name="seen" value="([^"]*)"`)

// seen is the snapshot in a form of the page.
func (p page) seen(t testing.TB) string {
	t.Helper()
	found := seenField.FindStringSubmatch(p.body)
	if found == nil {
		t.Fatalf("%s (%d) has no form of a webhook:\n%s", p.path, p.status, p.body)
	}
	return html.UnescapeString(found[1])
}

// hook makes a webhook.
func (s *site) hook(t testing.TB, url string) webhooks.Endpoint {
	t.Helper()
	e, _, err := s.hooks.Create(t.Context(), webhooks.By{Tenant: tenant, Actor: "test", Reason: "test"}, webhooks.Settings{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// delivery waits until the only delivery about a command is in a state.
func (s *site) delivery(t testing.TB, command uuid.UUID, want webhooks.DeliveryState) (d webhooks.Delivery) {
	t.Helper()
	until(t, "a delivery is "+string(want), func() bool {
		list, err := s.hooks.DeliveriesOf(t.Context(), tenant, command)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			d = list[0]
		}
		return d.State == want
	})
	return d
}

func TestAWebhookIsMadeAndItsSecretShownOnce(t *testing.T) {
	s := newSite(t)
	to := newReceiver(t)
	ada := s.as(t, "ada")
	ada.get("/webhooks").has(t, "There is no webhook yet", `href="/webhooks/new"`)
	s.as(t, "vera").get("/webhooks").lacks(t, `href="/webhooks/new"`)
	ada.get("/webhooks/new").has(t, "command.corrected", `value="ledger"`)

	made := ada.post("/webhooks", "url", to.URL, "description", "the shop", "reason", "orders")
	made.has(t, "whsec_", "The webhook is made.", "the shop")
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`).FindString(html.UnescapeString(made.body))
	if len(secret) < 40 || strings.Contains(made.path, "whsec") {
		t.Errorf("the secret is %q at %s", secret, made.path)
	}
	ada.get(made.path).lacks(t, "whsec_")
	for _, table := range []string{"operator_sessions", "webhook_secrets", "audit"} {
		var n int
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` x WHERE x::text LIKE '%' || $1 || '%'`, secret).Scan(&n); err != nil || n > 0 {
			t.Errorf("%s has the secret in %d rows: %v", table, n, err)
		}
	}

	again := ada.post("/webhooks", "url", to.URL, "description", "the shop", "reason", "the answer was lost")
	again.has(t, "has this URL already", `href="`+made.path+`"`, `value="the shop"`, `value="the answer was lost"`)
	if again.status != http.StatusConflict {
		t.Errorf("made twice: %d", again.status)
	}
	wrong := ada.post("/webhooks", "url", "ftp://example.com", "events", "command.success", "ordered", "yes", "reason", "<b>why</b>")
	wrong.has(t, "https", `value="ftp://example.com"`, `value="command.success" checked`, `name="ordered" value="yes" checked`, "&lt;b&gt;why&lt;/b&gt;")
	if wrong.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad URL: %d", wrong.status)
	}
	ada.post("/webhooks", "url", "https://other.example").has(t, "Say why")
}

// TestASecretOfALostPageStaysSealed: what a session's row holds of a secret that was
// not shown yet opens with the browser's token only.
func TestASecretOfALostPageStaysSealed(t *testing.T) {
	s := newSite(t)
	e := s.hook(t, "https://a.example")
	ada := s.as(t, "ada")
	seen := ada.get("/webhooks/" + e.ID.String()).seen(t)
	form := map[string][]string{"seen": {seen}, "reason": {"leaked"}, "overlap": {"0s"}}
	answer, next := ada.once(http.MethodPost, "/webhooks/"+e.ID.String()+"/rotate", form)
	if next != "/webhooks/"+e.ID.String() || strings.Contains(answer.body, "whsec_") {
		t.Fatalf("%d leads to %q", answer.status, next)
	}
	var data []byte
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(data, ''::bytea) FROM operator_sessions`).Scan(&data); err != nil || strings.Contains(string(data), "whsec_") {
		t.Errorf("sessions hold the secret in the clear: %v", err)
	}
	ada.do(http.MethodHead, next, nil)
	ada.get("/webhooks").lacks(t, "whsec_")
	ada.get(next).has(t, "whsec_")
	ada.get(next).lacks(t, "whsec_")
}

func TestAWebhookIsChangedAndStaleFormsAreRefused(t *testing.T) {
	s := newSite(t)
	e := s.hook(t, "https://a.example/hook")
	path := "/webhooks/" + e.ID.String()
	ada := s.as(t, "ada")
	seen := ada.get(path + "/edit").seen(t)
	ada.post(path+"/edit", "seen", seen, "url", e.URL, "description", "first", "events", "command.rejected", "reason", "tidy").
		has(t, "The webhook is changed.", "first", "command.rejected")
	stale := ada.post(path+"/edit", "seen", seen, "url", e.URL, "description", "second", "reason", "late")
	stale.has(t, "Somebody changed this webhook", "command.rejected", "first", `value="second"`, `value="late"`)
	if stale.status != http.StatusConflict {
		t.Errorf("stale: %d", stale.status)
	}
	ada.post(path+"/edit", "seen", stale.seen(t), "url", e.URL, "description", "second", "reason", "late").has(t, "The webhook is changed.", "second")

	for _, action := range []string{"disable", "delete", "rotate"} {
		p := ada.post(path+"/"+action, "seen", seen, "reason", "kept for me", "overlap", "1h")
		p.has(t, "Somebody changed this webhook", `value="kept for me"`, "second")
		if p.status != http.StatusConflict {
			t.Errorf("%s of what has changed: %d", action, p.status)
		}
		p = ada.post(path+"/"+action, "reason", "no version", "overlap", "1h")
		if p.status != http.StatusConflict {
			t.Errorf("%s without a version: %d", action, p.status)
		}
		p = ada.post(path+"/"+action, "seen", ada.get(path).seen(t), "overlap", "1h")
		p.has(t, "Say why")
	}
	ada.post(path+"/disable", "seen", ada.get(path).seen(t), "reason", "holiday").has(t, "Disabled by ada: holiday.", "Enable")
	s.as(t, "vera").get("/webhooks").has(t, "Disabled by ada: holiday.")
	ada.post(path+"/test", "seen", ada.get(path).seen(t), "reason", "try").has(t, "enable it first")
	ada.post(path+"/enable", "seen", ada.get(path).seen(t), "reason", "back").has(t, "Enabled.")
	if _, err := s.pool.Exec(t.Context(), `UPDATE webhook_endpoints SET verified_at = NULL, verified_by = '', disabled_at = now(), disabled_by = 'unproven', disabled_reason = 'no answer'`); err != nil {
		t.Fatal(err)
	}
	unproven := ada.get(path)
	unproven.has(t, "Disabled by executor: no answer.", "What happened since", "once its receiver has answered")
	unproven.lacks(t, "go on being kept")
	ada.post(path+"/enable", "seen", unproven.seen(t), "reason", "theirs").has(t, "Enabled. What waited is sent once its receiver has answered our challenge.")
	rotated := ada.post(path+"/rotate", "seen", ada.get(path).seen(t), "reason", "yearly", "overlap", "24h")
	rotated.has(t, "whsec_", "signs until it is rotated", "signs until <time")
	ada.post(path+"/delete", "seen", ada.get(path).seen(t), "reason", "over").has(t, "The webhook is deleted.", "There is no webhook yet")
	if p := ada.get(path); p.status != http.StatusNotFound {
		t.Errorf("deleted: %d", p.status)
	}
	var reasons string
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(reason, ',' ORDER BY at) FROM audit WHERE actor = 'ada' AND subject = $1`, e.ID.String()).Scan(&reasons); err != nil ||
		reasons != "tidy,late,holiday,back,theirs,yearly,over" {
		t.Errorf("the audit has %q: %v", reasons, err)
	}
}

func TestWithoutAnEncryptionKey(t *testing.T) {
	s := newSite(t)
	e := s.hook(t, "https://a.example")
	keyless := webhooks.NewStore(webhooks.Config{Pool: s.pool})
	t.Cleanup(keyless.Close)
	server, err := web.NewServer(web.Config{
		Pool: s.pool, Commands: s.commands, Upstreams: s.ups, Doubts: s.doubts, Hooks: keyless, Deployment: s.deployment,
		Keys: s.keys, Operators: s.operators, Sessions: s.sessions, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.http.Config.Handler = server.Routes()
	ada := s.as(t, "ada")
	for _, path := range []string{"/webhooks", "/webhooks/new", "/webhooks/" + e.ID.String()} {
		ada.get(path).has(t, "EXECUTOR_ENCRYPTION_KEY", "openssl rand -base64 32")
	}
	ada.post("/webhooks", "url", "https://b.example", "reason", "try").has(t, "EXECUTOR_ENCRYPTION_KEY", "https://b.example")
}

func TestDeliveriesAreShownAndSentAgain(t *testing.T) {
	s := newSite(t)
	to := newReceiver(t)
	e := s.hook(t, to.URL)
	to.answers(http.StatusInternalServerError, "<script>alert(1)</script>\x1b[31m \u202egnp.exe & more")
	c := s.ended(t, "key <b>bold</b>", "create_payment", "", outcome.StateSuccess)
	until(t, "it was tried", func() bool { d := s.delivery(t, c.ID, webhooks.DeliveryPending); return d.Tries == 1 })
	d := s.delivery(t, c.ID, webhooks.DeliveryPending)
	otto := s.as(t, "otto")
	p := otto.get("/deliveries/" + d.ID.String())
	p.has(t, "never evidence about the command", "Not taken: only a 2xx is a yes.", "&lt;script&gt;alert(1)&lt;/script&gt;", d.EventID.String(),
		`href="/commands/`+c.ID.String()+`"`, "key &lt;b&gt;bold&lt;/b&gt;", `&#34;type&#34;: &#34;command.success&#34;`, "500")
	p.lacks(t, "<script>alert", "\x1b", "\u202e", "<b>bold")

	to.answers(http.StatusNoContent, "")
	stale := otto.post("/deliveries/"+d.ID.String()+"/redeliver", "tries", "0", "state", "pending", "reason", "again")
	stale.has(t, "It was tried after you opened the page", `value="again"`)
	if stale.status != http.StatusConflict {
		t.Errorf("stale: %d", stale.status)
	}
	otto.post("/deliveries/"+d.ID.String()+"/redeliver", "tries", "1", "state", "pending").has(t, "Say why")
	otto.post("/deliveries/"+d.ID.String()+"/redeliver", "tries", "1", "state", "pending", "reason", "again").has(t, "due once more")
	s.delivery(t, c.ID, webhooks.DeliveryDelivered)
	otto.get("/deliveries/"+d.ID.String()).has(t, "The receiver took it: it answered 204", "2 tries")
	if to.count() != 2 || to.bodies[0] != to.bodies[1] || to.got[1].Header.Get("Webhook-Id") != d.EventID.String() {
		t.Errorf("%d requests", to.count())
	}

	list := "/deliveries?" + strings.Join([]string{"webhook=" + e.ID.String(), "state=delivered", "type=command.success", "command=" + c.ID.String(),
		"event=" + d.EventID.String(), "since=2020-01-01T00:00"}, "&")
	otto.get(list).has(t, d.ID.String(), "command.success", to.URL[len("http://"):])
	otto.get("/deliveries?state=failed").has(t, "No delivery fits these filters.")
	otto.get("/deliveries?until=2020-01-01T00:00:00Z").lacks(t, d.ID.String())
	for _, bad := range []string{"state=lost", "command=12", "since=yesterday", "cursor=AAAA"} {
		if p := otto.get("/deliveries?" + bad); p.status != http.StatusUnprocessableEntity && p.status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, p.status)
		}
	}
}

func TestATestEvent(t *testing.T) {
	s := newSite(t)
	to := newReceiver(t)
	e := s.hook(t, to.URL)
	ada := s.as(t, "ada")
	seen := ada.get("/webhooks/" + e.ID.String()).seen(t)
	p := ada.post("/webhooks/"+e.ID.String()+"/test", "seen", seen, "reason", "new receiver")
	p.has(t, "A test event is on its way.", "Delivery of webhook.test")
	until(t, "it came", func() bool { return to.count() == 1 })
	until(t, "it is on record", func() bool { return strings.Contains(ada.get(p.path).body, "The receiver took it") })
	ada.get("/webhooks/"+e.ID.String()).has(t, "webhook.test", "last success")
}

func TestARangeIsCountedBeforeItIsSent(t *testing.T) {
	s := newSite(t)
	to := newReceiver(t)
	e := s.hook(t, to.URL)
	for _, key := range []string{"one", "two"} {
		c := s.ended(t, key, "create_payment", "", outcome.StateSuccess)
		s.delivery(t, c.ID, webhooks.DeliveryDelivered)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE webhook_deliveries SET state = 'failed'`); err != nil {
		t.Fatal(err)
	}
	path := "/webhooks/" + e.ID.String() + "/redeliver"
	otto := s.as(t, "otto")
	otto.get(path).lacks(t, "Reason")
	counted := otto.get(path + "?since=2020-01-01T00:00")
	counted.has(t, "Send 2 deliveries again", "The commands stay as they are", `name="state" value="failed"`)
	otto.get(path+"?since=2020-01-01T00:00&state=dropped").has(t, "There are none.")
	otto.get(path+"?since=2020-01-02&until=2020-01-01").has(t, "ends before it begins")
	otto.post(path, "since", "2020-01-01T00:00:00Z", "state", "failed").has(t, "Say why", "Send 2 deliveries again")
	otto.post(path, "since", "2020-01-01T00:00:00Z", "state", "failed", "reason", "it was down").has(t, "2 deliveries are due again.")
	until(t, "both came again", func() bool { return to.count() == 4 })
}

func TestAnotherTenantsWebhooks(t *testing.T) {
	s := newSite(t)
	other, _, err := s.hooks.Create(t.Context(), webhooks.By{Tenant: "other", Actor: "test"}, webhooks.Settings{URL: "https://other.example"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.hooks.Test(t.Context(), webhooks.By{Tenant: "other", Actor: "test"}, other.ID)
	if err != nil {
		t.Fatal(err)
	}
	ada := s.as(t, "ada")
	for _, path := range []string{"/webhooks/" + other.ID.String(), "/webhooks/" + other.ID.String() + "/edit", "/webhooks/" + other.ID.String() + "/redeliver",
		"/deliveries/" + d.ID.String(), "/webhooks/nothing"} {
		if p := ada.get(path); p.status != http.StatusNotFound || strings.Contains(p.body, "other.example") {
			t.Errorf("%s: %d", path, p.status)
		}
	}
	for _, path := range []string{"/webhooks/" + other.ID.String() + "/disable", "/webhooks/" + other.ID.String() + "/delete", "/webhooks/" + other.ID.String() + "/test",
		"/webhooks/" + other.ID.String() + "/redeliver", "/deliveries/" + d.ID.String() + "/redeliver"} {
		if p := ada.post(path, "seen", `{"version": 1}`, "reason", "mine", "since", "2020-01-01", "tries", "0", "state", "pending"); p.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, p.status)
		}
	}
	ada.get("/webhooks").lacks(t, "other.example")
	ada.get("/deliveries").lacks(t, d.ID.String())
	for _, role := range []string{"vera", "otto"} {
		b := s.as(t, role)
		for _, path := range []string{"/webhooks", "/webhooks/" + other.ID.String() + "/rotate"} {
			if p := b.post(path, "url", "https://x.example", "reason", "x"); p.status != http.StatusForbidden {
				t.Errorf("%s at %s: %d", role, path, p.status)
			}
		}
	}
}
