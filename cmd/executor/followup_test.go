package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// TestFollowingUp runs what people do about doubts against the real program.
func TestFollowingUp(t *testing.T) {
	d := newDeployment(t)
	d.env["EXECUTOR_ENCRYPTION_KEY"] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	d.env["EXECUTOR_WEBHOOK_ALLOW"] = "127.0.0.0/8"
	d.env["EXECUTOR_WEBHOOK_CHALLENGE"] = "all"
	d.serve()
	d.apply()
	for _, one := range []struct {
		name string
		test func(*testing.T, *deployment)
	}{
		{"resolve", testResolve},
		{"two people at once", testTwoPeople},
		{"assign, note, look up", testAssignNoteLookUp},
		{"resend", testResend},
		{"lookups", testLookups},
		{"bulk", testBulk},
		{"webhooks", testWebhooks},
		{"reconcile", testReconcile},
		{"who may not decide", testWhoMayNotDecide},
		{"audit", testAudit}, // of all that the others did
	} {
		t.Run(one.name, func(t *testing.T) {
			mine := *d
			mine.t = t
			one.test(t, &mine)
		})
	}
}

// doubt is a charge whose answer was lost: only a person can say what became of it.
func (d *deployment) doubt(key string, more ...string) client.Command {
	d.t.Helper()
	r := d.submit("charge_card", troubleDoubt, append([]string{"--key", key, "--wait", "1m"}, more...)...).must(d.t, exitUnresolved)
	return decode[client.Command](d.t, r.stdout)
}

// reviews lists the keys of what waits for a person.
func (d *deployment) reviews(filter ...string) (keys []string) {
	d.t.Helper()
	r := d.execute(append([]string{"reviews", "list", "--output", "json"}, filter...)...).must(d.t, exitSuccess)
	for _, review := range decode[client.ReviewPage](d.t, r.stdout).Data {
		keys = append(keys, review.Command.Key)
	}
	return keys
}

func testResolve(t *testing.T, d *deployment) {
	command := d.doubt("resolve-1", "--metadata", "amount=120")
	for _, filter := range [][]string{
		nil, {"--kind", "unresolved", "--upstream", "ledger", "--operation", "charge_card", "--unassigned"}, {"--reason", "no_response", "--evidence", "sent_no_response"},
		{"--metadata", "amount=120"}, {"--metadata-min", "amount=100", "--metadata-max", "amount=120.5"},
	} {
		if keys := d.reviews(filter...); !slices.Equal(keys, []string{"resolve-1"}) {
			t.Errorf("reviews %v: %v", filter, keys)
		}
	}
	for _, filter := range [][]string{{"--older-than", "1h"}, {"--kind", "conflict"}, {"--assignee", "ann"}, {"--metadata-min", "amount=121"}, {"--evidence", "not_sent"}} {
		if keys := d.reviews(filter...); len(keys) != 0 {
			t.Errorf("reviews %v: %v", filter, keys)
		}
	}
	if r := d.execute("get", command.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "doubt     waits for a person; no lookup\nnext      a person has to decide") {
		t.Errorf("get:\n%s", r.stdout)
	}
	r := d.execute("resolve", command.ID, "--as", "success", "--reference", "ch_1", "--reason", "seen in their dashboard", "--evidence", "T-7").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "known      the upstream did it: a person found so\n") || !strings.Contains(r.stdout, "reference  ch_1\n") ||
		!strings.HasPrefix(r.stderr, "Resolving as success: charge_card at ledger, key resolve-1, unresolved") {
		t.Errorf("stdout\n%s\nstderr %s", r.stdout, r.stderr)
	}
	if keys := d.reviews(); len(keys) != 0 {
		t.Errorf("still in review: %v", keys)
	}
	if r := d.execute("resolve", command.ID, "--as", "cancelled", "--reason", "r").must(t, exitFailure); !strings.Contains(r.stderr, "only an unresolved one can be resolved") {
		t.Errorf("again: %q", r.stderr)
	}
	if r := d.execute("correct", command.ID, "--as", "success", "--reason", "r").must(t, exitFailure); !strings.Contains(r.stderr, "no open conflict") {
		t.Errorf("nothing to dismiss: %q", r.stderr)
	}
	d.execute("correct", command.ID, "--as", "cancelled", "--reason", "it was another charge", "--evidence", "T-7").must(t, exitSuccess)
	if r := d.execute("watch", command.ID).must(t, exitCancelled); !strings.Contains(r.stdout, "command.corrected") {
		t.Errorf("watch:\n%s", r.stdout)
	}
	d.execute("resolve", someID, "--as", "cancelled", "--reason", "r").must(t, exitNotFound)
}

// Two decide on the same version: one of them, and only one, gets through.
func testTwoPeople(t *testing.T, d *deployment) {
	command := d.doubt("two-1")
	version := fmt.Sprint(command.Version)
	results := make(chan result, 2)
	for _, state := range []string{"rejected", "cancelled"} {
		go func() {
			results <- execute(t, d.env, "resolve", command.ID, "--as", state, "--reason", "r", "--version", version, "--output", "json")
		}()
	}
	var done, stale []result
	for range 2 {
		if r := <-results; r.code == exitSuccess {
			done = append(done, r)
		} else {
			stale = append(stale, r)
		}
	}
	if len(done) != 1 || len(stale) != 1 {
		t.Fatalf("done %+v, stale %+v", done, stale)
	}
	won := decode[client.Command](t, done[0].stdout)
	want := fmt.Sprintf("nothing was done: the command has changed since version %s: it is %s, decided by operator", version, won.State)
	if stale[0].code != exitFailure || !strings.Contains(stale[0].stderr, want) {
		t.Errorf("the other: %+v, want %q", stale[0], want)
	}
	if now := d.final(command.ID); now.State != won.State || now.Outcome.Common().Sequence != 2 {
		t.Errorf("it is %s, sequence %d", now.State, now.Outcome.Common().Sequence)
	}
}

func testAssignNoteLookUp(t *testing.T, d *deployment) {
	command := d.doubt("assign-1")
	if r := d.execute("assign", command.ID, "ann", "--reason", "she knows them").must(t, exitSuccess); !strings.Contains(r.stdout, "looked after by ann") {
		t.Errorf("assign:\n%s", r.stdout)
	}
	if keys := d.reviews("--assignee", "ann"); !slices.Equal(keys, []string{"assign-1"}) {
		t.Errorf("ann has %v", keys)
	}
	if r := d.execute("assign", command.ID, "--none", "--reason", "away", "--version", fmt.Sprint(command.Version)).must(t, exitFailure); !strings.Contains(r.stderr, "nothing was done") {
		t.Errorf("on an old version: %q", r.stderr)
	}
	d.execute("note", command.ID, "called them").must(t, exitSuccess)
	d.execute("assign", command.ID, "--none", "--reason", "away").must(t, exitSuccess)
	if keys := d.reviews("--unassigned"); !slices.Equal(keys, []string{"assign-1"}) {
		t.Errorf("nobody has %v", keys)
	}
	if r := d.execute("lookup", command.ID, "--reason", "r").must(t, exitFailure); !strings.Contains(r.stderr, "no lookup") {
		t.Errorf("lookup: %q", r.stderr)
	}
	if r := d.execute("audit", "list", "--command", command.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "called them") || strings.Count(r.stdout, "\n") != 4 {
		t.Errorf("audit:\n%s", r.stdout)
	}
	d.execute("resolve", command.ID, "--as", "cancelled", "--reason", "r").must(t, exitSuccess)
}

// What is not safe to send again is sent on a person's finding only, and once.
func testResend(t *testing.T, d *deployment) {
	r := d.submit("charge_card", "times=1,drop", "--key", "resend-1", "--body", `{"amount": 7}`, "--wait", "1m").must(t, exitUnresolved) // read, and never carried out
	command := decode[client.Command](t, r.stdout)
	before := len(d.sim.Effects(""))
	if r := d.execute("resend", command.ID, "--reason", "r").must(t, exitFailure); !strings.Contains(r.stderr, "not safely idempotent") {
		t.Errorf("without a finding: %q", r.stderr)
	}
	d.execute("resend", command.ID, "--absent", "--evidence", "T-8", "--reason", "their support found nothing").must(t, exitSuccess)
	d.execute("get", command.ID, "--wait", "1m").must(t, exitSuccess)
	if n := len(d.sim.Effects("")) - before; n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A lookup settles what an attempt left open; watch follows it to the end.
func testLookups(t *testing.T, d *deployment) {
	r := d.submit("create_payment", troubleDoubt, "--key", "lookups-1", "--timeout", "3s", "--wait", "1m").must(t, exitUnresolved)
	command := decode[client.Command](t, r.stdout)
	if r := d.execute("get", command.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "next      the upstream is asked") && !strings.Contains(r.stdout, "state      success") {
		t.Errorf("get:\n%s", r.stdout)
	}
	r = d.execute("watch", command.ID, "--settled", "--wait", "2m").must(t, exitSuccess)
	for _, want := range []string{"command.unresolved", "question 1: applied, 200\n", "it settled the command\n", "command.success"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in\n%s", want, r.stdout)
		}
	}
	if r := d.execute("lookups", command.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "applied") {
		t.Errorf("lookups:\n%s", r.stdout)
	}
	page := decode[client.LookupPage](t, d.execute("lookups", command.ID, "--output", "json").must(t, exitSuccess).stdout)
	if last := page.Data[len(page.Data)-1]; last.Finding != client.FindingApplied || last.Response == nil || !strings.Contains(string(last.Response.Body), "items") {
		t.Errorf("raw: %+v", last)
	}
	if effects := d.sim.Effects("lookups-1"); len(effects) != 1 {
		t.Errorf("%d effects", len(effects))
	}
	if r := d.execute("notices", command.ID).must(t, exitSuccess); strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("notices:\n%s", r.stdout)
	}
}

func testBulk(t *testing.T, d *deployment) {
	for _, key := range []string{"bulk-1", "bulk-2", "bulk-3"} {
		d.doubt(key, "--metadata", "batch=7")
	}
	base := []string{"reviews", "bulk", "--action", "resolve", "--as", "cancelled", "--metadata", "batch=7"}
	if r := d.execute(with(base, "--dry-run")...).must(t, exitSuccess); !strings.HasPrefix(r.stdout, "resolve as cancelled: 3 commands\n") {
		t.Errorf("dry run:\n%s", r.stdout)
	}
	if keys := d.reviews("--metadata", "batch=7"); len(keys) != 3 {
		t.Errorf("after a dry run %v are left", keys)
	}
	base = with(base, "--reason", "the batch was lost", "--evidence", "T-9")
	d.execute(base...).must(t, exitUsage) // there is nobody to ask
	once := with(base, "--yes", "--id", bulkID)
	for range 2 { // the id makes a repeat harmless
		r := d.execute(once...).must(t, exitSuccess)
		if strings.Count(r.stdout, "  done  ") != 3 || !strings.Contains(r.stderr, "3 of 3 done, 0 refused") {
			t.Errorf("stdout\n%s\nstderr %s", r.stdout, r.stderr)
		}
	}
	if r := d.execute("reviews", "bulk", "show", bulkID).must(t, exitSuccess); strings.Count(r.stdout, "  done  ") != 3 {
		t.Errorf("show:\n%s", r.stdout)
	}
	d.doubt("bulk-4", "--metadata", "batch=8")
	refused := []string{"reviews", "bulk", "--action", "lookup", "--metadata", "batch=8", "--reason", "r", "--yes"}
	if r := d.execute(refused...).must(t, exitFailure); !strings.Contains(r.stdout, "no_lookup") || !strings.Contains(r.stderr, "0 of 1 done, 1 refused") {
		t.Errorf("refused: stdout\n%s\nstderr %s", r.stdout, r.stderr)
	}
	d.execute("resolve", d.byKey("bulk-4"), "--as", "cancelled", "--reason", "r").must(t, exitSuccess)
}

// byKey is the id of the command with a key.
func (d *deployment) byKey(key string) string {
	d.t.Helper()
	return decode[client.Command](d.t, d.execute("get", "--key", key, "--output", "json").must(d.t, exitSuccess).stdout).ID
}

// A receiver that is written with the client gets what the service sends.
func testWebhooks(t *testing.T, d *deployment) {
	got := make(chan client.WebhookEvent, 16)
	var take http.Handler = http.NotFoundHandler()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { take.ServeHTTP(w, r) }))
	defer receiver.Close()
	made := decode[client.Webhook](t, d.execute("webhooks", "create", receiver.URL, "--ordered", "--output", "json").must(t, exitSuccess).stdout)
	if r := d.execute("webhooks", "verify", made.ID, "--wait", "1m").must(t, exitFailure); !strings.Contains(r.stderr, "did not take it: 404") {
		t.Errorf("a receiver that knows nothing: %q", r.stderr)
	}
	if r := d.execute("webhooks", "test", made.ID).must(t, exitFailure); !strings.Contains(r.stderr, "has not answered its challenge") {
		t.Errorf("a test for a receiver that has not proved itself: %q", r.stderr)
	}
	if r := d.execute("webhooks", "show", made.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "not verified\n") {
		t.Errorf("show:\n%s", r.stdout)
	}
	handler, err := client.WebhookHandler([]string{made.Secret}, func(_ context.Context, e client.WebhookEvent) error {
		got <- e
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	take = handler
	if r := d.execute("webhooks", "verify", made.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "state     delivered\n") {
		t.Errorf("verify:\n%s", r.stdout)
	}
	if r := d.execute("webhooks", "test", made.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "state     delivered\n") {
		t.Errorf("test:\n%s", r.stdout)
	}
	if e := await(t, got); e.Type != client.WebhookTest {
		t.Errorf("got %+v", e)
	}
	command := d.doubt("hook-1")
	d.execute("resolve", command.ID, "--as", "success", "--reference", "ch_2", "--reason", "r").must(t, exitSuccess)
	first, second := await(t, got), await(t, got)
	if first.Type != client.WebhookUnresolved || first.CommandID != command.ID || first.Sequence != 1 || first.PreviousState != "" {
		t.Errorf("first %+v", first)
	}
	if o, settled := second.Outcome.(client.Success); second.Type != client.WebhookSuccess || second.PreviousState != client.StateUnresolved || second.Key != "hook-1" || !settled || o.Result.Reference != "ch_2" {
		t.Errorf("second %+v", second)
	}
	d.deliveriesAre(command.ID, "command.success", "command.unresolved")
	one := decode[client.DeliveryPage](t, d.execute("deliveries", "list", "--event", second.ID, "--output", "json").must(t, exitSuccess).stdout).Data[0]
	if _, err := d.client().WaitDelivery(t.Context(), one.ID, 0); err != nil { // until its first try is on record
		t.Fatal(err)
	}
	if r := d.execute("deliveries", "redeliver", one.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "tries     2\n") {
		t.Errorf("redeliver:\n%s", r.stdout)
	}
	if e := await(t, got); e.ID != second.ID {
		t.Errorf("redelivered %+v", e)
	}
	if r := d.execute("webhooks", "redeliver", made.ID, "--since", "1h", "--state", "delivered").must(t, exitSuccess); !strings.HasPrefix(r.stdout, "due again  ") {
		t.Errorf("a range:\n%s", r.stdout)
	}
	await(t, got)
	testWebhookSettings(t, d, made.ID)
}

// deliveriesAre compares the types of the events of a command that were delivered,
// the newest first.
func (d *deployment) deliveriesAre(command string, want ...string) {
	d.t.Helper()
	var types []string
	for _, one := range decode[client.DeliveryPage](d.t, d.execute("deliveries", "list", "--command", command, "--output", "json").must(d.t, exitSuccess).stdout).Data {
		types = append(types, one.Type)
	}
	if !slices.Equal(types, want) {
		d.t.Errorf("deliveries of %v, want %v", types, want)
	}
}

// await takes what comes next, within patience.
func await(t *testing.T, events <-chan client.WebhookEvent) client.WebhookEvent {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatal("no webhook came")
		return client.WebhookEvent{}
	}
}

func testWebhookSettings(t *testing.T, d *deployment, id string) {
	show := func(args ...string) client.Webhook {
		t.Helper()
		return decode[client.Webhook](t, d.execute(append(append([]string{"webhooks"}, args...), "--output", "json")...).must(t, exitSuccess).stdout)
	}
	if w := show("update", id, "--events", "command.rejected", "--ordered=false", "--description", "x"); w.Ordered || len(w.Events) != 1 || w.Description != "x" {
		t.Errorf("updated %+v", w)
	}
	if w := show("update", id, "--events", "all"); len(w.Events) != 0 || w.Description != "x" {
		t.Errorf("updated %+v", w)
	}
	if w := show("disable", id); w.Disabled == nil || w.Disabled.By != "person" {
		t.Errorf("disabled %+v", w)
	}
	if w := show("enable", id); w.Disabled != nil {
		t.Errorf("enabled %+v", w)
	}
	if w := show("rotate", id, "--overlap", "1h"); w.Secret == "" || len(w.Secrets) != 2 {
		t.Errorf("rotated %+v", w)
	}
	if w := show("show", id); w.Secret != "" {
		t.Errorf("the secret is shown again: %+v", w)
	}
	d.execute("webhooks", "delete", id).must(t, exitSuccess)
	d.execute("webhooks", "show", id).must(t, exitNotFound)
}

func testReconcile(t *testing.T, d *deployment) {
	first, second := d.doubt("report-1"), d.doubt("report-2")
	file := filepath.Join(t.TempDir(), "may.csv")
	lines := "Ref,Key,Status,Amount\nch_5,report-1,paid,100\nch_6,report-2,paid,101\nch_9,elsewhere,paid,7\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	upload := []string{"reconcile", "upload", file, "--upstream", "ledger", "--column", "reference=Ref", "--column", "key=Key", "--column", "state=Status",
		"--state", "paid=success", "--compare", "Amount=/body/amount", "--wait", "--output", "json"}
	report := decode[client.Report](t, d.execute(upload...).must(t, exitSuccess).stdout)
	if report.State != client.ReportCompared || report.Lines != 3 || report.Counts["different"] != 2 || report.Counts["missing_here"] != 1 {
		t.Errorf("compared: %+v", report)
	}
	if now := d.final(first.ID); now.State != client.StateUnresolved {
		t.Errorf("comparing has changed the command: %s", now.State)
	}
	if r := d.execute("reconcile", "items", report.ID, "--kind", "different").must(t, exitSuccess); !strings.Contains(r.stdout, `/body/amount is "100" here, "101" there`) || strings.Count(r.stdout, "\n") != 3 {
		t.Errorf("items:\n%s", r.stdout)
	}
	applied := decode[client.Report](t, d.execute("reconcile", "apply", report.ID, "--reason", "closing May", "--wait", "--output", "json").must(t, exitSuccess).stdout)
	if applied.State != client.ReportApplied || applied.Effects["settled"] != 1 || applied.ApplyReason != "closing May" {
		t.Errorf("applied: %+v", applied)
	}
	if now := d.final(first.ID); now.State != client.StateSuccess || now.Outcome.Common().DecidedBy != "report" {
		t.Errorf("after applying the first is %s", now.State)
	}
	if now := d.final(second.ID); now.State != client.StateUnresolved {
		t.Errorf("another amount has settled the second as %s", now.State)
	}
	if r := d.execute("reconcile", "list").must(t, exitSuccess); !strings.Contains(r.stdout, report.ID) {
		t.Errorf("list:\n%s", r.stdout)
	}
	d.execute("reconcile", "show", report.ID).must(t, exitSuccess)
	d.execute("reconcile", "show", someID).must(t, exitNotFound)
	if r := d.execute("reconcile", "upload", file, "--upstream", "nope").must(t, exitUsage); !strings.Contains(r.stderr, "nope") {
		t.Errorf("of nobody: %q", r.stderr)
	}
	d.execute("resolve", second.ID, "--as", "cancelled", "--reason", "r").must(t, exitSuccess)
	testConflict(t, d, second.ID)
}

// What a report says against a settled command is a conflict, which a person ends.
func testConflict(t *testing.T, d *deployment, id string) {
	report := decode[client.Report](t, executeIn(t, d.env, `{"key": "report-2", "reference": "ch_6", "state": "success"}`+"\n",
		"reconcile", "upload", "-", "--format", "jsonl", "--upstream", "ledger", "--wait", "--output", "json").must(t, exitSuccess).stdout)
	applied := decode[client.Report](t, d.execute("reconcile", "apply", report.ID, "--reason", "closing May", "--wait", "--output", "json").must(t, exitSuccess).stdout)
	if applied.Effects["conflicts"] != 1 {
		t.Errorf("applied: %+v", applied)
	}
	if r := d.execute("reviews", "--kind", "conflict").must(t, exitSuccess); !strings.Contains(r.stdout, "cancelled, but report says applied ch_6") || !strings.Contains(r.stdout, "correct") {
		t.Errorf("reviews:\n%s", r.stdout)
	}
	if r := d.execute("watch", id).must(t, exitCancelled); !strings.Contains(r.stdout, "command.unresolved") {
		t.Errorf("watch:\n%s", r.stdout)
	}
	d.execute("correct", id, "--as", "success", "--reference", "ch_6", "--reason", "it is on the statement").must(t, exitSuccess)
	if r := d.execute("watch", id).must(t, exitSuccess); !strings.Contains(r.stdout, "it is cancelled, but report says applied\n") || !strings.Contains(r.stdout, "command.corrected") {
		t.Errorf("watch:\n%s", r.stdout)
	}
	if keys := d.reviews("--kind", "conflict"); len(keys) != 0 {
		t.Errorf("still in conflict: %v", keys)
	}
}

func testWhoMayNotDecide(t *testing.T, d *deployment) {
	command := d.doubt("scope-1")
	reader := *d
	key := decode[createdKey](t, d.execute("keys", "create", "--name", "reader-of-reviews", "--scopes", "commands:read", "--output", "json").must(t, exitSuccess).stdout)
	reader.env = map[string]string{"EXECUTOR_URL": d.env["EXECUTOR_URL"], "EXECUTOR_API_KEY": key.Key}
	if keys := reader.reviews(); !slices.Equal(keys, []string{"scope-1"}) {
		t.Errorf("a reader sees %v", keys)
	}
	for _, args := range [][]string{
		{"resolve", command.ID, "--as", "cancelled", "--reason", "r"}, {"assign", command.ID, "ann", "--reason", "r"},
		{"reviews", "bulk", "--action", "lookup", "--upstream", "ledger", "--reason", "r", "--yes"},
		{"webhooks", "list"}, {"deliveries", "list"}, {"reconcile", "list"}, {"audit", "list"}, {"audit", "verify"},
	} {
		if r := reader.execute(args...).must(t, exitAuthentication); !strings.Contains(r.stderr, "scope") {
			t.Errorf("%v: %q", args, r.stderr)
		}
	}
	reader.execute("audit", "list", "--command", command.ID).must(t, exitSuccess)
	d.execute("resolve", command.ID, "--as", "cancelled", "--reason", "r").must(t, exitSuccess)
}

// The record holds all that was done, and shows that it was changed.
func testAudit(t *testing.T, d *deployment) {
	api := map[string]string{"EXECUTOR_URL": d.env["EXECUTOR_URL"], "EXECUTOR_API_KEY": d.env["EXECUTOR_API_KEY"]}
	verify := func(env map[string]string, args ...string) result {
		return execute(t, env, append([]string{"audit", "verify"}, args...)...)
	}
	list := decode[client.AuditPage](t, d.execute("audit", "list", "--action", "command.resolve", "--output", "json").must(t, exitSuccess).stdout)
	if len(list.Data) < 8 || list.Data[len(list.Data)-1].EvidenceReference != "T-7" {
		t.Errorf("%d resolves on record: %+v", len(list.Data), list.Data)
	}
	served := decode[struct{ Data []chainView }](t, verify(api, "--output", "json").must(t, exitSuccess).stdout).Data[0]
	direct := decode[struct{ Data []chainView }](t, verify(d.env, "--output", "json").must(t, exitSuccess).stdout).Data[0]
	if served.Head == "" || served.Head != direct.Head || direct.Tenant != "default" || served.Entries != direct.Entries {
		t.Errorf("the service says %+v, the database %+v", served, direct)
	}
	for _, env := range []map[string]string{api, d.env} {
		verify(env, "--head", served.Head).must(t, exitSuccess)
	}
	pool := testkit.Open(t, d.env["EXECUTOR_DATABASE_URL"])
	statement(t, pool, `ALTER TABLE audit DISABLE TRIGGER ALL`)
	statement(t, pool, `UPDATE audit SET reason = 'another' WHERE number = 2`)
	for _, env := range []map[string]string{api, d.env} {
		if r := verify(env).must(t, exitFailure); !strings.Contains(r.stderr, "does not hold: entry 2: ") {
			t.Errorf("edited: %q", r.stderr)
		}
	}
	statement(t, pool, `DELETE FROM audit WHERE number = 2`)
	for _, env := range []map[string]string{api, d.env} {
		if r := verify(env).must(t, exitFailure); !strings.Contains(r.stderr, "does not hold: entry 2: ") {
			t.Errorf("deleted: %q", r.stderr)
		}
	}
}
