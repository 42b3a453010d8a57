package outcome

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is an upstream that keeps its contract and nothing more, and the
// history of one command sent to it. It knows what the decisions do not: how
// often the command really acted.
type world struct {
	facts   Facts
	effects int       // how often it acted
	acted   time.Time // when the key was first used for it
	running bool      // accepted, and not finished yet
}

// newWorld draws a contract, a policy and a deadline.
func newWorld(t *rapid.T) *world {
	seconds := func(label string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * time.Second
	}
	f := Facts{
		Now:  t0,
		Body: rapid.SampledFrom(append(Bodies(), BodyReplayable, BodyReplayable)).Draw(t, "body"),
		Operation: Operation{
			Idempotency:     rapid.SampledFrom(Idempotencies()).Draw(t, "idempotency"),
			Retention:       seconds("retention", 0, 300),
			RetentionMargin: 10 * time.Second, // an attempt takes no longer
			StoresErrors:    rapid.Bool().Draw(t, "stores errors"),
			HasLookup:       rapid.Bool().Draw(t, "has lookup"),
			CanRefreshAuth:  rapid.Bool().Draw(t, "can refresh"),
		},
		Retry: Retry{
			MaxAttempts:       rapid.IntRange(1, 12).Draw(t, "max attempts"),
			MinAttemptWindow:  seconds("window", 0, 5),
			Backoff:           Backoff{seconds("initial", 0, 5), seconds("max", 1, 60), rapid.SampledFrom(Jitters()).Draw(t, "jitter")},
			TransientStatuses: rapid.SampledFrom([][]int{nil, {500}}).Draw(t, "transient"),
			WhenBudgetEmpty:   rapid.SampledFrom(WhenEmpties()).Draw(t, "when empty"),
		},
		BudgetTokens: 1,
		Random:       func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "random") },
	}
	if rapid.Bool().Draw(t, "authoritative") {
		f.Operation.AuthoritativeRefusals = []int{422}
	}
	f.Deadline = t0.Add(seconds("deadline", 0, 600))
	return &world{facts: f}
}

// act is one arrival of the request at the upstream, which honours its contract.
func (w *world) act(at time.Time) {
	op := w.facts.Operation
	switch op.Idempotency {
	case IdempotencySafe:
		return
	case IdempotencyNatural:
		w.effects = 1
		return
	case IdempotencyKeyed:
		if w.effects > 0 && at.Before(w.acted.Add(op.Retention)) {
			return // the key is remembered
		}
	}
	if w.effects == 0 {
		w.acted = w.firstArrival(at)
	}
	w.effects++
}

// firstArrival is the start of the first attempt that may have arrived: an
// upstream may count the life of a key from there.
func (w *world) firstArrival(at time.Time) time.Time {
	for _, a := range w.facts.Attempts {
		if a.Evidence != EvidenceNotSent && !a.Settled {
			return a.StartedAt
		}
	}
	return at
}

// attempt makes one attempt and lets time pass.
func (w *world) attempt(t *rapid.T, refresh bool) {
	a := Attempt{StartedAt: w.facts.Now, Category: CategoryNone, RefreshedAuth: refresh}
	took := time.Duration(rapid.IntRange(0, 9).Draw(t, "took")) * time.Second
	arrives := rapid.Bool().Draw(t, "acts")
	a.Evidence = EvidenceResponseReceived
	if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
		a.Evidence = EvidencePartialResponse
	}
	switch what := rapid.SampledFrom([]string{"not sent", "silence", "server error", "redirect", "declined", "refused", "unauthorized", "accepted", "applied"}).Draw(t, "what"); what {
	case "not sent":
		a.Evidence, arrives = EvidenceNotSent, false
		a.Category = rapid.SampledFrom([]Category{CategoryConnectRefused, CategoryConnectRefused, CategoryCertificateInvalid}).Draw(t, "category")
	case "silence":
		a.Evidence, a.Category = EvidenceSentNoResponse, CategoryHeaderTimeout
	case "server error":
		a.Status = rapid.SampledFrom([]int{500, 501, 502, 503, 504}).Draw(t, "status")
		a.RetryAfter = rapid.SampledFrom([]string{"", "7", "90", "-1"}).Draw(t, "retry after")
	case "redirect":
		a.Status = 303
	case "declined":
		a.Status, arrives = rapid.SampledFrom([]int{408, 425, 429}).Draw(t, "status"), false
		a.RetryAfter = rapid.SampledFrom([]string{"", "7", "90", "-1"}).Draw(t, "retry after")
	case "refused":
		a.Status, arrives = w.refusal(), false
	case "unauthorized":
		a.Status, arrives = 401, false
	case "accepted":
		a.Status, arrives, w.running = 202, true, true
	case "applied":
		a.Status, arrives = 200, true
	}
	if arrives {
		w.act(w.facts.Now.Add(took))
	}
	w.facts.Now = w.facts.Now.Add(took)
	a.EndedAt = w.facts.Now
	w.facts.Attempts = append(w.facts.Attempts, a)
}

// refusal is the status of a refusal. Where it would speak for the key, the
// upstream gives it only while the key has done nothing.
func (w *world) refusal() int {
	if w.effects > 0 || w.running {
		return 409
	}
	return 422
}

// between lets the world change before the next attempt.
func (w *world) between(t *rapid.T, due time.Time) {
	late := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, time.Minute, time.Hour}).Draw(t, "late")
	w.facts.Now = due.Add(late)
	w.facts.CancelRequested = rapid.IntRange(0, 9).Draw(t, "cancel") == 0
	w.facts.BudgetTokens = float64(rapid.IntRange(0, 3).Draw(t, "tokens"))
	w.facts.NextTokenIn = time.Duration(rapid.IntRange(0, 100).Draw(t, "next token")) * time.Second
}

// settle confirms, truly, that nothing was done, and gives the command up for
// another try.
func (w *world) settle() {
	for i := range w.facts.Attempts {
		w.facts.Attempts[i].Settled = true
	}
}

// TestHistories sends commands to an upstream that keeps its contract until
// they end, and then compares what is said with what was done.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		d := Decide(w.facts)
		for d.Outcome == nil {
			if err := broken(w.facts, d); err != nil {
				t.Fatalf("%v\nfacts %+v\ndecision %+v", err, w.facts, d)
			}
			w.facts.PreviousWait = d.Wait
			w.between(t, d.RetryAt)
			start := MayStart(w.facts)
			if start.Outcome != nil {
				d = start
				break
			}
			w.attempt(t, d.Reason == ReasonAuthRefresh)
			d = Decide(w.facts)
			if d.Outcome != nil && d.Outcome.State == StateUnresolved && w.effects == 0 && !w.running && rapid.Bool().Draw(t, "absence") {
				w.settle()
				d = Decision{Verdict: VerdictRetry, RetryAt: w.facts.Now, Rule: 9, Reason: ReasonSentNoResponse}
				if MayStart(w.facts).Verdict != VerdictRetry {
					d = MayStart(w.facts)
				}
			}
		}
		w.judge(t, d)
	})
}

// judge compares the outcome with the truth.
func (w *world) judge(t *rapid.T, d Decision) {
	if err := broken(w.facts, d); err != nil {
		t.Fatalf("%v\nfacts %+v\ndecision %+v", err, w.facts, d)
	}
	wrong := ""
	switch state := d.Outcome.State; {
	case w.effects > 1:
		wrong = "acted more than once"
	case (state == StateRejected || state == StateCancelled) && (w.effects > 0 || w.running):
		wrong = "acted, and is said not to have"
	case state == StateSuccess && w.effects == 0 && w.facts.Operation.Idempotency != IdempotencySafe:
		wrong = "did not act, and is said to have"
	case len(w.facts.Attempts) > w.facts.Retry.MaxAttempts:
		wrong = "more attempts than allowed"
	case d.Outcome.SafeToResubmit && w.effects > 0:
		wrong = "acted, and may be submitted again"
	}
	if wrong != "" {
		t.Fatalf("%s: %+v\nfacts %+v", wrong, *d.Outcome, w.facts)
	}
}

// TestDecideIsPure: the same facts give the same decision and stay as they were.
func TestDecideIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.facts.Random = nil
		w.attempt(t, false)
		w.attempt(t, false)
		before := append([]Attempt(nil), w.facts.Attempts...)
		first, second := Decide(w.facts), Decide(w.facts)
		if verdictOf(first) != verdictOf(second) || !first.RetryAt.Equal(second.RetryAt) {
			t.Fatalf("%+v, then %+v", first, second)
		}
		for i := range before {
			if before[i] != w.facts.Attempts[i] {
				t.Fatalf("attempt %d was changed", i)
			}
		}
	})
}
