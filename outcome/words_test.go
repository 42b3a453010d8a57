package outcome

import (
	"slices"
	"testing"
)

// testWords checks what holds for every enum: each word is listed once, and none
// is empty.
func testWords[T ~string](t *testing.T, list []T) {
	t.Helper()
	for i, w := range list {
		if w == "" || slices.Contains(list[:i], w) {
			t.Errorf("%q is empty, or listed twice", w)
		}
	}
}

func TestWords(t *testing.T) {
	testWords(t, Evidences())
	testWords(t, Stages())
	testWords(t, Categories())
	testWords(t, Answers())
	testWords(t, Findings())
	testWords(t, Thens())
	testWords(t, Idempotencies())
	testWords(t, Boundaries())
	testWords(t, States())
	testWords(t, Bodies())
	testWords(t, Jitters())
	testWords(t, WhenEmpties())
	testWords(t, Verdicts())
	testWords(t, Reasons())
	testWords(t, OutcomeReasons())
	testWords(t, NextActions())
	testWords(t, Deciders())
}

func TestParse(t *testing.T) {
	for _, e := range Evidences() {
		if got, err := ParseEvidence(string(e)); got != e || err != nil {
			t.Errorf("ParseEvidence(%q) = %q, %v", e, got, err)
		}
	}
	for _, s := range States() {
		if got, err := ParseState(string(s)); got != s || err != nil {
			t.Errorf("ParseState(%q) = %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "no such word", "NONE", " none"} {
		if got, err := ParseState(s); got != "" || err == nil {
			t.Errorf("ParseState(%q) = %q, %v, want an error", s, got, err)
		}
	}
}

func TestPermanent(t *testing.T) {
	permanent := []Category{CategoryProfileRejected, CategoryRequestInvalid, CategoryAddressForbidden, CategoryCertificateInvalid}
	for _, c := range Categories() {
		if got, want := c.Permanent(), slices.Contains(permanent, c); got != want {
			t.Errorf("%q.Permanent() = %t", c, got)
		}
	}
}

func TestDefaultAnswer(t *testing.T) {
	tests := []struct {
		from, to int // statuses, both included
		want     Answer
	}{
		{-1, 199, AnswerUnclear},
		{200, 201, AnswerApplied},
		{202, 202, AnswerPending},
		{203, 299, AnswerApplied},
		{300, 399, AnswerUnclear},
		{400, 407, AnswerRefused},
		{408, 408, AnswerDeclined},
		{409, 424, AnswerRefused},
		{425, 425, AnswerDeclined},
		{426, 428, AnswerRefused},
		{429, 429, AnswerDeclined},
		{430, 499, AnswerRefused},
		{500, 1000, AnswerUnclear},
	}
	for _, tt := range tests {
		for status := tt.from; status <= tt.to; status++ {
			if got := DefaultAnswer(status); got != tt.want {
				t.Errorf("DefaultAnswer(%d) = %q, want %q", status, got, tt.want)
			}
		}
	}
}

func TestGivenAnswer(t *testing.T) {
	tests := []struct {
		name    string
		attempt Attempt
		want    Answer
	}{
		{"by the default table", response(201), AnswerApplied},
		{"the profile speaks first", read(201, AnswerRefused), AnswerRefused},
		{"part of a response has a status", partial(202), AnswerPending},
		{"no response, no answer", silent(), AnswerNone},
		{"nothing sent, no answer", notSent(), AnswerNone},
		{"a stray status", Attempt{Evidence: EvidenceSentNoResponse, Status: 200}, AnswerNone},
		{"a stray answer", Attempt{Evidence: EvidenceNotSent, Answer: AnswerApplied}, AnswerNone},
		{"still open", Attempt{}, AnswerNone},
		{"a response without a status", response(0), AnswerUnclear},
	}
	for _, tt := range tests {
		if got := tt.attempt.GivenAnswer(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
