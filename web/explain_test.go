package web

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// waits are what a pending command can wait for. The test of the words finds out if
// one is missing.
var waits = []commands.WaitFor{
	commands.WaitBackoff, commands.WaitPermit, commands.WaitRate, commands.WaitRetryToken, commands.WaitThrottle, commands.WaitPaused,
	commands.WaitFrozen, commands.WaitCredential, commands.WaitFile, commands.WaitNotBefore,
}

func TestEveryWordHasItsSentence(t *testing.T) {
	has(t, "waiting for", waitWords, waits)
	has(t, "a wait of the source", waitWords, constants[commands.WaitFor](t, "../commands/command.go", "WaitFor"))
	has(t, "a review's reason", handedWords, slices.Concat(
		constants[string](t, "../reconcile/doubt.go", ""), []string{commands.ReviewNoLookup}))
	has(t, "an effect", effectWords, constants[commands.Effect](t, "../commands/learn.go", "Effect"))
	has(t, "success by", successWords, outcome.Deciders())
	has(t, "rejected by", rejectedWords, outcome.Deciders())
	has(t, "the source", sourceWords, slices.DeleteFunc(outcome.Deciders(), func(by outcome.DecidedBy) bool {
		return by == outcome.DecidedByAttempt || by == outcome.DecidedByDeadline || by == outcome.DecidedByCancel
	}))
	has(t, "finding", findingClaims, outcome.Findings())
	has(t, "answer", answerClaims, append(outcome.Answers(), outcome.AnswerNone))
	has(t, "reason", reasonWords, outcome.Reasons())
	has(t, "verdict", verdictWords, outcome.Verdicts())
	has(t, "stage", stageWords, outcome.Stages())
	has(t, "category", categoryWords, outcome.Categories())
	for _, reason := range outcome.OutcomeReasons() {
		places := 0
		for _, words := range []map[outcome.OutcomeReason]string{unresolvedWords, cancelledWords} {
			if words[reason] != "" {
				places++
			}
		}
		settled := reason == outcome.OutcomeReasonApplied || reason == outcome.OutcomeReasonRefused // told by who decided
		if settled != (places == 0) || places > 1 {
			t.Errorf("the reason %s has %d sentences", reason, places)
		}
	}
	if words, ok := stopWords(outcome.ReasonStatus(503)); !ok || !strings.Contains(words, "503") {
		t.Errorf("status_503 is told as %q", words)
	}
}

func has[T ~string](t *testing.T, what string, words map[T]string, list []T) {
	t.Helper()
	if len(list) == 0 {
		t.Errorf("%s: nothing to look for", what)
	}
	for _, word := range list {
		if words[word] == "" {
			t.Errorf("%s %q has no sentence", what, word)
		}
	}
}

// constants are the values of a type's constants in a source file; of untyped ones
// where the type is "".
func constants[T ~string](t *testing.T, file, kind string) []T {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pattern := `(?m)^\t[A-Z]\w+\s+` + kind + `\s*= "(\w+)"`
	var list []T
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
		list = append(list, T(found[1]))
	}
	return list
}

func TestTheRulesHaveTheirNames(t *testing.T) {
	source, err := os.ReadFile("../outcome/rules.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "return []rule{\n")
	list, _, _ = strings.Cut(list, "\n\t}\n")
	found := regexp.MustCompile(`\{(\w+), (?:true|false)\}`).FindAllStringSubmatch(list, -1)
	if len(found) != len(ruleNames)-1 {
		t.Fatalf("there are %d rules and %d names", len(found), len(ruleNames)-1)
	}
	for i, rule := range found {
		words := strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(rule[1], " $0"))
		if ruleNames[i+1] != words {
			t.Errorf("rule %d is %q, not %q", i+1, words, ruleNames[i+1])
		}
	}
}

// at is a moment of the tests.
var at = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

// tried is an ended attempt.
func tried(n int, e outcome.Evidence, a outcome.Answer, status int) commands.Excerpt {
	end := at.Add(time.Duration(n) * time.Second)
	x := commands.Excerpt{}
	x.Number, x.StartedAt, x.EndedAt, x.Evidence, x.Answer, x.Status = n, end.Add(-time.Second), &end, e, a, status
	x.Category, x.Boundary = outcome.CategoryNone, outcome.BoundaryOf(outcome.IdempotencyNone, e, a)
	return x
}

// accountOf is a command with attempts, and what follows from them.
func accountOf(state outcome.State, attempts ...commands.Excerpt) account {
	a := account{kind: outcome.IdempotencyNone, attempts: attempts}
	a.command = commands.Command{State: state, Attempts: len(attempts)}
	a.command.Record.Boundary = outcome.BoundaryNotCrossed
	for _, x := range attempts {
		if x.Boundary != outcome.BoundaryNotCrossed {
			a.command.Record.Boundary, a.command.Record.MayHaveCrossed = x.Boundary, true
		}
	}
	return a
}

func (a account) ended(reason outcome.OutcomeReason, by outcome.DecidedBy, stopped outcome.Reason) account {
	a.command.Outcome = &commands.Outcome{
		State: a.command.State, Reason: reason, DecidedBy: by, StoppedBy: stopped, DecidedAt: at, SafeToResubmit: a.command.State == outcome.StateCancelled,
	}
	return a
}

func (a account) waited(what commands.WaitFor) account {
	a.command.Outcome.WaitedFor = what
	return a
}

func (a account) phase(phase, handed string, next *time.Time) account {
	a.command.Reconciliation, a.handed = &commands.Reconciliation{Phase: phase, NextLookupAt: next}, handed
	return a
}

func TestAnExplanationIsTrue(t *testing.T) {
	lost := tried(2, outcome.EvidenceSentNoResponse, outcome.AnswerNone, 0)
	unclear := tried(1, outcome.EvidenceResponseReceived, outcome.AnswerUnclear, 500)
	refused := tried(1, outcome.EvidenceResponseReceived, outcome.AnswerRefused, 422)
	open := commands.Excerpt{}
	open.Number, open.StartedAt, open.LatestEnd = 2, at, at.Add(time.Minute)
	absent := accountOf(outcome.StateCancelled, lost).ended(outcome.OutcomeReasonConfirmedAbsent, outcome.DecidedByLookup, outcome.ReasonAmbiguous)
	conflict := absent
	conflict.command.Reconciliation = &commands.Reconciliation{Phase: commands.PhaseClosed, Conflicts: 1}
	conflict.learnt = []commands.Learnt{{Source: outcome.DecidedByNotice, Finding: outcome.FindingApplied, Effect: commands.EffectConflict, At: at}}
	proven := accountOf(outcome.StateUnresolved, unclear, lost).ended(outcome.OutcomeReasonUnclearResponse, outcome.DecidedByAttempt, outcome.ReasonAmbiguous)
	proven.learnt = []commands.Learnt{{Source: outcome.DecidedByLateEvidence, Attempt: 2, Evidence: outcome.EvidenceNotSent, Effect: commands.EffectNone}}
	cancelling := accountOf(outcome.StateExecuting, refused, open)
	cancelling.command.CancelRequested = true
	for name, tt := range map[string]struct {
		a    account
		says []string
	}{
		"nothing sent": {accountOf(outcome.StatePending), []string{"nothing has been sent yet", "it ends as cancelled", "may still be sent"}},
		"no answer": {accountOf(outcome.StateUnresolved, refused, lost).ended(outcome.OutcomeReasonNoResponse, outcome.DecidedByAttempt, outcome.ReasonAmbiguous),
			[]string{"No answer came to attempt 2: the upstream may or may not have done it.", "Do not submit it again under a new key"}},
		"unclear": {accountOf(outcome.StateUnresolved, unclear).ended(outcome.OutcomeReasonUnclearResponse, outcome.DecidedByAttempt, outcome.ReasonStatusDenied),
			[]string{"Attempt 1 was answered 500, which does not say whether it was done"}},
		"late proof that the last was not sent": {proven, []string{"Attempt 1 was answered 500"}},
		"accepted": {accountOf(outcome.StateUnresolved, tried(1, outcome.EvidenceResponseReceived, outcome.AnswerPending, 202)).ended(outcome.OutcomeReasonRemotePending, outcome.DecidedByAttempt, outcome.ReasonPending).phase("lookup", "", &at),
			[]string{"The upstream accepted attempt 1 (202)", "How it ends there", "The upstream is asked"}},
		"review": {accountOf(outcome.StateUnresolved, lost).ended(outcome.OutcomeReasonNoResponse, outcome.DecidedByAttempt, outcome.ReasonAmbiguous).phase("review", reconcile.ReviewScheduleUsedUp, nil),
			[]string{"A person decides, because the upstream was asked for as long as planned", "Nobody has taken it on yet."}},
		"on the wire": {accountOf(outcome.StateExecuting, refused, open), []string{"Attempt 2 is on the wire since 2026-11-30 04:00:00 UTC.", "may or may not have acted", "A cancel does not cut the attempt off"}},
		"cancelling":  {cancelling, []string{"asked to cancel", "no other follows"}},
		"never sent for want of a secret": {accountOf(outcome.StateCancelled).ended(outcome.OutcomeReasonNeverSent, outcome.DecidedByDeadline, outcome.ReasonDeadline).
			waited(commands.WaitCredential), []string{"Until then it waited for a secret that is missing."}},
		"never sent": {accountOf(outcome.StateCancelled, tried(1, outcome.EvidenceNotSent, outcome.AnswerNone, 0)).ended(outcome.OutcomeReasonNeverSent, outcome.DecidedByDeadline, outcome.ReasonDeadline),
			[]string{"Nothing was ever sent", "because its deadline leaves no room", "under a NEW key"}},
		"absent":   {absent, []string{"it never arrived", "under a NEW key"}},
		"conflict": {conflict, []string{"stands as cancelled. But a notice of the upstream says that it was done, on 2026-11-30", "a person corrects", "before the conflict is settled"}},
		"refusal over doubt": {accountOf(outcome.StateRejected, lost, refused).ended(outcome.OutcomeReasonRefused, outcome.DecidedByAttempt, outcome.ReasonRefused),
			[]string{"speaks for the earlier attempts"}},
	} {
		e := explain(tt.a)
		said := strings.Join([]string{e.Known, e.Unknown, e.Next, e.Safe}, "\n")
		for _, text := range tt.says {
			if !strings.Contains(said, text) {
				t.Errorf("%s: it does not say %q:\n%s", name, text, said)
			}
		}
	}
}

// TestListsTellOfNoAttempt: what was never tried is not said to have failed, nor to be
// tried again.
func TestListsTellOfNoAttempt(t *testing.T) {
	for attempts, want := range map[int]string{
		0: "Nothing was ever sent: no attempt was made. It was given up: ",
		1: "Nothing was ever sent: every attempt failed before the first byte of the request left. It was not tried again: ",
	} {
		c := accountOf(outcome.StateCancelled).ended(outcome.OutcomeReasonNeverSent, outcome.DecidedByDeadline, outcome.ReasonDeadline).command
		c.Attempts = attempts
		if got := whyOf(c); !strings.HasPrefix(got, want) {
			t.Errorf("after %d attempts: %s", attempts, got)
		}
	}
}

// TestNoExplanationIsEmpty goes through every state with every reason, phase and wait.
func TestNoExplanationIsEmpty(t *testing.T) {
	for _, state := range outcome.States() {
		for _, reason := range outcome.OutcomeReasons() {
			if (state == outcome.StateUnresolved && unresolvedWords[reason] == "") || (state == outcome.StateCancelled && cancelledWords[reason] == "") {
				continue // they do not occur together
			}
			for _, by := range outcome.Deciders() {
				for _, phase := range []string{"", "lookup", "review", commands.PhaseClosed} {
					for _, wait := range waits {
						a := accountOf(state).ended(reason, by, outcome.ReasonDeadline)
						if phase != "" {
							a = a.phase(phase, "", nil)
						}
						a.command.Waiting = &commands.Waiting{For: wait}
						e := explain(a)
						for _, said := range []string{e.Known, e.Unknown, e.Next, e.Safe} {
							if said == "" || strings.Contains(said, "  ") || strings.HasPrefix(said, " ") {
								t.Fatalf("%s %s %s %s %s: %+v", state, reason, by, phase, wait, e)
							}
							if strings.Contains(strings.ToLower(said), "retry ") && !strings.Contains(said, "retry budget") {
								t.Errorf("%s tells people to retry: %s", state, said)
							}
						}
						if safe := strings.Contains(e.Safe, "NEW key"); safe != (state == outcome.StateCancelled) {
							t.Errorf("%s %s: %s", state, reason, e.Safe)
						}
					}
				}
			}
		}
	}
}
