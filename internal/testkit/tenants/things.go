package tenants

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/operators"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// What both tenants call alike.
const (
	Upstream  = "ledger"
	Event     = "ev-1" // id of a notice
	KeyOfPaid = "order-1"
)

// Things are what one tenant has: by id where it has one, by name where names are
// asked for. What only one of them has bears the tenant's own name.
type Things struct {
	Tenant string

	Unresolved, Asked, Doubted, Paid, Disputed, Waiting, Own uuid.UUID // commands
	OwnUpstream, OwnKey, OwnReference                        string    // upstream, idempotency key, reference

	Webhook, Unproven, Secret, Delivery, Event, Report, Bulk uuid.UUID
	Conflict                                                 int64
	WebhookURL                                               string

	Scopes   map[string]Credential // API keys, by their one scope
	Revoked  Credential
	People   map[operators.Role]operators.Operator
	LinkOf   uuid.UUID // of an operator with a link that nobody used
	Session  uuid.UUID // of the viewer
	Actor    string    // of everything here
	LastPage string    // the cursor of the second page of commands
}

// Credential is an API key with its secret.
type Credential struct {
	ID     uuid.UUID
	Secret string
}

const noticeSecret = "a secret of some length"

// profile is of the upstream of both. Only its host is the same everywhere.
const profile = `version: 1
upstream: %s
tenant: %s
description: The ledger of %s
base_url: %s
egress: {allow: [127.0.0.0/8]}
retry: {max_attempts: 1}
announce_unresolved_after: 0s
operations:
  pay:
    method: POST
    path: /payments
    body: json
    caller_headers: [X-Reference, X-Note]
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    result: {reference: json.id}
  charge:
    method: POST
    path: /charges
    body: json
  transfer:
    method: POST
    path: /transfers
    body: json
    lookup:
      path: /transfers
      query: {ref: "{key}"}
      findings: [{when: status == 404, finding: absent}]
      schedule: {first_after: 1h, factor: 2, max_interval: 1h, give_up_after: 48h}
      absence: {settles_after: 1h, confirmations: 2, spacing: 1m, then: review}
notices:
  verify: {scheme: hmac-sha256, header: X-Signature, secret: env:EXECUTOR_SECRET_NOTICE_%s}
  event_id: json.event
  command: json.key
  findings: [{when: json.state == "refused", finding: refused, code: json.code}]
  weight: conclusive
`

// settle gives a tenant one of everything.
func (w *World) settle(t testing.TB, tenant string) *Things {
	t.Helper()
	th := &Things{Tenant: tenant, Actor: tenant + "-ann", OwnUpstream: tenant + "-bank", OwnKey: tenant + "-order", OwnReference: "pay_" + tenant,
		Scopes: map[string]Credential{}, People: map[operators.Role]operators.Operator{}}
	w.apply(t, th, Upstream)
	w.apply(t, th, th.OwnUpstream)
	w.addWebhook(t, th)
	w.addCommands(t, th)
	w.addDeeds(t, th)
	w.addReport(t, th)
	w.addKeys(t, th)
	w.addPeople(t, th)
	w.readIDs(t, th)
	return th
}

func (w *World) apply(t testing.TB, th *Things, name string) {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", []byte(fmt.Sprintf(profile, name, th.Tenant, th.Tenant, w.upstream.URL, strings.ToUpper(th.Tenant))))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Upstreams.Apply(t.Context(), p, audit.By{Actor: th.Actor}); err != nil {
		t.Fatal(err)
	}
}

func (w *World) addWebhook(t testing.TB, th *Things) {
	t.Helper()
	th.WebhookURL = w.receiver.URL + "/hook"
	e, _, err := w.Hooks.Create(t.Context(), webhooks.By{Tenant: th.Tenant, Actor: th.Actor}, webhooks.Settings{URL: th.WebhookURL, Description: "The books of " + th.Tenant})
	if err != nil {
		t.Fatal(err)
	}
	th.Webhook, th.Secret = e.ID, e.Secrets[0].ID
	other, _, err := w.Hooks.Create(t.Context(), webhooks.By{Tenant: th.Tenant, Actor: th.Actor}, webhooks.Settings{URL: th.WebhookURL + "/of/nothing", Upstreams: []string{"none"}})
	if err != nil {
		t.Fatal(err)
	}
	th.Unproven = other.ID // as one whose receiver never answered
	if _, err := w.Pool.Exec(t.Context(), `UPDATE webhook_endpoints SET verified_at = NULL, verified_by = '' WHERE id = $1`, other.ID); err != nil {
		t.Fatal(err)
	}
}

// submit accepts a command and, where a state is named, waits for it.
func (w *World) submit(t testing.TB, th *Things, key, operation string, want outcome.State, change ...func(*commands.Submission)) uuid.UUID {
	t.Helper()
	sub := commands.Submission{
		Tenant: th.Tenant, Key: key, Upstream: Upstream, Operation: operation, Actor: th.Actor,
		Body: []byte(`{"amount": 100, "note": "for ` + th.Tenant + `"}`), HasBody: true, Metadata: map[string]string{"order": "42", "amount": "100"},
	}
	if operation == "pay" {
		sub.Headers = map[string]string{"X-Reference": "pay_" + key, "X-Note": th.Tenant}
	}
	for _, c := range change {
		c(&sub)
	}
	a, err := w.Commands.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	Until(t, key+" is "+string(want), func() bool {
		c, err := w.Commands.Get(t.Context(), th.Tenant, a.Command.ID)
		if err != nil {
			t.Fatal(err)
		}
		return c.State == want
	})
	return a.Command.ID
}

func (w *World) addCommands(t testing.TB, th *Things) {
	t.Helper()
	th.Paid = w.submit(t, th, KeyOfPaid, "pay", outcome.StateSuccess)
	th.Disputed = w.submit(t, th, "order-2", "pay", outcome.StateSuccess)
	th.Unresolved = w.submit(t, th, "order-3", "charge", outcome.StateUnresolved)
	th.Doubted = w.submit(t, th, "order-4", "charge", outcome.StateUnresolved)
	th.Asked = w.submit(t, th, "order-5", "transfer", outcome.StateUnresolved)
	th.Waiting = w.submit(t, th, "order-6", "pay", outcome.StatePending, func(sub *commands.Submission) {
		later := time.Now().Add(time.Hour)
		sub.NotBefore = &later
	})
	th.Own = w.submit(t, th, th.OwnKey, "pay", outcome.StateSuccess, func(sub *commands.Submission) {
		sub.Upstream, sub.Headers["X-Reference"], sub.Metadata = th.OwnUpstream, th.OwnReference, map[string]string{"of": th.Tenant}
	})
	w.contradict(t, th, "order-2")
}

// contradict has the upstream say that a command was refused after all.
func (w *World) contradict(t testing.TB, th *Things, key string) {
	t.Helper()
	body := fmt.Sprintf(`{"event": %q, "key": %q, "state": "refused", "code": "for %s"}`, Event, key, th.Tenant)
	mac := hmac.New(sha256.New, []byte(noticeSecret))
	mac.Write([]byte(body))
	if _, err := w.Doubts.Receive(t.Context(), th.Tenant, Upstream, http.Header{"X-Signature": {hex.EncodeToString(mac.Sum(nil))}}, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// addDeeds is what people did: notes, a lookup, a bulk action.
func (w *World) addDeeds(t testing.TB, th *Things) {
	t.Helper()
	ctx := t.Context()
	action := func(id uuid.UUID) reconcile.Action {
		c, err := w.Commands.Get(ctx, th.Tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return reconcile.Action{Tenant: th.Tenant, Command: id, Version: c.Version, Actor: th.Actor, Reason: "asked by " + th.Tenant}
	}
	if err := w.Doubts.Note(ctx, action(th.Unresolved)); err != nil {
		t.Fatal(err)
	}
	if err := w.Doubts.Assign(ctx, action(th.Unresolved), "ann"); err != nil {
		t.Fatal(err)
	}
	if err := w.Doubts.LookUpNow(ctx, action(th.Asked)); err != nil {
		t.Fatal(err)
	}
	Until(t, "the upstream was asked", func() bool {
		list, err := w.Doubts.Lookups(ctx, th.Tenant, th.Asked)
		if err != nil {
			t.Fatal(err)
		}
		return len(list) > 0
	})
	th.Bulk = uuid.New()
	_, err := w.Doubts.StartBulk(ctx, reconcile.BulkRequest{
		ID: th.Bulk, Tenant: th.Tenant, Actor: th.Actor, Action: reconcile.ActionNote, Reason: "shift of " + th.Tenant, Filter: reconcile.ReviewFilter{Upstream: Upstream},
	})
	if err != nil {
		t.Fatal(err)
	}
	Until(t, "the bulk action is done", func() bool {
		b, err := w.Doubts.Bulk(ctx, th.Tenant, th.Bulk)
		if err != nil {
			t.Fatal(err)
		}
		return b.State == reconcile.BulkStateDone
	})
}

func (w *World) addReport(t testing.TB, th *Things) {
	t.Helper()
	th.Report = w.Upload(t, th.Tenant, "key,state,of\n"+KeyOfPaid+",rejected,"+th.Tenant+"\norder-3,success,"+th.Tenant+"\n")
	w.AwaitReport(t, th.Tenant, th.Report)
}

// Upload takes a settlement report in CSV.
func (w *World) Upload(t testing.TB, tenant, csv string) uuid.UUID {
	t.Helper()
	r, err := w.Doubts.Upload(t.Context(), reconcile.ReportRequest{
		Tenant: tenant, Actor: tenant + "-ann", Upstream: Upstream, Format: reconcile.ReportCSV,
	}, strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// AwaitReport waits until a report is compared.
func (w *World) AwaitReport(t testing.TB, tenant string, id uuid.UUID) {
	t.Helper()
	Until(t, "the report is compared", func() bool {
		r, err := w.Doubts.Report(t.Context(), tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.State == reconcile.ReportCompared
	})
}

func (w *World) addKeys(t testing.TB, th *Things) {
	t.Helper()
	create := func(name string, scopes ...string) Credential {
		k, secret, err := w.Keys.Create(t.Context(), th.Tenant, name, scopes, audit.By{Actor: th.Actor})
		if err != nil {
			t.Fatal(err)
		}
		return Credential{k.ID, secret}
	}
	for _, scope := range []string{"commands:read", "commands:write", "reviews:write", "admin"} {
		th.Scopes[scope] = create(strings.ReplaceAll(scope, ":", "-"), scope)
	}
	th.Revoked = create("revoked", "admin")
	if _, err := w.Keys.Revoke(t.Context(), th.Tenant, th.Revoked.ID.String(), audit.By{Actor: th.Actor}); err != nil {
		t.Fatal(err)
	}
}

// addPeople gives the tenant an operator of each role, and one who was invited.
func (w *World) addPeople(t testing.TB, th *Things) {
	t.Helper()
	by := operators.By{Actor: th.Actor}
	create := func(name, password string, role operators.Role) operators.Operator {
		o, err := w.Operators.Create(t.Context(), by, operators.New{Name: th.Tenant + "-" + name, Password: password, Tenant: th.Tenant, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, role := range operators.Roles() {
		th.People[role] = create(string(role), Password, role)
	}
	invited := create("invited", "", operators.RoleViewer)
	if _, err := w.Operators.CreateLink(t.Context(), by, invited.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	th.LinkOf = invited.ID
}

// readIDs looks up the ids that the stores gave out by themselves.
func (w *World) readIDs(t testing.TB, th *Things) {
	t.Helper()
	ctx := t.Context()
	list, _, err := w.Hooks.Deliveries(ctx, webhooks.DeliveryFilter{Tenant: th.Tenant, Command: &th.Paid})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d deliveries: %v", len(list), err)
	}
	th.Delivery, th.Event = list[0].ID, list[0].EventID
	if err := w.Pool.QueryRow(ctx, `SELECT id FROM findings WHERE tenant = $1 AND effect = 'conflict'`, th.Tenant).Scan(&th.Conflict); err != nil {
		t.Fatal(err)
	}
	if _, th.LastPage, err = w.Commands.List(ctx, commands.Filter{Tenant: th.Tenant, Limit: 2}); err != nil || th.LastPage == "" {
		t.Fatal(th.LastPage, err)
	}
	err = w.Pool.QueryRow(ctx, `
		INSERT INTO operator_sessions (token, operator_id, epoch, created_at, last_seen_at, address, user_agent, expires_at, data)
		VALUES ('of ' || $1::text, $2, 1, now(), now(), '192.0.2.7', 'of ' || $1::text, now() + interval '1 day', '') RETURNING id`,
		th.Tenant, th.People[operators.RoleViewer].ID).Scan(&th.Session)
	if err != nil {
		t.Fatal(err)
	}
}
