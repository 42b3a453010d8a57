package upstreams

import (
	"slices"
	"strings"
	"testing"

	"executor/outcome"
)

// TestWarnings: what is allowed but unwise is said, at its place, and nothing
// else is. Every profile here has what keeps the usual warnings away.
func TestWarnings(t *testing.T) {
	const quiet = "result: {require: [has(json.id)]}\nlookup: {path: /payments, query: {key: '{key}'}, findings: [{when: status == 200 && has(json.id), finding: applied}]}\n"
	const keyed = "idempotency: {kind: keyed, retention: 24h}\n"
	const lookup = "lookup: {path: /p, query: {key: '{key}'}, findings: [{when: status == 200 && has(json.id), finding: applied}]}\n"
	const mark = "result: {require: [has(json.id)]}\n"
	const settles = mark + keyed + "lookup: {path: '/p/{key}', findings: [{when: status == 200 && has(json.id), finding: applied}], "
	const hints = "notices:\n  verify: {scheme: standard-webhooks, secret: file:s}\n  command: json.key\n"
	tests := []struct {
		code, lines, top, path string
	}{
		{"", quiet + keyed, "", ""},
		{"", mark + "method: GET\nidempotency: {kind: safe}", "", ""},
		{"no_lookup", mark, "", "operations.pay.lookup"},
		{"no_lookup", mark + keyed, "", "operations.pay.lookup"},
		{"lookup_by_reference", mark + keyed + "lookup: {path: '/p/{reference}', findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"lookup_unspecific", mark + keyed + "lookup: {path: /p, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"lookup_method", mark + keyed + "lookup: {method: POST, path: '/p/{key}', findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"pending_by_reference", mark + "method: GET\nidempotency: {kind: safe}\nlookup: {path: '{link}', findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"lookup_by_reference", mark + keyed + "lookup:\n  - {path: '{link}', findings: [{when: status == 200 && has(json.id), finding: applied}]}\n  - {path: '/p/{reference}', findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"", mark + keyed + "lookup:\n  - {path: '{link}', findings: [{when: status == 200 && has(json.id), finding: applied}]}\n  - {path: '/p/{key}', findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", ""},
		{"lookup_search", mark + keyed + "lookup: {path: /p, query: {q: 'ref:\"{key}\"'}, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"", mark + keyed + "lookup: {path: /p, query: {q: 'ref:\"{key}\"'}, compare: [json.ref == command.key], findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", ""},
		{"lookup_unquoted", mark + keyed + "lookup: {path: /p, query: {q: 'ref:{key}'}, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup"},
		{"", mark + keyed + "lookup: {path: /p, query: {q: 'pay-{key}'}, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", ""},
		{"finding_page", mark + keyed + "lookup: {path: '/p/{key}', findings: [{when: status == 200, finding: applied}]}", "", "operations.pay.lookup"},
		{"finding_page", mark + keyed + "lookup: {path: '/p/{key}', findings: [{when: status == 404, finding: absent}]}", "", "operations.pay.lookup"},
		{"", mark + keyed + "lookup: {path: '/p/{key}', findings: [{when: status == 404 && json != null && has(json.error), finding: absent}]}", "", ""},
		{"finding_silent", mark + keyed + "lookup: {path: '/p/{key}', findings: [{when: status == 403, finding: absent}]}", "", "operations.pay.lookup"},
		{"replay_findings", mark + keyed + "lookup: {replay: true, findings: [{when: status == 200, finding: applied}]}", "", "operations.pay.lookup"},
		{"", mark + keyed + "lookup: {replay: true}", "", ""},
		{"schedule_ignored", mark + keyed + "lookup:\n  - {path: '/p/{key}', findings: [{when: status == 200 && has(json.id), finding: applied}]}\n  - {path: '/q/{key}', schedule: {first_after: 1m}, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup[1].schedule"},
		{"absence_ignored", mark + keyed + "lookup:\n  - {path: '/p/{key}', absence: {settles_after: 1m}, findings: [{when: status == 200 && has(json.id), finding: applied}]}\n  - {path: '/q/{key}', absence: {settles_after: 2m}, findings: [{when: status == 200 && has(json.id), finding: applied}]}", "", "operations.pay.lookup[1].absence"},
		{"absence_too_late", settles + "absence: {settles_after: 80h}}", "", "operations.pay.lookup"},
		{"absence_too_late", settles + "absence: {settles_after: 1h, confirmations: 3, spacing: 40h}}", "", "operations.pay.lookup"},
		{"", settles + "absence: {settles_after: 71h}}", "", ""},
		{"resend_late", settles + "absence: {settles_after: 1h, then: resend}}", "", "operations.pay.lookup"},
		{"", settles + "absence: {settles_after: 1h, then: resend}}", "deadline: 2h", ""},
		{"resend_risky", strings.Replace(settles, keyed, "", 1) + "absence: {settles_after: 1m, then: resend}}", "", "operations.pay.lookup"},
		{"settles_short", settles + "absence: {settles_after: 10s}}", "", "operations.pay.lookup"},
		{"notice_absent", quiet + keyed, hints + "  findings: [{when: json.ok == false, finding: absent}]", "notices"},
		{"hint_without_lookup", mark + "method: GET\nidempotency: {kind: safe}", hints + "  findings: [{when: json.ok == true, finding: applied}]", "notices"},
		{"", quiet + keyed, hints + "  findings: [{when: json.ok == true, finding: applied}]", ""},
		{"absence_once", settles + "absence: {settles_after: 1m, confirmations: 1}}", "", "operations.pay.lookup"},
		{"retention_short", quiet + "idempotency: {kind: keyed, retention: 10m}", "", "operations.pay.idempotency"},
		{"retention_unknown", quiet + "idempotency: {kind: keyed}", "", "operations.pay.idempotency"},
		{"http_public", quiet + keyed, "egress: {allow: [10.0.0.0/8], proxy: 'http://proxy.example.com:3128'}\nauth: {type: oauth2_client_credentials, token_url: 'http://login.example.com/token', client_id: x, client_secret: file:s}", "auth.token_url"},
		{"egress_metadata", quiet + keyed, "egress: {allow: [169.254.169.254/32]}", "egress.allow"},
		{"egress_metadata", quiet + keyed, "egress: {allow: [10.0.0.0/8, 'fd00:ec2::254/128']}", "egress.allow"},
		{"", quiet + keyed, "egress: {allow: [169.254.0.0/16]}", ""}, // lets nothing reach it
		{"window_short", quiet + keyed + "timeouts: {response_header: 25s}", "", "operations.pay.retry"},
		{"window_long", quiet + keyed + "retry: {min_attempt_window: 2m}", "deadline: 1m", "operations.pay.retry"},
		{"deadline_short", quiet + keyed, "deadline: 10s", "deadline"},
		{"timeout_unreachable", quiet + keyed, "timeouts: {total: 10s}", "timeouts"},
		{"timeout_unreachable", quiet + keyed + "timeouts: {total: 10s}", "", "operations.pay.timeouts"},
		{"budget_unfilled", quiet + keyed, "retry: {budget: {ratio: 0, floor_per_second: 0}}", "retry"},
		{"transient_unused", quiet + keyed, "retry: {transient_statuses: [500, 520]}", "retry.transient_statuses"},
		{"transient_unused", quiet + keyed + "retry: {transient_statuses: [503]}", "", "operations.pay.retry.transient_statuses"},
		{"", quiet + keyed + "retry: {transient_statuses: [500]}", "retry: {transient_statuses: []}", ""},
		{"html_success", lookup + keyed, "", "operations.pay.result"},
		{"unauthorized_unlisted", quiet + keyed, "auth: {type: bearer, token: file:t}", "operations.pay.answers"},
		{"", quiet + keyed + "answers: [{when: status == 401, answer: refused}]", "auth: {type: bearer, token: file:t}", ""},
		{"safe_method", mark + "idempotency: {kind: safe}", "", "operations.pay.idempotency"},
		{"natural_method", quiet + "idempotency: {kind: natural}", "", "operations.pay.idempotency"},
		{"", quiet + "method: PUT\nidempotency: {kind: natural}", "", ""},
		{"read_not_safe", quiet + "method: GET", "", "operations.pay.idempotency"},
		{"keyed_read", quiet + keyed + "method: GET", "", "operations.pay.idempotency"},
		{"key_not_relied_on", quiet + "idempotency: {kind: keyed, retention: 24h, preserves: success}", "", "operations.pay.idempotency"},
		{"fresh_anyway", quiet, "connection: {fresh: never}", "operations.pay.idempotency"},
		{"proxy_status", quiet + keyed + "answers: [{when: status == 502, answer: declined}]", "", "operations.pay.answers"},
		{"", quiet + keyed + "answers: [{when: 'status == 502 && \"x-origin\" in headers', answer: declined}]", "", ""},
		{"applied_by_number", quiet + keyed + "answers: [{when: status == 409 && attempt > 1, answer: applied}]", "", "operations.pay.answers[0]"},
		{"", quiet + keyed + "answers: [{when: status == 409 && in_doubt, answer: applied}, {when: status == 409 && attempt > 1, answer: declined}]", "", ""},
		{"rule_unguarded", quiet + keyed + "answers: [{when: json.code == 1, answer: refused}]", "", "operations.pay.answers[0]"},
		{"", quiet + keyed + "answers: [{when: has(json.code) && json.code == 1, answer: refused}]", "", ""},
	}
	for _, tt := range tests {
		o := operation(t, tt.lines, tt.top)
		var codes []string
		for _, w := range o.profile.Warnings {
			codes = append(codes, w.Code)
			if w.Code == tt.code && w.Path != tt.path || w.Line < 1 || w.Message == "" {
				t.Errorf("%+v, want path %s", w, tt.path)
			}
		}
		want := []string{tt.code}
		if tt.code == "" {
			want = nil
		}
		if tt.code == "http_public" { // the token's address is what this is about
			codes = slices.DeleteFunc(codes, func(c string) bool { return c == "unauthorized_unlisted" })
		}
		if !slices.Equal(codes, want) {
			t.Errorf("%s %s: warnings %v, want %v", tt.lines, tt.top, o.profile.Warnings, want)
		}
	}
}

// The way out that rule_unguarded names holds: has(…) alone fails on an empty
// body and on a page.
func TestUnguardedRecommendsWhatHolds(t *testing.T) {
	const source = "json != null && has(json.x)"
	o := operation(t, "answers: [{when: json.x == 1, answer: refused}]")
	i := slices.IndexFunc(o.profile.Warnings, func(w Warning) bool { return w.Code == "rule_unguarded" })
	if i < 0 || !strings.Contains(o.profile.Warnings[i].Message, source) {
		t.Fatalf("warnings %v, want one with %s", o.profile.Warnings, source)
	}
	recommended := operation(t, "answers: [{when: "+source+" && json.x == 1, answer: applied}]")
	for _, body := range []string{"", "<html>", "null", "{}"} {
		if j := recommended.Judge(reply(404, body)); j.Answer != outcome.AnswerRefused || j.Rule != defaultTable {
			t.Errorf("%q: %+v", body, j)
		}
	}
	if j := recommended.Judge(reply(404, `{"x":1}`)); j.Answer != outcome.AnswerApplied {
		t.Errorf("where it is true: %+v", j)
	}
}
