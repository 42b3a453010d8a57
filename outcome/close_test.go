package outcome

import "testing"

func TestClose(t *testing.T) {
	authoritative := func(f *Facts) { f.Operation.AuthoritativeRefusals = []int{422} }
	noLookup := func(f *Facts) { f.Operation.HasLookup = false }
	success := Outcome{State: StateSuccess, Reason: OutcomeReasonApplied, NextAction: NextActionNone}
	incomplete := success
	incomplete.Incomplete = true
	rejected := Outcome{State: StateRejected, Reason: OutcomeReasonRefused, NextAction: NextActionNone}
	unresolved := func(r OutcomeReason) Outcome {
		return Outcome{State: StateUnresolved, Reason: r, NextAction: NextActionLookup}
	}
	cancelledFor := func(r OutcomeReason) Outcome {
		return Outcome{State: StateCancelled, Reason: r, SafeToResubmit: true, NextAction: NextActionNone}
	}
	tests := []struct {
		name     string
		kind     Idempotency
		attempts []Attempt
		with     func(*Facts)
		want     Outcome
	}{
		{"applied, whatever came after", IdempotencyNone, []Attempt{response(201), silent(), response(422)}, nil, success},
		{"the body was lost", IdempotencyNone, []Attempt{partial(201)}, nil, incomplete},
		{"but came with another", IdempotencyKeyed, []Attempt{partial(201), response(201)}, nil, success},
		{"applied after an absence was confirmed", IdempotencyNone, []Attempt{settled(response(201))}, nil, success},

		{"silence", IdempotencyNone, []Attempt{silent()}, nil, unresolved(OutcomeReasonNoResponse)},
		{"lost in the body", IdempotencyNone, []Attempt{partial(503)}, nil, unresolved(OutcomeReasonPartialResponse)},
		{"an answer that says nothing", IdempotencyNone, []Attempt{response(303)}, nil, unresolved(OutcomeReasonUnclearResponse)},
		{"the latest doubt speaks", IdempotencyNone, []Attempt{response(503), silent(), notSent()}, nil, unresolved(OutcomeReasonNoResponse)},
		{"an unsettled one", IdempotencyNone, []Attempt{response(503), settled(silent())}, nil, unresolved(OutcomeReasonUnclearResponse)},
		{"under way", IdempotencyNone, []Attempt{response(202), silent()}, nil, unresolved(OutcomeReasonRemotePending)},
		{"a read that is under way", IdempotencySafe, []Attempt{response(202)}, nil, unresolved(OutcomeReasonRemotePending)},
		{"an open attempt", IdempotencyNone, []Attempt{{}}, nil, unresolved(OutcomeReasonNoResponse)},
		{"nothing to ask", IdempotencyNone, []Attempt{silent()}, noLookup,
			Outcome{State: StateUnresolved, Reason: OutcomeReasonNoResponse, NextAction: NextActionReview}},
		{"cancelled in doubt", IdempotencyNone, []Attempt{silent()}, cancelled, unresolved(OutcomeReasonNoResponse)},

		{"refused", IdempotencyNone, []Attempt{notSent(), response(422)}, nil, rejected},
		{"refused, and cancelled", IdempotencyNone, []Attempt{response(422)}, cancelled, rejected},
		{"refused after doubt", IdempotencyKeyed, []Attempt{silent(), response(422)}, nil, unresolved(OutcomeReasonNoResponse)},
		{"refused with authority", IdempotencyKeyed, []Attempt{silent(), response(422)}, authoritative, rejected},
		{"with another status", IdempotencyKeyed, []Attempt{silent(), response(409)}, authoritative, unresolved(OutcomeReasonNoResponse)},
		{"without a key", IdempotencyNatural, []Attempt{silent(), response(422)}, authoritative, unresolved(OutcomeReasonNoResponse)},
		{"not as the last word", IdempotencyKeyed, []Attempt{response(422), silent()}, authoritative, unresolved(OutcomeReasonNoResponse)},
		{"against an acceptance", IdempotencyKeyed, []Attempt{response(202), response(422)}, authoritative, unresolved(OutcomeReasonRemotePending)},
		{"the status alone is no refusal", IdempotencyKeyed, []Attempt{silent(), read(422, AnswerUnclear)}, authoritative,
			unresolved(OutcomeReasonUnclearResponse)},
		{"refused after a settled doubt", IdempotencyNone, []Attempt{settled(silent()), response(422)}, nil, rejected},

		{"nothing done", IdempotencyNone, nil, nil, cancelledFor(OutcomeReasonNeverSent)},
		{"nothing sent", IdempotencyNone, []Attempt{notSent(), notSent()}, nil, cancelledFor(OutcomeReasonNeverSent)},
		{"declined", IdempotencyNone, []Attempt{notSent(), response(429)}, nil, cancelledFor(OutcomeReasonDeclined)},
		{"declined before", IdempotencyNone, []Attempt{response(429), notSent()}, nil, cancelledFor(OutcomeReasonNoEffect)},
		{"a read without an answer", IdempotencySafe, []Attempt{silent()}, nil, cancelledFor(OutcomeReasonNoEffect)},
		{"settled", IdempotencyNone, []Attempt{settled(silent()), notSent()}, nil, cancelledFor(OutcomeReasonNoEffect)},
		{"settled, though accepted", IdempotencyNone, []Attempt{settled(response(202))}, nil, cancelledFor(OutcomeReasonNoEffect)},
		{"a refusal overtaken", IdempotencyKeyed, []Attempt{response(401), notSent()}, nil, cancelledFor(OutcomeReasonNoEffect)},
		{"cancelled", IdempotencyNone, []Attempt{notSent()}, cancelled, cancelledFor(OutcomeReasonCancelledByCaller)},
		{"cancelled, declined", IdempotencyNone, []Attempt{response(429)}, cancelled, cancelledFor(OutcomeReasonCancelledByCaller)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := factsFor(tt.kind, tt.attempts...)
			if tt.with != nil {
				tt.with(&f)
			}
			if got := Close(f); got != tt.want {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
