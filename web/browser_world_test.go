package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/operators"
	"executor/internal/testkit/browser"
	"executor/outcome"
	"executor/reconcile"
	"executor/webhooks"
)

// hostile is hostileText with more of what has broken out of pages elsewhere. It has no
// control characters, which the stores refuse to people.
const hostile = `=1+1 <script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)><svg onload=alert(3)>` +
	`<a href="javascript:alert(4)">x</a> </textarea></pre></details></title> ]]> {{.Page}} ${7*7} url(http://evil.example/y) "'` + "`"

// short is hostile text where little fits.
const short = "<img src=x onerror=alert(5)>"

// hebrew and arabic run from right to left.
const (
	hebrew = "הלקוח התקשר ואמר שהתשלום הגיע, ראו תדפיס 42 (ILS)"
	arabic = "دفعة مزدوجة؟ طلب رقم 42، المبلغ 100 دولار"
)

// world is a site in which everything has happened that pages show.
type world struct {
	*site
	doubt, asked, many, big, evil, noted, waiting, answered commands.Command
	refused                                                 commands.Command
	hook                                                    webhooks.Endpoint
	delivery                                                webhooks.Delivery
	report, fresh                                           string // paths
	bulk                                                    uuid.UUID
	key, operator                                           uuid.UUID
	colours                                                 browser.Colours
}

// newWorld builds it. Hostile text of an upstream is the answer of the upstream evil.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{site: newSite(t)}
	w.apply(t, strings.Replace(ledgerProfile, "deadline: 10m", "deadline: 20m", 1)+"# "+short+"\n")
	w.serveEvil(t)
	w.addHook(t)
	w.addCommands(t)
	w.addDeeds(t)
	w.addReports(t)
	w.addPeople(t)
	w.delivery = w.oneDelivery(t)
	return w
}

const noticeSecret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// serveEvil is an upstream with hostile answers to everything, also to lookups.
func (w *world) serveEvil(t testing.TB) {
	t.Helper()
	w.site.evil(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Code", short)
		rw.Header().Set("X-Evil", "javascript:alert(6) <script>alert(7)</script>")
		if r.Method == http.MethodGet {
			rw.WriteHeader(http.StatusForbidden)
			_, _ = rw.Write([]byte(hostileText + hostile))
			return
		}
		rw.WriteHeader(map[bool]int{true: http.StatusInternalServerError, false: http.StatusUnprocessableEntity}[r.Header.Get("X-Trace") == "ask"])
		body := hostile + hostileText
		if r.Header.Get("X-Trace") == "big" {
			body += strings.Repeat("A", 1<<20)
		}
		_, _ = rw.Write([]byte(body))
	})
	u, err := w.ups.Get(t.Context(), tenant, "evil")
	if err != nil {
		t.Fatal(err)
	}
	source, err := w.ups.Source(t.Context(), tenant, "evil", u.Version)
	if err != nil {
		t.Fatal(err)
	}
	source = strings.Replace(source, "upstream: evil\n", `upstream: evil
description: "`+strings.ReplaceAll(`</textarea><script>alert(8)</script>\u202Egnp`, `"`, `\"`)+`"
notices:
  verify: {scheme: standard-webhooks, secret: env:EXECUTOR_SECRET_NOTICE}
  event_id: json.id
  command: json.key
  findings: [{when: json.state == "done", finding: applied, reference: json.reference}]
  weight: hint
`, 1) + `  ask:
    method: POST
    path: /act
    body: json
    caller_headers: [X-Trace]
    rejection: {code: headers["x-code"][0], message: text}
    lookup:
      path: /act
      query: {ref: "{key}"}
      findings: [{when: status == 200, finding: applied}]
      schedule: {first_after: 100ms, factor: 2, max_interval: 1h, give_up_after: 48h}
`
	w.apply(t, source)
}

func (w *world) addHook(t testing.TB) {
	t.Helper()
	to := newReceiver(t)
	to.answers(http.StatusInternalServerError, hostile)
	by := webhooks.By{Tenant: tenant, Actor: "ada", Reason: hostile}
	var err error
	if w.hook, _, err = w.hooks.Create(t.Context(), by, webhooks.Settings{URL: to.URL + "/hooks/" + strings.Repeat("long", 30), Description: hostile}); err != nil {
		t.Fatal(err)
	}
}

// named gives a command a key and metadata of its own.
func named(key string, metadata map[string]string) func(*commands.Submission) {
	return func(sub *commands.Submission) {
		sub.Key = key
		if metadata != nil {
			sub.Metadata = metadata
		}
	}
}

func (w *world) addCommands(t testing.TB) {
	t.Helper()
	long := strings.Repeat("invoice-2026-11-30/line-", 11)[:255]
	w.doubt = w.doubtful(t, long, named(long, map[string]string{"customer": arabic, "order": hebrew, "note": hostile, short: short}))
	w.asked = w.ended(t, "transfer-7", "send_transfer", "commit,drop", outcome.StateUnresolved)
	w.many = w.ended(t, "many", "create_payment", "times=29;status=503", outcome.StateSuccess)
	w.ended(t, "paid-1", "create_payment", "", outcome.StateSuccess)
	w.refused = w.ended(t, "refused-1", "charge_card", "status=422", outcome.StateRejected)
	w.evil = w.ended(t, "=evil-"+short, "act", "", outcome.StateRejected, toEvil("act", `{"note": "<script>alert(9)</script>"}`))
	w.big = w.ended(t, "big", "written", "", outcome.StateRejected, toEvil("written", `{"order": {"n": 1}}`), func(sub *commands.Submission) {
		sub.Params, sub.Headers = map[string]string{"place": "p"}, map[string]string{"X-Trace": "big"}
	})
	w.answered = w.ended(t, "asked-evil", "ask", "", outcome.StateUnresolved, toEvil("ask", "{}"), func(sub *commands.Submission) {
		sub.Headers = map[string]string{"X-Trace": "ask"}
	})
	later := time.Now().Add(time.Hour)
	id := w.submit(t, "later", "charge_card", "", func(sub *commands.Submission) { sub.NotBefore = &later })
	w.until(t, id, func(c commands.Command) bool { w.waiting = c; return true })
	for i := range 3 {
		w.noted = w.doubtful(t, fmt.Sprintf("charge-%d", i))
	}
	w.notice(t)
}

// notice brings a hostile notice about the command evil.
func (w *world) notice(t testing.TB) {
	t.Helper()
	secrets := egress.NewSecrets(func(string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(noticeSecret)) }, "")
	store := reconcile.NewStore(reconcile.Config{Pool: w.pool, Commands: w.commands, Upstreams: w.ups, Secrets: secrets, Log: slog.New(slog.DiscardHandler)})
	body := fmt.Sprintf(`{"id": "<b>event</b>", "key": %q, "state": "done", "reference": "<script>alert(10)</script>"}`, w.evil.Key)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(noticeSecret))
	_, _ = mac.Write([]byte("<i>1</i>." + stamp + "." + body))
	header := http.Header{"Webhook-Id": {"<i>1</i>"}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}, "X-Evil": {short}}
	if _, err := store.Receive(t.Context(), tenant, "evil", header, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// addDeeds is what people did, with hostile names and reasons.
func (w *world) addDeeds(t testing.TB) {
	t.Helper()
	act := func(c commands.Command, actor, reason string) reconcile.Action {
		return reconcile.Action{Tenant: tenant, Command: c.ID, Version: c.Version, Actor: actor, Reason: reason, EvidenceReference: short}
	}
	for _, reason := range []string{hostile, hebrew} {
		if err := w.doubts.Note(t.Context(), act(w.doubt, "otto", reason)); err != nil {
			t.Fatal(err)
		}
		w.reload(t, &w.doubt)
	}
	if err := w.doubts.Assign(t.Context(), act(w.doubt, "ada", arabic), "O'Neil <b>x</b>"); err != nil {
		t.Fatal(err)
	}
	w.bulk = uuid.Must(uuid.NewV7())
	if _, err := w.doubts.StartBulk(t.Context(), reconcile.BulkRequest{ID: w.bulk, Tenant: tenant, Actor: "otto", Action: reconcile.ActionNote, Reason: hostile,
		Selection: []reconcile.Selected{{Command: w.noted.ID, Version: w.noted.Version}, {Command: w.doubt.ID, Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	w.bulkEnded(t, w.bulk)
	if _, err := w.ups.Pause(t.Context(), tenant, "evil", audit.By{Actor: "otto", Reason: hostile}); err != nil {
		t.Fatal(err)
	}
	w.reload(t, &w.doubt, &w.noted)
}

func (w *world) reload(t testing.TB, list ...*commands.Command) {
	t.Helper()
	for _, c := range list {
		w.until(t, c.ID, func(now commands.Command) bool { *c = now; return true })
	}
}

func (w *world) addReports(t testing.TB) {
	t.Helper()
	otto := w.as(t, "otto")
	upload := func(name, file string) string {
		p := otto.upload("/reports", name, file, "upstream", "ledger", "columns.key", "Our ref", "columns.state", "Status", "states", "paid = success\nfailed = rejected\n")
		return w.reached(t, otto, p.path, reconcile.ReportCompared).path
	}
	w.report = upload("november.csv", "Our ref,Status,Sum\npaid-1,failed,100\n"+w.refused.Key+",paid,1\ncharge-0,paid,1\n=cmd|'/c calc'!A1,"+short+",1\n\""+
		strings.ReplaceAll(hostile, `"`, `""`)+"\",paid,2\n")
	w.fresh = upload("<img src=x onerror=alert(11)>.csv", "Our ref,Status\nmany,paid\n")
	forecast := otto.get(w.fresh + "/apply")
	otto.post(w.fresh+"/apply", "seen", forecastOf(t, forecast), "reason", hostile)
	w.reached(t, otto, w.fresh, reconcile.ReportApplied)
}

func (w *world) addPeople(t testing.TB) {
	t.Helper()
	key, _, err := w.keys.Create(t.Context(), tenant, "shop backend", []string{"admin"}, audit.By{Actor: "ada", Reason: hostile})
	if err != nil {
		t.Fatal(err)
	}
	w.key = key.ID
	w.operator = w.addOperator(t, "night-shift", tenant, operators.RoleViewer).ID
	w.addOperator(t, "olga", "empty", operators.RoleAdmin)
}

// oneDelivery is one that was tried.
func (w *world) oneDelivery(t testing.TB) (found webhooks.Delivery) {
	t.Helper()
	until(t, "a delivery was tried", func() bool {
		list, err := w.hooks.DeliveriesOf(t.Context(), tenant, w.doubt.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Tries > 0 {
				found = d
			}
		}
		return found.Tries > 0
	})
	return found
}
