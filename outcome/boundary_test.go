package outcome

import "testing"

func TestBoundaryOf(t *testing.T) {
	tests := []struct {
		kind     Idempotency
		evidence Evidence
		answer   Answer
		want     Boundary
	}{
		{IdempotencyNone, EvidenceNotSent, AnswerNone, BoundaryNotCrossed},
		{IdempotencyNone, EvidenceSentNoResponse, AnswerNone, BoundaryPossiblyCrossed},
		{IdempotencyNone, EvidenceResponseReceived, AnswerApplied, BoundaryCrossed},
		{IdempotencyNone, EvidenceResponseReceived, AnswerPending, BoundaryCrossed},
		{IdempotencyNone, EvidenceResponseReceived, AnswerRefused, BoundaryNotCrossed},
		{IdempotencyNone, EvidenceResponseReceived, AnswerDeclined, BoundaryNotCrossed},
		{IdempotencyNone, EvidenceResponseReceived, AnswerUnclear, BoundaryPossiblyCrossed},
		{IdempotencyNone, EvidencePartialResponse, AnswerApplied, BoundaryCrossed},
		{IdempotencyNone, EvidencePartialResponse, AnswerUnclear, BoundaryPossiblyCrossed},
		{IdempotencyNatural, EvidenceSentNoResponse, AnswerNone, BoundaryPossiblyCrossed},
		{IdempotencyKeyed, EvidenceSentNoResponse, AnswerNone, BoundaryPossiblyCrossed},
		{IdempotencyKeyed, EvidenceNotSent, AnswerNone, BoundaryNotCrossed},
		{IdempotencySafe, EvidenceSentNoResponse, AnswerNone, BoundaryNotCrossed},
		{IdempotencySafe, EvidenceResponseReceived, AnswerApplied, BoundaryNotCrossed},
		{"", "", "", BoundaryPossiblyCrossed},
		{"new", "new", "new", BoundaryPossiblyCrossed},
	}
	for _, tt := range tests {
		if got := BoundaryOf(tt.kind, tt.evidence, tt.answer); got != tt.want {
			t.Errorf("BoundaryOf(%q, %q, %q) = %q, want %q", tt.kind, tt.evidence, tt.answer, got, tt.want)
		}
	}
}

func TestBoundaryOver(t *testing.T) {
	tests := []struct {
		name     string
		attempts []Attempt
		want     Boundary
	}{
		{"none", nil, BoundaryNotCrossed},
		{"never sent", []Attempt{notSent(), notSent()}, BoundaryNotCrossed},
		{"doubt stays", []Attempt{silent(), notSent(), response(422)}, BoundaryPossiblyCrossed},
		{"a confirmation is stronger", []Attempt{silent(), response(201), silent()}, BoundaryCrossed},
		{"an acceptance too", []Attempt{response(202), silent()}, BoundaryCrossed},
		{"settled", []Attempt{settled(silent()), notSent()}, BoundaryNotCrossed},
		{"settled, though accepted", []Attempt{settled(response(202))}, BoundaryNotCrossed},
		{"doubt after a settled one", []Attempt{settled(silent()), silent()}, BoundaryPossiblyCrossed},
		{"a confirmation that came after the absence", []Attempt{settled(response(201))}, BoundaryCrossed},
		{"an open attempt", []Attempt{{}}, BoundaryPossiblyCrossed},
	}
	for _, tt := range tests {
		if got := BoundaryOver(IdempotencyKeyed, tt.attempts); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
