package upstreams

import (
	"net/http"
	"strings"
	"testing"

	"executor/outcome"
)

// rules is an operation that says something about many answers.
const rules = `
answers:
  - {when: status == 409 && json.code == "already_exists", answer: applied, reference: json.existing}
  - {when: status == 200 && has(json.status) && json.status == "failed", answer: refused}
  - when: status == 502 && headers["x-origin"][0] == "ledger"
    answer: declined
  - {when: status == 423 && attempt > 1, answer: declined}
  - {when: status == 500 && text.contains("maintenance"), answer: declined}
  - {when: status == 424 && in_doubt, answer: applied}
result: {require: ['status == 204 || has(json.id)']}
`

func TestJudge(t *testing.T) {
	ruled, plain := operation(t, rules), operation(t, "")
	origin := http.Header{"X-Origin": {"ledger"}}
	tests := []struct {
		name      string
		operation *Operation
		response  Response
		answer    outcome.Answer
		reference string
		rule      string // how Rule begins
	}{
		{"a rule that matches", ruled, reply(409, `{"code":"already_exists","existing":"p1"}`), outcome.AnswerApplied, "p1", "answers[0]"},
		{"no rule matches", ruled, reply(409, `{"code":"other"}`), outcome.AnswerRefused, "", "default table"},
		{"a missing member ends the search", ruled, reply(409, `{}`), outcome.AnswerUnclear, "", "answers[0]"},
		{"a page instead of JSON", ruled, reply(409, `<html>`), outcome.AnswerUnclear, "", "answers[0]"},
		{"an empty body where one is needed", ruled, reply(409, ``), outcome.AnswerUnclear, "", "answers[0]"},
		{"a failure with 200", ruled, reply(200, `{"status":"failed","id":"p1"}`), outcome.AnswerRefused, "", "answers[1]"},
		{"a success", ruled, reply(200, `{"status":"done","id":"p1"}`), outcome.AnswerApplied, "p1", "default table"},
		{"a success behind a byte order mark", ruled, reply(200, "\uFEFF"+`{"status":"done","id":"p1"}`), outcome.AnswerApplied, "p1", "default table"},
		{"a success without its mark", ruled, reply(201, `{}`), outcome.AnswerUnclear, "", "result.require[0]"},
		{"a login page with 200", ruled, reply(200, `<html>`), outcome.AnswerUnclear, "", "answers[1]"},
		{"a login page with 201", ruled, reply(201, `<html>`), outcome.AnswerUnclear, "", "result.require[0]"},
		{"nothing is needed", ruled, reply(204, ``), outcome.AnswerApplied, "", "default table"},
		{"202 need not show a mark", ruled, reply(202, `{}`), outcome.AnswerPending, "", "default table"},
		{"the upstream's own 502", ruled, Response{Status: 502, Headers: origin, BodyComplete: true, Attempt: 1}, outcome.AnswerDeclined, "", "answers[2]"},
		{"a 502 of somebody on the way", ruled, reply(502, `<html>`), outcome.AnswerUnclear, "", "answers[2]"},
		{"the number of the attempt", ruled, Response{Status: 423, BodyComplete: true, Attempt: 2}, outcome.AnswerDeclined, "", "answers[3]"},
		{"the first attempt", ruled, Response{Status: 423, BodyComplete: true, Attempt: 1}, outcome.AnswerRefused, "", "default table"},
		{"after a doubt", ruled, Response{Status: 424, BodyComplete: true, Attempt: 2, InDoubt: true}, outcome.AnswerApplied, "", "answers[5]"},
		{"not the first, and nothing in doubt", ruled, Response{Status: 424, BodyComplete: true, Attempt: 2}, outcome.AnswerRefused, "", "default table"},
		{"the text", ruled, reply(500, "in maintenance"), outcome.AnswerDeclined, "", "answers[4]"},

		{"cut, but the status decides", ruled, cut(409, `{"code":"alr`), outcome.AnswerUnclear, "", "answers[0]"},
		{"cut, and no rule needs it", ruled, cut(503, `{"code`), outcome.AnswerUnclear, "", "default table"},
		{"cut, and require needs it", ruled, cut(201, `{"id":"p1`), outcome.AnswerUnclear, "", "result.require[0]"},
		{"cut, and nothing needs it", plain, cut(201, `{"id":"p1"}`), outcome.AnswerApplied, "", "default table"},

		{"redirect", plain, reply(302, ""), outcome.AnswerUnclear, "", "default table"},
		{"see other", plain, reply(303, ""), outcome.AnswerUnclear, "", "default table"},
		{"too many", plain, reply(429, ""), outcome.AnswerDeclined, "", "default table"},
		{"no status at all", plain, reply(0, ""), outcome.AnswerUnclear, "", "default table"},
	}
	for _, tt := range tests {
		j := tt.operation.Judge(tt.response)
		if j.Answer != tt.answer || j.Reference != tt.reference || !strings.HasPrefix(j.Rule, tt.rule) {
			t.Errorf("%s: %+v, want %s %q by %s", tt.name, j, tt.answer, tt.reference, tt.rule)
		}
	}
}

func reply(status int, body string) Response {
	return Response{Status: status, Headers: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), BodyComplete: true, Attempt: 1}
}

func cut(status int, body string) Response {
	r := reply(status, body)
	r.BodyComplete = false
	return r
}

func TestJudgeNotesAndNeeds(t *testing.T) {
	o := operation(t, rules)
	j := o.Judge(reply(409, `{}`))
	if !j.NeedsBody || len(j.Notes) != 1 || !strings.Contains(j.Notes[0], "already_exists") || !strings.Contains(j.Notes[0], "no such key: code") {
		t.Errorf("a rule that fails: %+v", j)
	}
	if j := o.Judge(reply(204, "")); !j.NeedsBody || len(j.Notes) != 0 {
		t.Errorf("require: %+v", j)
	}
	if j := o.Judge(reply(404, "")); j.NeedsBody {
		t.Errorf("the default table reads no body: %+v", j)
	}
	if j := o.Judge(reply(423, `{"a":1,"a":2}`)); len(j.Notes) != 1 || !strings.Contains(j.Notes[0], `member "a" twice`) {
		t.Errorf("an ambiguous document: %+v", j)
	}
}

// Where json is null, that is what a failed rule is told of, unless it failed
// for something else.
func TestJudgeWithoutJSON(t *testing.T) {
	bare := operation(t, "answers: [{when: json.code == 1, answer: applied}]")
	asks := operation(t, "answers: [{when: has(json.code) && json.code == 1, answer: applied}]")
	needed := operation(t, "result: {require: [size(json) > 0]}")
	for body, why := range map[string]string{
		"": "the body is empty", " ": "the body is empty", "<html>": "the body is not JSON", "null": "the body is null",
		`{"code":`: "the body is cut off", `{"code":1,"code":1}`: `the body holds the member "code" twice`,
	} {
		r := reply(404, body)
		r.Headers.Del("Content-Type")
		for _, o := range []*Operation{bare, asks} {
			j := o.Judge(r)
			last := j.Notes[len(j.Notes)-1]
			if j.Answer != outcome.AnswerUnclear || !strings.HasSuffix(last, ": it cannot be evaluated: json is null, as "+why) {
				t.Errorf("%q: %+v, want a note of %q", body, j, why)
			}
		}
		r.Status = 201
		if j := needed.Judge(r); !strings.HasSuffix(j.Notes[len(j.Notes)-1], "json is null, as "+why) {
			t.Errorf("%q, needed: %+v", body, j)
		}
	}
	header := operation(t, `answers: [{when: 'headers["x"][0] == "y" || json.code == 1', answer: applied}]`)
	if j := header.Judge(reply(404, "")); !strings.Contains(j.Notes[0], "no such key: x") {
		t.Errorf("a header that is missing: %+v", j)
	}
}

func TestJudgeRejection(t *testing.T) {
	o := operation(t, "")
	long := strings.Repeat("x", maxMessage+100)
	j := o.Judge(reply(422, `{"error":{"code":4711,"message":"no\nmoney `+"\\u0000"+long+`"}}`))
	if j.Code != "4711" || !strings.HasPrefix(j.Message, "no money  xx") || len(j.Message) > maxMessage+len("…") {
		t.Errorf("code %q, message %d bytes: %.20q", j.Code, len(j.Message), j.Message)
	}
	for _, body := range []string{`{"error":"text"}`, `{"error":{"code":null}}`, `{}`, `[]`, `null`, ``, `<html>`} {
		if j := o.Judge(reply(422, body)); j.Code != "" || j.Message != "" || j.Answer != outcome.AnswerRefused {
			t.Errorf("%s: %+v", body, j)
		}
	}
}

// TestReferencesKeepTheirDigits: numbers past 2^53 and past 64 bits, fractions,
// and what is no reference at all.
func TestReferencesKeepTheirDigits(t *testing.T) {
	o := operation(t, "")
	tests := []struct{ id, want string }{
		{`"pay_9"`, "pay_9"},
		{`9007199254740993`, "9007199254740993"},
		{`-9223372036854775808`, "-9223372036854775808"},
		{`18446744073709551615`, "18446744073709551615"},
		{`1234567890123456789012345`, "1234567890123456789012345"},
		{`182295565`, "182295565"},
		{`12.50`, "12.50"},
		{`1e400`, "1e400"},
		{`-0`, "-0"},
		{`null`, ""},
		{`true`, ""},
		{`{"a":1}`, ""},
		{`["a"]`, ""},
		{`""`, ""},
		{`"a\u0000b"`, ""},
		{`"a\ud800b"`, ""},
		{`"a\nb"`, ""},
		{`"` + strings.Repeat("x", maxReference+1) + `"`, ""},
	}
	for _, tt := range tests {
		j := o.Judge(reply(201, `{"id":`+tt.id+`}`))
		if j.Reference != tt.want || j.Answer != outcome.AnswerApplied {
			t.Errorf("id %.40s: %+v, want %q", tt.id, j, tt.want)
		}
	}
	chosen := operation(t, "result: {reference: 'has(json.id) ? json.id : json.other'}")
	if j := chosen.Judge(reply(201, `{"other":1234567890123456789012.50}`)); j.Reference != "1234567890123456789012.50" {
		t.Errorf("a chosen reference: %+v", j)
	}
}

// TestLongNumbersDoNotCompareEqual: two that differ only past the digits of a
// double are not the same.
func TestLongNumbersDoNotCompareEqual(t *testing.T) {
	o := operation(t, "answers: [{when: json.a == json.b, answer: applied}]")
	for body, want := range map[string]outcome.Answer{
		`{"a":9007199254740993,"b":9007199254740992}`:                 outcome.AnswerRefused,
		`{"a":123456789012345678901234,"b":123456789012345678901235}`: outcome.AnswerRefused,
		`{"a":123456789012345678901234,"b":123456789012345678901234}`: outcome.AnswerApplied,
		`{"a":1,"b":1.0}`: outcome.AnswerApplied,
	} {
		if j := o.Judge(reply(404, body)); j.Answer != want {
			t.Errorf("%s: %+v, want %s", body, j, want)
		}
	}
}

// TestHostileBodies: whatever comes, the answer is unclear and nothing breaks.
func TestHostileBodies(t *testing.T) {
	o := operation(t, "result: {require: [has(json.id)]}")
	bodies := map[string]string{
		"deep":       strings.Repeat(`{"id":`, 100_000),
		"deep lists": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"twice":      `{"id":1,"id":2}`,
		"utf8":       "{\"id\":\"\xff\"}",
		"large":      `{"id":"` + strings.Repeat("x", maxJSONBytes) + `"}`,
		"two":        `{"id":1}{"id":2}`,
		"cut":        `{"id":1`,
		"nothing":    ` `,
		"comma":      `{"id":1,}`,
		"nan":        `{"id":NaN}`,
		"list":       `[{"id":1}]`,
		"scalar":     `"id"`,
	}
	for name, body := range bodies {
		if j := o.Judge(reply(201, body)); j.Answer != outcome.AnswerUnclear || j.Reference != "" {
			t.Errorf("%s: %+v", name, j)
		}
	}
	slow := operation(t, "answers: [{when: 'json.a.all(x, json.a.all(y, x == y || x != y))', answer: applied}]")
	list := `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 20_000), ",") + `]}`
	if j := slow.Judge(reply(201, list)); j.Answer != outcome.AnswerUnclear || !strings.Contains(strings.Join(j.Notes, ""), "cost limit") {
		t.Errorf("an expression that takes too long: %+v", j)
	}
}
