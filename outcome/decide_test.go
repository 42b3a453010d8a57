package outcome

import (
	"math"
	"testing"
	"time"
)

// verdict is what most tests look at.
type verdict struct {
	Verdict Verdict
	Rule    int
	Reason  Reason
	State   State // empty if it goes on
}

func verdictOf(d Decision) verdict {
	v := verdict{Verdict: d.Verdict, Rule: d.Rule, Reason: d.Reason}
	if d.Outcome != nil {
		v.State = d.Outcome.State
	}
	return v
}

// decideTest is a case that the worked vectors do not show.
type decideTest struct {
	name     string
	kind     Idempotency
	attempts []Attempt
	with     func(*Facts) // nil = nothing special
	want     verdict
}

func (tt decideTest) run(t *testing.T, decide func(Facts) Decision) {
	t.Run(tt.name, func(t *testing.T) {
		f := factsFor(tt.kind, tt.attempts...)
		if tt.with != nil {
			tt.with(&f)
		}
		if got := verdictOf(decide(f)); got != tt.want {
			t.Errorf("\n got %+v\nwant %+v", got, tt.want)
		}
	})
}

func refreshable(f *Facts)  { f.Operation.CanRefreshAuth = true }
func storesErrors(f *Facts) { f.Operation.StoresErrors = true }
func cancelled(f *Facts)    { f.CancelRequested = true }
func noTokens(f *Facts)     { f.BudgetTokens, f.NextTokenIn = 0, time.Minute }

func TestDecideByAnswer(t *testing.T) {
	const keyed, none, natural = IdempotencyKeyed, IdempotencyNone, IdempotencyNatural
	retry := func(r Reason) verdict { return verdict{VerdictRetry, 9, r, ""} }
	unresolved := func(rule int, r Reason) verdict { return verdict{VerdictClose, rule, r, StateUnresolved} }
	tests := []decideTest{
		{"a part of a server error follows its status", keyed, []Attempt{partial(503)}, nil, retry("status_503")},
		{"also where that denies", keyed, []Attempt{partial(500)}, nil, unresolved(9, ReasonStatusDenied)},
		{"other parts are repeated", keyed, []Attempt{partial(303)}, nil, retry(ReasonPartialResponse)},
		{"rule 8 speaks first if that is not safe", none, []Attempt{partial(503)}, nil, unresolved(8, ReasonAmbiguous)},
		{"a part of a refusal", none, []Attempt{partial(422)}, nil, verdict{VerdictComplete, 0, ReasonRefused, StateRejected}},
		{"a part of a throttle", none, []Attempt{partial(429)}, nil, retry("status_429")},
		{"an unreadable success", keyed, []Attempt{read(200, AnswerUnclear)}, nil, unresolved(9, ReasonStatusDenied)},
		{"other server errors", natural, []Attempt{response(501)}, nil, unresolved(9, ReasonStatusDenied)},
		{"an unclear 408", keyed, []Attempt{read(408, AnswerUnclear)}, nil, retry("status_408")},
		{"an unclear 425, twice", keyed, []Attempt{read(425, AnswerUnclear), read(425, AnswerUnclear)}, nil, retry("status_425")},
		{"425 after something else", keyed, []Attempt{notSent(), response(425)}, nil,
			verdict{VerdictClose, 9, ReasonStatusDenied, StateCancelled}},
		{"a declined status that is usually refused", none, []Attempt{read(403, AnswerDeclined)}, nil, retry("status_403")},
		{"a declined 401 asks for no credential", none, []Attempt{read(401, AnswerDeclined)}, refreshable, retry("status_401")},
		{"declined after doubt, without a key", none, []Attempt{silent(), response(429)}, nil, unresolved(8, ReasonAmbiguous)},
		{"declined after doubt, with a key", keyed, []Attempt{silent(), response(429)}, nil, retry("status_429")},
		{"an accepted read", IdempotencySafe, []Attempt{response(202)}, nil, verdict{VerdictClose, 0, ReasonPending, StateUnresolved}},
		{"an applied read", IdempotencySafe, []Attempt{response(200)}, nil, verdict{VerdictComplete, 0, ReasonApplied, StateSuccess}},
		{"a silent read", IdempotencySafe, []Attempt{silent()}, nil, retry(ReasonSentNoResponse)},
		{"an open attempt counts as silent", none, []Attempt{{}}, nil, unresolved(8, ReasonAmbiguous)},
		{"an unknown answer", keyed, []Attempt{read(200, "new")}, nil, unresolved(9, ReasonStatusDenied)},
		{"settled doubt may be sent again", none, []Attempt{settled(silent())}, nil, retry(ReasonSentNoResponse)},
		{"a settled server error too", none, []Attempt{settled(response(503))}, nil, retry("status_503")},
		{"new doubt after a settled one", none, []Attempt{settled(silent()), silent()}, nil, unresolved(8, ReasonAmbiguous)},
		{"an earlier attempt is known to have acted", keyed, []Attempt{response(201), silent()}, nil,
			verdict{VerdictClose, 0, ReasonApplied, StateSuccess}},
		{"a refusal does not undo that", keyed, []Attempt{response(201), response(422)}, nil,
			verdict{VerdictComplete, 0, ReasonRefused, StateSuccess}},
		{"an earlier acceptance is doubt", none, []Attempt{response(202), notSent()}, nil, unresolved(8, ReasonAmbiguous)},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideStoredErrors(t *testing.T) {
	stored := verdict{VerdictClose, 9, ReasonStoredError, StateUnresolved}
	retry := verdict{VerdictRetry, 9, "status_503", ""}
	tests := []decideTest{
		{"the first", IdempotencyKeyed, []Attempt{response(503)}, storesErrors, retry},
		{"the same again", IdempotencyKeyed, []Attempt{response(503), response(503)}, storesErrors, stored},
		{"another", IdempotencyKeyed, []Attempt{response(502), response(503)}, storesErrors, retry},
		{"silence between", IdempotencyKeyed, []Attempt{response(503), silent(), response(503)}, storesErrors, stored},
		{"a part counts as a reply", IdempotencyKeyed, []Attempt{partial(503), response(503)}, storesErrors, stored},
		{"no upstream that stores", IdempotencyKeyed, []Attempt{response(503), response(503)}, nil, retry},
		{"not for a throttle", IdempotencyKeyed, []Attempt{response(429), response(429)}, storesErrors,
			verdict{VerdictRetry, 9, "status_429", ""}},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideRefreshAuth(t *testing.T) {
	refreshed := response(401)
	refreshed.RefreshedAuth = true
	rejected := func(v Verdict, rule int) verdict { return verdict{v, rule, ReasonRefused, StateRejected} }
	tests := []decideTest{
		{"once", IdempotencyNatural, []Attempt{response(401)}, refreshable, verdict{VerdictRetry, 9, ReasonAuthRefresh, ""}},
		{"cannot refresh", IdempotencyKeyed, []Attempt{response(401)}, nil, rejected(VerdictComplete, 0)},
		{"not twice in a command", IdempotencyKeyed, []Attempt{refreshed, notSent(), response(401)}, refreshable, rejected(VerdictComplete, 0)},
		{"not once cancelled", IdempotencyKeyed, []Attempt{response(401)}, func(f *Facts) { refreshable(f); cancelled(f) }, rejected(VerdictComplete, 0)},
		{"not 403", IdempotencyKeyed, []Attempt{response(403)}, refreshable, rejected(VerdictComplete, 0)},
		{"not without safety", IdempotencyNone, []Attempt{response(401)}, refreshable, rejected(VerdictClose, 9)},
		{"counts as an attempt", IdempotencyKeyed, []Attempt{response(401)},
			func(f *Facts) { refreshable(f); f.Retry.MaxAttempts = 1 }, verdict{VerdictClose, 1, ReasonMaxAttempts, StateRejected}},
		{"not with a one-shot body", IdempotencyKeyed, []Attempt{response(401)},
			func(f *Facts) { refreshable(f); f.Body = BodyOneShot }, verdict{VerdictClose, 3, ReasonBodyNotReplayable, StateRejected}},
		{"a body that can be opened again", IdempotencyKeyed, []Attempt{response(401)},
			func(f *Facts) { refreshable(f); f.Body = BodyReopenable }, verdict{VerdictRetry, 9, ReasonAuthRefresh, ""}},
		{"an unknown retention does not matter before doubt", IdempotencyKeyed, []Attempt{response(401)},
			func(f *Facts) { refreshable(f); f.Operation.Retention = 0 }, verdict{VerdictRetry, 9, ReasonAuthRefresh, ""}},
		{"but after it", IdempotencyKeyed, []Attempt{silent(), response(401)},
			func(f *Facts) { refreshable(f); f.Operation.Retention = 0 }, verdict{VerdictClose, 8, ReasonAmbiguous, StateUnresolved}},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideCancelled(t *testing.T) {
	closed := func(s State) verdict { return verdict{VerdictClose, 0, ReasonCancelRequested, s} }
	tests := []decideTest{
		{"nothing sent", IdempotencyNone, []Attempt{notSent()}, cancelled, closed(StateCancelled)},
		{"declined", IdempotencyNone, []Attempt{response(429)}, cancelled, closed(StateCancelled)},
		{"in doubt", IdempotencyKeyed, []Attempt{response(503)}, cancelled, closed(StateUnresolved)},
		{"accepted", IdempotencyKeyed, []Attempt{response(202)}, cancelled, verdict{VerdictClose, 0, ReasonPending, StateUnresolved}},
		{"refused", IdempotencyKeyed, []Attempt{response(422)}, cancelled, verdict{VerdictComplete, 0, ReasonRefused, StateRejected}},
		{"applied before", IdempotencyKeyed, []Attempt{response(201), silent()}, cancelled, closed(StateSuccess)},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

// TestDecideKeyLife moves the moment at which the key dies around the start of
// the next attempt, which is 6 s after the start of the first.
func TestDecideKeyLife(t *testing.T) {
	retention := func(d, margin time.Duration) func(*Facts) {
		return func(f *Facts) { f.Operation.Retention, f.Operation.RetentionMargin = d, margin }
	}
	retry := func(r Reason) verdict { return verdict{VerdictRetry, 9, r, ""} }
	ambiguous := func(rule int) verdict { return verdict{VerdictClose, rule, ReasonAmbiguous, StateUnresolved} }
	tests := []decideTest{
		{"alive", IdempotencyKeyed, []Attempt{silent()}, retention(6*time.Second+1, 0), retry(ReasonSentNoResponse)},
		{"dead at the start", IdempotencyKeyed, []Attempt{silent()}, retention(6*time.Second, 0), ambiguous(8)},
		{"dead by the margin", IdempotencyKeyed, []Attempt{silent()}, retention(time.Minute, 54*time.Second), ambiguous(8)},
		{"alive within the margin", IdempotencyKeyed, []Attempt{silent()}, retention(time.Minute, 54*time.Second-1), retry(ReasonSentNoResponse)},
		{"dead after a server error", IdempotencyKeyed, []Attempt{response(503)}, retention(6*time.Second, 0), ambiguous(9)},
		{"not used yet", IdempotencyKeyed, []Attempt{notSent(), response(429)}, retention(0, 0), retry("status_429")},
		{"used first by the second attempt", IdempotencyKeyed, []Attempt{notSent(), silent()}, retention(8*time.Second, 0), retry(ReasonSentNoResponse)},
		{"the use before an absence does not count", IdempotencyKeyed, []Attempt{settled(silent()), notSent()}, retention(time.Second, 0), retry(ReasonNotSent)},
		{"dead by the time there is a token", IdempotencyKeyed, []Attempt{silent()},
			func(f *Facts) { noTokens(f); f.Operation.Retention = 50 * time.Second }, ambiguous(8)},
		{"a margin over the retention", IdempotencyKeyed, []Attempt{silent()}, retention(time.Second, math.MaxInt64), ambiguous(8)},
		{"for ever", IdempotencyKeyed, []Attempt{silent()}, retention(math.MaxInt64, 0), retry(ReasonSentNoResponse)},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideBudget(t *testing.T) {
	wait := verdict{VerdictWaitBudget, 2, ReasonBudgetExhausted, ""}
	tests := []decideTest{
		{"waits", IdempotencyKeyed, []Attempt{silent()}, noTokens, wait},
		{"almost a token", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.BudgetTokens = 0.999 }, wait},
		{"one token", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.BudgetTokens = 1 },
			verdict{VerdictRetry, 9, ReasonSentNoResponse, ""}},
		{"no number of tokens", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.BudgetTokens = math.NaN() }, wait},
		{"a token that comes too late", IdempotencyKeyed, []Attempt{silent()},
			func(f *Facts) { noTokens(f); f.NextTokenIn = 2 * time.Hour }, verdict{VerdictClose, 2, ReasonBudgetExhausted, StateUnresolved}},
		{"a token that never comes", IdempotencyKeyed, []Attempt{notSent()},
			func(f *Facts) { noTokens(f); f.NextTokenIn = math.MaxInt64 }, verdict{VerdictClose, 2, ReasonBudgetExhausted, StateCancelled}},
		{"a token at the last moment", IdempotencyKeyed, []Attempt{silent()},
			func(f *Facts) { noTokens(f); f.Deadline = f.Now.Add(61 * time.Second) }, wait},
		{"a later rule denies", IdempotencyKeyed, []Attempt{response(501)}, noTokens,
			verdict{VerdictClose, 9, ReasonStatusDenied, StateUnresolved}},
		{"hands back", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { noTokens(f); f.Draining = true },
			verdict{VerdictHandBack, 5, ReasonRuntimeDraining, ""}},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideBudgetStart(t *testing.T) {
	f := factsFor(IdempotencyKeyed, silent())
	noTokens(&f)
	for token, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, time.Second: time.Second, time.Minute: time.Minute,
	} {
		f.NextTokenIn = token
		if d := Decide(f); d.Wait != want || !d.RetryAt.Equal(f.Now.Add(want)) {
			t.Errorf("token in %v: wait %v until %v, want %v", token, d.Wait, d.RetryAt, want)
		}
	}
}

// TestDecideOddClocks: a clock that jumped makes nothing safer.
func TestDecideOddClocks(t *testing.T) {
	ambiguous := verdict{VerdictClose, 8, ReasonAmbiguous, StateUnresolved}
	tooLate := verdict{VerdictClose, 6, ReasonDeadline, StateUnresolved}
	tests := []decideTest{
		{"ended before it started", IdempotencyNone, []Attempt{silent()},
			func(f *Facts) { f.Attempts[0].EndedAt = f.Attempts[0].StartedAt.Add(-time.Hour) }, ambiguous},
		{"decided before it ended", IdempotencyNone, []Attempt{silent()}, func(f *Facts) { f.Now = t0.Add(-time.Hour) }, ambiguous},
		{"the earliest use of a key counts", IdempotencyKeyed, []Attempt{silent(), silent()},
			func(f *Facts) { f.Attempts[1].StartedAt = t0.Add(-25 * time.Hour) }, ambiguous},
		{"no times at all", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.Attempts[0].StartedAt = time.Time{} }, ambiguous},
		{"no deadline", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.Deadline = time.Time{} }, tooLate},
		{"a window without end", IdempotencyKeyed, []Attempt{silent()}, func(f *Facts) { f.Retry.MinAttemptWindow = math.MaxInt64 }, tooLate},
		{"a negative window", IdempotencyKeyed, []Attempt{silent()},
			func(f *Facts) { f.Retry.MinAttemptWindow, f.Deadline = -time.Hour, f.Now.Add(-time.Minute) }, tooLate},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestDecideFirst(t *testing.T) {
	first := verdict{VerdictRetry, 0, ReasonFirstAttempt, ""}
	tests := []decideTest{
		{"goes", IdempotencyNone, nil, nil, first},
		{"for this row, not for this process", IdempotencyNone, nil, func(f *Facts) { f.Draining = true }, first},
		{"a one-shot body is not used yet", IdempotencyNone, nil, func(f *Facts) { f.Body = BodyOneShot }, first},
		{"first attempts cost no token", IdempotencyNone, nil, noTokens, first},
		{"a key of unknown life is fresh", IdempotencyKeyed, nil, func(f *Facts) { f.Operation.Retention = 0 }, first},
		{"exactly the window left", IdempotencyNone, nil, func(f *Facts) { f.Deadline = f.Now.Add(time.Second) }, first},
		{"less than that", IdempotencyNone, nil, func(f *Facts) { f.Deadline = f.Now.Add(time.Second - 1) },
			verdict{VerdictClose, 6, ReasonDeadline, StateCancelled}},
		{"cancel speaks before the deadline", IdempotencyNone, nil, func(f *Facts) { cancelled(f); f.Deadline = f.Now },
			verdict{VerdictClose, 0, ReasonCancelRequested, StateCancelled}},
	}
	for _, tt := range tests {
		tt.run(t, Decide)
	}
}

func TestMayStart(t *testing.T) {
	const keyed, none = IdempotencyKeyed, IdempotencyNone
	goes := verdict{VerdictRetry, 0, "", ""}
	unresolved := func(rule int, r Reason) verdict { return verdict{VerdictClose, rule, r, StateUnresolved} }
	tests := []decideTest{
		{"the first", none, nil, nil, verdict{VerdictRetry, 0, ReasonFirstAttempt, ""}},
		{"after nothing was sent", none, []Attempt{notSent()}, nil, goes},
		{"after silence, under a key", keyed, []Attempt{silent()}, nil, goes},
		{"after what rule 9 would deny", keyed, []Attempt{response(500)}, nil, goes},
		{"after a permanent failure, by a resend", none, []Attempt{{Evidence: EvidenceNotSent, Category: CategoryCertificateInvalid}}, nil, goes},
		{"the token is paid already", keyed, []Attempt{silent()}, noTokens, goes},
		{"cancelled", keyed, []Attempt{silent()}, cancelled, unresolved(0, ReasonCancelRequested)},
		{"cancelled before anything was sent", keyed, []Attempt{notSent()}, cancelled, verdict{VerdictClose, 0, ReasonCancelRequested, StateCancelled}},
		{"too late", keyed, []Attempt{silent()}, func(f *Facts) { f.Deadline = f.Now.Add(time.Second - 1) }, unresolved(6, ReasonDeadline)},
		{"used up", keyed, []Attempt{silent()}, func(f *Facts) { f.Retry.MaxAttempts = 1 }, unresolved(1, ReasonMaxAttempts)},
		{"one shot, not used", keyed, nil, func(f *Facts) { f.Body = BodyOneShot }, verdict{VerdictRetry, 0, ReasonFirstAttempt, ""}},
		{"one shot, used", none, []Attempt{notSent()}, func(f *Facts) { f.Body = BodyOneShot },
			verdict{VerdictClose, 3, ReasonBodyNotReplayable, StateCancelled}},
		{"delivered", keyed, []Attempt{silent()}, func(f *Facts) { f.OutcomeDelivered = true }, unresolved(4, ReasonAlreadyDelivered)},
		{"draining", keyed, []Attempt{silent()}, func(f *Facts) { f.Draining = true }, verdict{VerdictHandBack, 5, ReasonRuntimeDraining, ""}},
		{"draining, the first", keyed, nil, func(f *Facts) { f.Draining = true }, verdict{VerdictHandBack, 5, ReasonRuntimeDraining, ""}},
		{"the key died while it waited", keyed, []Attempt{silent()}, func(f *Facts) { f.Operation.Retention = 5 * time.Second }, unresolved(8, ReasonAmbiguous)},
		{"also after a server error", keyed, []Attempt{response(503)}, func(f *Facts) { f.Operation.Retention = 5 * time.Second }, unresolved(8, ReasonAmbiguous)},
		{"doubt without a key", none, []Attempt{silent(), notSent()}, nil, unresolved(8, ReasonAmbiguous)},
		{"doubt that a confirmed absence settled", none, []Attempt{settled(silent())}, nil, goes},
		{"accepted, not settled", none, []Attempt{response(202)}, nil, unresolved(8, ReasonAmbiguous)},
		{"known to have acted", keyed, []Attempt{response(201), notSent()}, nil, verdict{VerdictClose, 0, ReasonApplied, StateSuccess}},
	}
	for _, tt := range tests {
		tt.run(t, MayStart)
	}
}
