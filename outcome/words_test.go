package outcome

import (
	"slices"
	"testing"
)

// testWords checks what holds for every enum: each word is found by its name,
// once, and nothing else is.
func testWords[T ~string](t *testing.T, list []T, parse func(string) (T, error)) {
	t.Helper()
	for i, w := range list {
		if got, err := parse(string(w)); got != w || err != nil {
			t.Errorf("parse(%q) = %q, %v", w, got, err)
		}
		if slices.Contains(list[:i], w) {
			t.Errorf("%q is listed twice", w)
		}
	}
	for _, s := range []string{"", "no such word", "NONE", " none"} {
		if got, err := parse(s); got != "" || err == nil {
			t.Errorf("parse(%q) = %q, %v, want an error", s, got, err)
		}
	}
}

func TestWords(t *testing.T) {
	testWords(t, Evidences(), ParseEvidence)
	testWords(t, Stages(), ParseStage)
	testWords(t, Categories(), ParseCategory)
	testWords(t, Answers(), ParseAnswer)
	testWords(t, Idempotencies(), ParseIdempotency)
	testWords(t, Boundaries(), ParseBoundary)
	testWords(t, States(), ParseState)
	testWords(t, Bodies(), ParseBody)
	testWords(t, Jitters(), ParseJitter)
	testWords(t, WhenEmpties(), ParseWhenEmpty)
	testWords(t, Verdicts(), ParseVerdict)
	testWords(t, append(Reasons(), ReasonStatus(503)), ParseReason)
	testWords(t, OutcomeReasons(), ParseOutcomeReason)
	testWords(t, NextActions(), ParseNextAction)
	testWords(t, Deciders(), ParseDecidedBy)
}

func TestParseReasonStatus(t *testing.T) {
	for _, s := range []string{"status_", "status_x", "status_0503", "status_+5", "status_503 "} {
		if got, err := ParseReason(s); err == nil {
			t.Errorf("ParseReason(%q) = %q, want an error", s, got)
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
