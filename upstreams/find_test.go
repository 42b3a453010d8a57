package upstreams

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"executor/outcome"
)

const byKey = `
path: /payments
query: {key: '{key}'}
compare:
  - json.items[0].amount == command.body.amount
  - json.items[0].account == command.params.account && true
findings:
  - {when: status == 404, finding: absent}
  - {when: status == 200 && size(json.items) == 0, finding: absent}
  - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "done", finding: applied, reference: json.items[0].id}
  - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "failed", finding: refused, code: json.items[0].code, message: json.items[0].text}
  - {when: status == 200 && size(json.items) == 1, finding: pending}
  - {when: status >= 300 && status < 400, finding: absent}
`

func finder(t testing.TB, lines string, more ...string) func(r Response) Found {
	t.Helper()
	o := operation(t, "path: /accounts/{account}/payments\n"+strings.Join(more, "\n")+"\nlookup:\n"+indent(lines))
	q := Question{Key: "k1", Params: map[string]string{"account": "a1"}, Body: []byte(`{"amount":100,"card":"4242424242424242"}`), Reference: "p1"}
	return func(r Response) Found { return o.Find(o.Lookups[0], q, r) }
}

func oneItem(members string) string { return `{"items":[{"account":"a1",` + members + `}]}` }

func TestFind(t *testing.T) {
	find := finder(t, byKey)
	tests := []struct {
		name      string
		response  Response
		finding   outcome.Finding
		reference string
		note      string
	}{
		{"done", reply(200, oneItem(`"amount":100,"state":"done","id":"p9"`)), outcome.FindingApplied, "p9", ""},
		{"done, the number has a fraction", reply(200, oneItem(`"amount":100.0,"state":"done","id":12.50`)), outcome.FindingApplied, "12.50", ""},
		{"failed", reply(200, oneItem(`"amount":100,"state":"failed","code":"no_funds"`)), outcome.FindingRefused, "", ""},
		{"a new state word is still there", reply(200, oneItem(`"amount":100,"state":"verifying_v2"`)), outcome.FindingPending, "", ""},
		{"nothing there", reply(200, `{"items":[]}`), outcome.FindingAbsent, "", ""},
		{"not found", reply(404, `{}`), outcome.FindingAbsent, "", ""},
		{"not found, a page", reply(404, `<html>`), outcome.FindingAbsent, "", "the body is not JSON"},

		{"another amount", reply(200, oneItem(`"amount":200,"state":"done","id":"p9"`)), outcome.FindingUnknown, "", "what was found is not ours: 200 there, 100 here"},
		{"an amount as text", reply(200, oneItem(`"amount":"100","state":"done"`)), outcome.FindingUnknown, "", `"100" there, 100 here`},
		{"no amount", reply(200, oneItem(`"state":"done"`)), outcome.FindingUnknown, "", "compare[0]: json.items[0].amount == command.body.amount: it cannot be evaluated"},
		{"null", reply(200, oneItem(`"amount":null,"state":"done"`)), outcome.FindingUnknown, "", "null there, 100 here"},
		{"another account", reply(200, `{"items":[{"amount":100,"state":"done","account":"a2"}]}`), outcome.FindingUnknown, "", "compare[1]"},
		{"many", reply(200, `{"items":[{},{}]}`), outcome.FindingUnknown, "", "no rule of findings matches"},

		{"a page with 200", reply(200, `<html>`), outcome.FindingUnknown, "", "json is null, as the body is not JSON"},
		{"an empty body", reply(200, ``), outcome.FindingUnknown, "", "json is null, as the body is empty"},
		{"another document", reply(200, `{"error":"x"}`), outcome.FindingUnknown, "", "no such key: items"},
		{"cut short", cut(200, `{"items":[]}`), outcome.FindingUnknown, "", "findings[1]"},
		{"cut short, but the status decides", cut(404, `{"it`), outcome.FindingAbsent, "", ""},
		{"too large", reply(200, `{"items":[`+strings.Repeat(" ", maxJSONBytes)+`]}`), outcome.FindingUnknown, "", "findings[1]"},
		{"a member twice", reply(200, `{"items":[],"items":[{}]}`), outcome.FindingUnknown, "", "twice"},

		{"nothing there, says a cache", aged(`{"items":[]}`, "7"), outcome.FindingUnknown, "", "7 s old and comes from a cache"},
		{"nothing there, said once more by another", aged(`{"items":[]}`, "12, 30"), outcome.FindingUnknown, "", "comes from a cache"},
		{"nothing there, too old to be counted", aged(`{"items":[]}`, "99999999999999999999"), outcome.FindingUnknown, "", "comes from a cache"},
		{"nothing there, of this moment", aged(`{"items":[]}`, "0"), outcome.FindingAbsent, "", ""},
		{"done, says a cache", aged(oneItem(`"amount":100,"state":"done","id":"p9"`), "7"), outcome.FindingApplied, "p9", ""},

		{"moved", reply(302, ``), outcome.FindingUnknown, "", "a redirect is not taken for absent"},
		{"no permission", reply(403, `{"items":[]}`), outcome.FindingUnknown, "", "status 403 says nothing about the command"},
		{"not logged in", reply(401, ``), outcome.FindingUnknown, "", "status 401 says nothing"},
		{"too many", reply(429, ``), outcome.FindingUnknown, "", "status 429"},
		{"out of order", reply(500, ``), outcome.FindingUnknown, "", "status 500"},
		{"out of order at a proxy", reply(503, `{"items":[]}`), outcome.FindingUnknown, "", "status 503"},
		{"no response", Response{}, outcome.FindingUnknown, "", "status 0"},
		{"gone", reply(410, `{}`), outcome.FindingUnknown, "", "no rule of findings matches"},
		{"a reference that cannot be kept", reply(200, oneItem(`"amount":100,"state":"done","id":"a\u0000b"`)), outcome.FindingApplied, "", "cannot be kept"},
	}
	for _, tt := range tests {
		got := find(tt.response)
		notes := strings.Join(got.Notes, "\n")
		if got.Finding != tt.finding || got.Reference != tt.reference || !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
			t.Errorf("%s: %+v, want %s %q, note %q", tt.name, got, tt.finding, tt.reference, tt.note)
		}
	}
	got := find(reply(200, oneItem(`"amount":100,"state":"failed","code":"no_funds","text":"no\nfunds"`)))
	if got.Code != "no_funds" || got.Message != "no funds" || !strings.HasPrefix(got.Rule, "findings[3]: status == 200") {
		t.Errorf("%+v", got)
	}
}

// aged is an answer with the age that a cache gives it.
func aged(body, age string) Response {
	r := reply(200, body)
	r.Headers.Set("Age", age)
	return r
}

// TestFindKnowsTheCommand: rules can ask about it, whatever its body is.
func TestFindKnowsTheCommand(t *testing.T) {
	tests := []struct{ body, sent, when string }{
		{"json", `{"a":{"b":[1,2]},"big":12345678901234567890123}`, `command.body.a.b[1] == 2 && command.body.big == "12345678901234567890123"`},
		{"form", "amount=2000&metadata%5Bkey%5D=k1&x=1&x=2", `command.body.amount == "2000" && command.body["metadata[key]"] == "k1" && command.body.x[1] == "2"`},
		{"raw", "plain text", `command.body == "plain text"`},
		{"none", "", `command.body == null`},
		{"json", `{"a":1}`, `command.key == "k1" && command.id == "00000000-0000-0000-0000-000000000000" && command.reference == "" && command.params.size() == 0`},
	}
	for _, tt := range tests {
		o := operation(t, "body: "+tt.body+"\nlookup:\n  path: /p/{key}\n  findings:\n    - when: "+yamlText("status == 200 && "+tt.when)+"\n      finding: applied")
		if got := o.Find(o.Lookups[0], Question{Key: "k1", Body: []byte(tt.sent)}, reply(200, "{}")); got.Finding != outcome.FindingApplied {
			t.Errorf("%s %s: %+v", tt.body, tt.when, got)
		}
	}
	o := operation(t, "lookup: {path: '/p/{key}', findings: [{when: command.body.a == 1, finding: applied}]}")
	if got := o.Find(o.Lookups[0], Question{Key: "k1", Body: []byte("{broken")}, reply(200, "{}")); got.Finding != outcome.FindingUnknown || len(got.Notes) != 1 {
		t.Errorf("a body that cannot be read: %+v", got)
	}
}

// TestFindRedacts: what the profile redacts decides, and is not told.
func TestFindRedacts(t *testing.T) {
	find := finder(t, `
path: /payments/{key}
compare: [json.card == command.body.card, json.amount == command.body.amount]
findings:
  - {when: status == 200 && json.secret == "s3cret", finding: applied, reference: json.secret, code: json.secret, message: '"it is " + json.secret + headers["x-session-token"][0]'}
`, "redact: {response: [/secret, /card], request: [/card]}")
	answer := func(card string) Response {
		r := reply(200, `{"secret":"s3cret","amount":100,"card":"`+card+`"}`)
		r.Headers.Set("X-Session-Token", "s3cret")
		return r
	}
	good, bad := find(answer("4242424242424242")), find(answer("4000000000000000"))
	if good.Finding != outcome.FindingApplied || good.Reference != "" || good.Code != "[redacted]" || good.Message != "it is [redacted][redacted]" {
		t.Errorf("%+v", good)
	}
	if bad.Finding != outcome.FindingUnknown || !strings.Contains(strings.Join(bad.Notes, " "), `"[redacted]" there, "[redacted]" here`) {
		t.Errorf("%+v", bad)
	}
	find = finder(t, "path: /p/{key}\nfindings: [{when: 'int(json.card) == 1', finding: applied}]", "redact: {response: [/card]}")
	broken := find(answer("4242x"))
	if broken.Finding != outcome.FindingUnknown || len(broken.Notes) != 1 {
		t.Errorf("%+v", broken)
	}
	for _, found := range []Found{good, bad, broken} {
		all := found.Reference + found.Code + found.Message + strings.Join(found.Notes, " ")
		for _, secret := range []string{"s3cret", "4242", "4000"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is told: %+v", secret, found)
			}
		}
	}
}

// FuzzFind: nothing that an upstream answers makes a finding which no rule gives,
// or a no out of trouble.
func FuzzFind(f *testing.F) {
	for _, body := range []string{"", "{}", `{"items":[]}`, oneItem(`"amount":100,"state":"done","id":"p"`), oneItem(`"amount":1e2,"state":"failed"`), "<html>", `[`, "\xff"} {
		f.Add(200, body, true)
		f.Add(404, body, false)
	}
	find := finder(f, byKey)
	f.Fuzz(func(t *testing.T, status int, body string, complete bool) {
		got := find(Response{Status: status, Headers: http.Header{"X": {body}}, Body: []byte(body), BodyComplete: complete})
		if !slices.Contains(outcome.Findings(), got.Finding) {
			t.Fatalf("%+v", got)
		}
		switch {
		case got.Finding != outcome.FindingUnknown && silent(status):
			t.Errorf("%d gives %+v", status, got)
		case got.Finding == outcome.FindingUnknown && len(got.Notes) == 0:
			t.Errorf("unknown without a reason: %+v", got)
		case got.Finding != outcome.FindingUnknown && !complete && status != 404:
			t.Errorf("half a body gives %+v", got)
		}
	})
}
