package upstreams

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"executor/outcome"
)

// minimal has only what is required.
const minimal = `
version: 1
upstream: ledger
base_url: https://ledger.example/v2
operations:
  create_payment:
    method: POST
    path: /accounts/{account}/payments
`

func parse(t testing.TB, src string) *Profile {
	t.Helper()
	p, err := Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// operation parses a profile with one operation, "pay", whose lines are given
// without indentation, and with further top-level lines.
func operation(t testing.TB, lines string, top ...string) *Operation {
	t.Helper()
	src := "version: 1\nupstream: ledger\nbase_url: https://ledger.example/v2\n" + strings.Join(top, "\n") + "\noperations:\n  pay:\n"
	if !strings.Contains("\n"+lines, "\nmethod:") {
		src += "    method: POST\n"
	}
	if !strings.Contains("\n"+lines, "\npath:") {
		src += "    path: /payments\n"
	}
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		src += "    " + line
	}
	o, _ := parse(t, src+"\n").Operation("pay")
	return o
}

// TestFormatShowsItsDefaults parses the page that describes the format, where
// every setting shows its default, and a profile that states nothing: they agree
// but for what the page names as examples of use.
func TestFormatShowsItsDefaults(t *testing.T) {
	src, err := os.ReadFile("testdata/format.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown, plain := parse(t, string(src)), parse(t, minimal)
	o, bare := shown.Operations["create_payment"], plain.Operations["create_payment"]

	shown.AnnounceUnresolvedAfter = nil
	for _, field := range []string{"Upstream", "Description", "Tenant", "Base", "Auth", "Headers", "Egress", "TLS", "Connection", "Timeouts", "Limits", "Retry", "Deadline", "Notices"} {
		same(t, field, reflect.ValueOf(*shown).FieldByName(field).Interface(), reflect.ValueOf(*plain).FieldByName(field).Interface())
	}
	for _, field := range []string{"Name", "Method", "Path", "Query", "Body", "CallerHeaders", "CallerQuery", "Timeouts", "Retry", "Redaction"} {
		same(t, field, reflect.ValueOf(*o).FieldByName(field).Interface(), reflect.ValueOf(*bare).FieldByName(field).Interface())
	}
	same(t, "reference", o.Result.Reference.Source, bare.Result.Reference.Source)
	same(t, "code", o.Rejection.Code.Source, bare.Rejection.Code.Source)
	same(t, "message", o.Rejection.Message.Source, bare.Rejection.Message.Source)
	same(t, "answers", len(bare.Answers)+len(bare.Lookups), 0)
	same(t, "kind", bare.Idempotency.Kind, outcome.IdempotencyNone)
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := reflect.ValueOf(got), reflect.ValueOf(want); g.IsValid() && g.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// TestFormatValues spells the values of the format page out.
func TestFormatValues(t *testing.T) {
	src, err := os.ReadFile("testdata/format.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, string(src))
	o := p.Operations["create_payment"]
	same(t, "base", p.Base.String(), "https://ledger.example/v2")
	same(t, "tenant", p.Tenant, "default")
	same(t, "connection", p.Connection, Connection{Fresh: "auto", Idle: 5 * time.Second})
	same(t, "timeouts", o.Timeouts, Timeouts{3 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second})
	same(t, "limits", p.Limits, Limits{MaxInFlight: 32, ResponseBytes: 1 << 20, StoredResponseBytes: 64 << 10, HeaderBytes: 64 << 10, Lookups: LookupLimits{4, &Rate{10, 10}}})
	same(t, "policy", o.Policy(), outcome.Retry{
		MaxAttempts: 25, MinAttemptWindow: time.Second, WhenBudgetEmpty: outcome.WhenEmptyWait,
		Backoff: outcome.Backoff{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Jitter: outcome.JitterFull},
	})
	same(t, "budget", p.Retry.Budget, Budget{Ratio: 0.2, FloorPerSecond: 1, Burst: 20, WhenEmpty: outcome.WhenEmptyWait})
	same(t, "throttle", p.Retry.ThrottlePausesUpstream, true)
	same(t, "deadline", p.Deadline, 15*time.Minute)
	same(t, "announce", *p.AnnounceUnresolvedAfter, time.Duration(0))
	same(t, "contract", o.Contract(), outcome.Operation{Idempotency: outcome.IdempotencyKeyed, Retention: 24 * time.Hour, RetentionMargin: 5 * time.Minute, HasLookup: true})
	same(t, "key", o.Idempotency.Key, Key{KeyInHeader, "Idempotency-Key", KeyFromCaller, 255})
	same(t, "rule", o.Answers[0].When.Source+" "+o.Answers[0].Reference.Source, `status == 409 && json.code == "already_exists" json.id`)
	l := o.Lookups[0]
	same(t, "lookup", l.Method+" "+l.Path, "GET /payments")
	same(t, "query", l.Query, []QueryParam{{"client_reference", "{key}"}})
	same(t, "finding", l.Findings[0].When.Source, `status == 200 && size(json.items) == 1 && json.items[0].state == "done"`)
	same(t, "finding reference", l.Findings[0].Reference.Source, "json.items[0].id")
	same(t, "schedule", l.Schedule, outcome.Schedule{FirstAfter: 2 * time.Second, Factor: 3, MaxInterval: 6 * time.Hour, GiveUpAfter: 72 * time.Hour})
	same(t, "absence", l.Absence, outcome.Absence{Confirmations: 2, Spacing: 30 * time.Second, Then: outcome.ThenCancel})
}

func TestOverridesMergeFieldByField(t *testing.T) {
	o := operation(t, `
timeouts: {total: 9s}
retry: {max_attempts: 3, backoff: {max: 7s}, budget: {when_empty: close}}`,
		"timeouts: {connect: 1s}", "retry: {min_attempt_window: 2s, backoff: {initial: 1s, jitter: none}, transient_statuses: [500]}")
	same(t, "timeouts", o.Timeouts, Timeouts{time.Second, 5 * time.Second, 15 * time.Second, 9 * time.Second})
	same(t, "policy", o.Policy(), outcome.Retry{
		MaxAttempts: 3, MinAttemptWindow: 2 * time.Second, TransientStatuses: []int{500}, WhenBudgetEmpty: outcome.WhenEmptyClose,
		Backoff: outcome.Backoff{Initial: time.Second, Max: 7 * time.Second, Jitter: outcome.JitterNone},
	})
	same(t, "profile's budget", o.profile.Retry.Budget.WhenEmpty, outcome.WhenEmptyWait)
}

func TestContract(t *testing.T) {
	tests := []struct {
		idempotency, top string
		want             outcome.Idempotency
		fresh, refresh   bool
	}{
		{"{kind: none}", "", outcome.IdempotencyNone, true, false},
		{"{kind: safe}", "", outcome.IdempotencySafe, false, false},
		{"{kind: natural}", "", outcome.IdempotencyNatural, false, false},
		{"{kind: keyed, retention: 24h}", "", outcome.IdempotencyKeyed, false, false},
		{"{kind: keyed, retention: 24h, preserves: success}", "", outcome.IdempotencyNone, true, false},
		{"{kind: keyed, retention: 24h, preserves: success, failures_leave_no_effect: true}", "", outcome.IdempotencyKeyed, false, false},
		{"{kind: keyed, retention: 24h}", "connection: {fresh: always}", outcome.IdempotencyKeyed, true, false},
		{"{kind: none}", "connection: {fresh: never}", outcome.IdempotencyNone, true, false},
		{"{kind: safe}", "auth: {type: bearer, token: env:EXECUTOR_SECRET_T}", outcome.IdempotencySafe, false, false},
		{"{kind: safe}", "auth: {type: oauth2_client_credentials, token_url: https://a.example/t, client_id: x, client_secret: file:s}", outcome.IdempotencySafe, false, true},
	}
	for _, tt := range tests {
		o := operation(t, "idempotency: "+tt.idempotency, tt.top)
		c := o.Contract()
		if c.Idempotency != tt.want || o.FreshConnection() != tt.fresh || c.CanRefreshAuth != tt.refresh {
			t.Errorf("%s %s: contract %+v, fresh %v", tt.idempotency, tt.top, c, o.FreshConnection())
		}
	}
}

// TestJSONIsAProfileToo: the API takes profiles as JSON, with tabs and escapes, and
// behind a byte order mark.
func TestJSONIsAProfileToo(t *testing.T) {
	p := parse(t, "\uFEFF{\n\t\"version\": 1,\n\t\"upstream\": \"ledger\", \"description\": \"caf\\u00e9 \\\"x\\\"\",\n\t\"base_url\": \"https:\\/\\/ledger.example\",\n\t\"operations\": {\"pay\": {\"method\": \"POST\", \"path\": \"/p\", \"answers\": [{\"when\": \"json.items[0].a == 1\", \"answer\": \"applied\"}]}}}")
	same(t, "description", p.Description, `café "x"`)
	same(t, "base", p.Base.String(), "https://ledger.example")
	same(t, "when", p.Operations["pay"].Answers[0].When.Source, "json.items[0].a == 1")
}

func TestAnchorsAndMerges(t *testing.T) {
	p := parse(t, `
version: 1
upstream: ledger
base_url: https://ledger.example
operations:
  a: &common
    method: POST
    path: /a
    idempotency: &keyed {kind: keyed, retention: 24h}
  b: *common
  c:
    <<: *common
    path: /c
    idempotency: *keyed
`)
	same(t, "b", p.Operations["b"].Path, "/a")
	same(t, "c", p.Operations["c"].Method+" "+p.Operations["c"].Path, "POST /c")
	same(t, "kind", p.Operations["c"].Contract().Idempotency, outcome.IdempotencyKeyed)
}

// TestBombs: what would make a parser run long or deep is refused quickly.
func TestBombs(t *testing.T) {
	bombs := map[string]string{
		"large":        minimal + strings.Repeat("# x\n", maxSourceBytes/4),
		"flow":         "a: " + strings.Repeat("[", 100_000),
		"dashes":       strings.Repeat("- ", 100_000),
		"questions":    strings.Repeat("? ", 100_000),
		"tokens":       "a: [" + strings.Repeat("x,", 400_000) + "]",
		"quotes":       "a: " + strings.Repeat("'' ", 200_000),
		"merge itself": "a: &a {<<: *a}",
		"alias itself": "operations: &a {pay: {lookup: &l [*l]}, other: *a}",
		"laughs":       "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nupstream: *c",
		"merges":       "a: &a {b: 1}\noperations: {<<: [" + strings.TrimSuffix(strings.Repeat("*a,", 10_000), ",") + "]}",
		"nul":          "version: 1\x00",
		"utf8":         "version: \xff",
		"private":      "version: \"\uE0B0\"",
	}
	for name, src := range bombs {
		if _, err := Parse(name, []byte(src)); err == nil {
			t.Errorf("%s was accepted", name)
		} else if len(err.Error()) > 20_000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}
