package outcome

import (
	"testing"
	"time"
)

// everyAttempt is every evidence with every answer by every kind of status, in
// the given categories.
func everyAttempt(categories ...Category) []Attempt {
	statuses := []int{0, 100, 200, 202, 204, 303, 401, 404, 408, 422, 425, 429, 500, 501, 502, 503, 504, 999}
	var all []Attempt
	for _, e := range append(Evidences(), "") {
		for _, status := range statuses {
			for _, answer := range append(Answers(), AnswerNone) {
				for _, c := range categories {
					all = append(all, Attempt{Evidence: e, Status: status, Answer: answer, Category: c})
				}
			}
		}
	}
	return all
}

// histories are what may have gone before.
func histories() [][]Attempt {
	return [][]Attempt{
		nil,
		{notSent()},
		{silent()},
		{settled(silent())},
		{response(503), response(429)},
		{response(202)},
		{response(201)},
	}
}

// circumstances are what else a decision depends on, one or two at a time.
func circumstances() []func(*Facts) {
	return []func(*Facts){
		cancelled,
		noTokens,
		func(f *Facts) { f.Operation.Retention = 0 },
		func(f *Facts) { f.Operation.Retention, f.Operation.RetentionMargin = time.Minute, 50*time.Second },
		func(f *Facts) {
			refreshable(f)
			storesErrors(f)
			f.Operation.AuthoritativeRefusals = []int{401, 422}
			f.Retry.TransientStatuses = []int{500}
		},
		func(f *Facts) { f.Deadline = f.Now.Add(1500 * time.Millisecond) },
		func(f *Facts) { f.Draining, f.Body = true, BodyReopenable },
		func(f *Facts) {
			f.Attempts[len(f.Attempts)-1].RetryAfter = "120"
			f.Deadline = f.Now.Add(2 * time.Minute)
		},
		func(f *Facts) { f.Attempts[len(f.Attempts)-1].RetryAfter = "60" },
		func(f *Facts) { f.Attempts[len(f.Attempts)-1].Settled = true },
	}
}

// TestEnumerated decides everything there is to decide and checks what must
// hold of every decision.
func TestEnumerated(t *testing.T) {
	usual := func(*Facts) {}
	every := everyAttempt(Categories()...)
	typical := everyAttempt(CategoryNone, CategoryHeaderTimeout, CategoryCertificateInvalid)
	for _, kind := range append(Idempotencies(), "") {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			enumerate(t, kind, every, usual)
			for _, with := range circumstances() {
				enumerate(t, kind, typical, with)
			}
		})
	}
}

func enumerate(t *testing.T, kind Idempotency, attempts []Attempt, with func(*Facts)) {
	t.Helper()
	for _, history := range histories() {
		for _, a := range attempts {
			f := factsFor(kind, append(history[:len(history):len(history)], a)...)
			with(&f)
			for _, d := range []Decision{Decide(f), MayStart(f)} {
				if err := broken(f, d); err != nil {
					t.Fatalf("%v\nfacts %+v\ndecision %+v", err, f, d)
				}
			}
		}
	}
}

// TestEarlierDenialStands triggers every set of the rules that facts alone can
// trigger, over every attempt that reaches the rules: the first of them answers,
// whatever the later ones would have said.
func TestEarlierDenialStands(t *testing.T) {
	triggers := []struct {
		rule int
		pull func(*Facts)
	}{
		{1, func(f *Facts) { f.Retry.MaxAttempts = 1 }},
		{2, func(f *Facts) { f.BudgetTokens, f.Retry.WhenBudgetEmpty = 0, WhenEmptyClose }},
		{3, func(f *Facts) { f.Body = BodyOneShot }},
		{4, func(f *Facts) { f.OutcomeDelivered = true }},
		{5, func(f *Facts) { f.Draining = true }},
		{6, func(f *Facts) { f.Deadline = f.Now }},
		{7, func(f *Facts) { f.Attempts[0].Category = CategoryCertificateInvalid }},
	}
	attempts := []Attempt{
		notSent(), silent(), response(303), response(408), response(425), response(429),
		response(500), response(501), response(502), response(503), partial(303), partial(503),
	}
	for _, kind := range Idempotencies() {
		for _, a := range attempts {
			alone := Decide(factsFor(kind, a))
			for set := 1; set < 1<<len(triggers); set++ {
				f, first := factsFor(kind, a), 0
				for i, trigger := range triggers {
					if set&(1<<i) == 0 {
						continue
					}
					trigger.pull(&f)
					if first == 0 {
						first = trigger.rule
					}
				}
				d := Decide(f)
				if d.Rule != first || d.Verdict == VerdictRetry || d.Verdict == VerdictWaitBudget {
					t.Errorf("%s, %s %d (%d alone): rule %d is triggered first, %d answered with %q",
						kind, a.Evidence, a.Status, alone.Rule, first, d.Rule, d.Verdict)
				}
			}
		}
	}
}

// TestAskStopsAtTheFirstDenial looks at the mechanism itself: over every
// question, the rule that denied is the first of the nine that denies when
// each is asked alone.
func TestAskStopsAtTheFirstDenial(t *testing.T) {
	for _, kind := range Idempotencies() {
		for _, history := range histories() {
			for _, a := range everyAttempt(Categories()...) {
				f := factsFor(kind, append(history[:len(history):len(history)], a)...)
				q := questionAfter(f)
				number, answered := q.ask(func(rule) bool { return true })
				first := 0
				for i, r := range rules() {
					if r.judge(q).denial {
						first = i + 1
						break
					}
				}
				if answered.denial && number != first || !answered.denial && first != 0 {
					t.Fatalf("rule %d answered %+v, rule %d denies first: %+v", number, answered, first, f)
				}
				if answered.verdict == "" {
					t.Fatalf("no rule answered: %+v", f)
				}
			}
		}
	}
}
