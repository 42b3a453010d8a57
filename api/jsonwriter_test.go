package api

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"executor/commands"
	"executor/outcome"
)

func TestJSONWriterEscapes(t *testing.T) {
	for _, s := range []string{"", "plain", `"\/`, "\x00\x1f\x7f\n\t", "é😀\u2028", "<script>&", strings.Repeat("x", 5000)} {
		w := &jsonWriter{}
		w.string(s)
		var back string
		if err := json.Unmarshal(w.buf, &back); err != nil || back != s {
			t.Errorf("%.40q became %s: %v", s, w.buf, err)
		}
	}
	w := &jsonWriter{}
	if w.string("a\xffb\xed\xa0\x80"); string(w.buf) != `"a`+"\uFFFD"+`b`+"\uFFFD\uFFFD\uFFFD"+`"` {
		t.Errorf("invalid UTF-8 became %s", w.buf)
	}
}

func TestJSONWriterCommas(t *testing.T) {
	w := &jsonWriter{}
	w.begin('{')
	w.raw("a", []byte("[1 ] \n"))
	w.object("b", func() {})
	w.array("c", 2, func(int) { w.begin('['); w.end(']') })
	w.float("d", math.NaN())
	w.float("e", 1e21)
	w.text("f", "{")
	w.text("g", "x:")
	w.end('}')
	if want := "{\"a\":[1 ] \n,\"b\":{},\"c\":[[],[]],\"d\":0,\"e\":1000000000000000000000,\"f\":\"{\",\"g\":\"x:\"}"; string(w.buf) != want || !json.Valid(w.buf) {
		t.Errorf("got  %s\nwant %s", w.buf, want)
	}
}

func TestBodiesAreShownHonestly(t *testing.T) {
	for body, want := range map[string]string{
		"":                 `{}`,
		` {"n": 1.50 } `:   `{"body": {"n": 1.50 } }`,
		`{"a":1,"a":2}`:    `{"body":{"a":1,"a":2}}`,
		`"\u0000\ud800"`:   `{"body":"\u0000\ud800"}`,
		`9007199254740993`: `{"body":9007199254740993}`,
		`{"cut":`:          `{"body_text":"{\"cut\":"}`,
		`<html>`:           `{"body_text":"<html>"}`,
		"\xff\x00":         `{"body_base64":"/wA="}`,
		"{\"a\":\"\xff\"}": `{"body_base64":"eyJhIjoi/yJ9"}`,
		"\"\u2028\"":       "{\"body\":\"\u2028\"}",
		"NaN":              `{"body_text":"NaN"}`,
	} {
		w := &jsonWriter{}
		w.begin('{')
		w.body([]byte(body))
		w.end('}')
		if string(w.buf) != want {
			t.Errorf("%q is shown as %s, want %s", body, w.buf, want)
		}
	}
}

func TestCommandShapes(t *testing.T) {
	g := newRig(t)
	rejected := doneCommand(``)
	rejected.State, rejected.Outcome.State = outcome.StateRejected, outcome.StateRejected
	rejected.Outcome.Result, rejected.Outcome.Rejection = nil, &commands.Rejection{Status: 422, Code: "no_funds"}
	unresolved := doneCommand(``)
	unresolved.State, unresolved.Outcome.State, unresolved.Outcome.Result = outcome.StateUnresolved, outcome.StateUnresolved, nil
	unresolved.Record.LastTimeout = &outcome.Timeout{Kind: "response_header", At: someTime}
	unresolved.Reconciliation = &commands.Reconciliation{Phase: "lookup", Lookups: 1, NextLookupAt: &someTime}
	resend := unresolved
	resend.State, resend.NextAttemptAt = outcome.StatePending, &someTime
	waiting := pendingCommand(commands.Submission{Key: "k"})
	waiting.Waiting, waiting.NotBefore = &commands.Waiting{For: commands.WaitThrottle, Until: &someTime}, &someTime
	g.commands.list = listOf([]commands.Command{rejected, unresolved, resend, waiting})
	var page CommandList
	r := g.do("GET", "/v1/commands").want(200)
	r.decode(&page)
	switch c := page.Data; {
	case c[0].Outcome.Result != nil || *c[0].Outcome.Rejection.Code != "no_funds" || c[0].Outcome.Rejection.Message != nil:
		t.Errorf("rejected: %s", r.body)
	case c[1].Outcome.Result != nil || c[1].Outcome.Rejection != nil || c[1].DecisionRecord.LastTimeout.Kind != "response_header" || c[1].Reconciliation.Lookups != 1:
		t.Errorf("unresolved: %s", r.body)
	case c[2].Final || c[2].Outcome == nil:
		t.Errorf("a resend under way: %s", r.body)
	case c[3].Waiting == nil || c[3].Waiting.For != "throttle" || c[3].NotBefore == nil || c[3].DecisionRecord.OperationIdentity != nil:
		t.Errorf("waiting: %s", r.body)
	}
}
