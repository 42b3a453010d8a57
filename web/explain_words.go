package web

import (
	"fmt"
	"strings"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// The sentences of the command page, by the words of the record. A test fails
// where a word has none.

// waitWords complete "Attempt 2 starts".
var waitWords = map[commands.WaitFor]string{
	commands.WaitBackoff:    "when the pause between two attempts is over.",
	commands.WaitPermit:     "as soon as one of the upstream's places for requests under way is free.",
	commands.WaitRate:       "as soon as the upstream's rate limit has room.",
	commands.WaitRetryToken: "when the upstream's retry budget has a token again.",
	commands.WaitThrottle:   "when the time is over that the upstream asked everybody to wait.",
	commands.WaitPaused:     "only after a person has resumed the upstream: it is paused.",
	commands.WaitFrozen:     "only after a person has resumed the deployment: it is frozen, or the data is another deployment's.",
	commands.WaitCredential: "when a secret that the profile names is there: it is missing, and looked for again and again.",
	commands.WaitFile:       "when the files of its body can be read again: their volume is not there, or does not answer, and is tried again and again.",
	commands.WaitNotBefore:  "when the moment has come before which the caller wants nothing sent.",
}

// unresolvedWords stand where no attempt can be named.
var unresolvedWords = map[outcome.OutcomeReason]string{
	outcome.OutcomeReasonRemotePending:   "The upstream accepted it and has not said yet what became of it.",
	outcome.OutcomeReasonNoResponse:      "No answer came: the upstream may or may not have done it.",
	outcome.OutcomeReasonPartialResponse: "The answer broke off before it said enough: the upstream may or may not have done it.",
	outcome.OutcomeReasonUnclearResponse: "The answer does not say whether it was done: the upstream may or may not have done it.",
}

// cancelledWords say why it is known that nothing was done.
var cancelledWords = map[outcome.OutcomeReason]string{
	outcome.OutcomeReasonCancelledByCaller: "The caller cancelled it before anything was done.",
	outcome.OutcomeReasonNeverSent:         "Nothing was ever sent: every attempt failed before the first byte of the request left.",
	outcome.OutcomeReasonDeclined:          "The upstream said \"not now\", and did nothing.",
	outcome.OutcomeReasonNoEffect:          "None of its attempts did anything at the upstream.",
	outcome.OutcomeReasonConfirmedAbsent:   "The upstream has nothing of it, long enough after the last attempt: it never arrived.",
}

// successWords and rejectedWords say where the knowledge comes from.
var successWords = map[outcome.DecidedBy]string{
	outcome.DecidedByAttempt:      "The upstream did it and confirmed it.",
	outcome.DecidedByDeadline:     "The upstream did it and confirmed it.",
	outcome.DecidedByCancel:       "The upstream did it and confirmed it, before the cancel.",
	outcome.DecidedByLookup:       "The upstream was asked, and showed that it was done.",
	outcome.DecidedByLateEvidence: "The upstream did it: the confirmation came late.",
	outcome.DecidedByNotice:       "The upstream did it, and said so by itself.",
	outcome.DecidedByReport:       "The upstream did it: its settlement report lists it.",
	outcome.DecidedByOperator:     "A person found that the upstream did it.",
}

var rejectedWords = map[outcome.DecidedBy]string{
	outcome.DecidedByAttempt:      "The upstream refused it, and nothing was done.",
	outcome.DecidedByDeadline:     "The upstream refused it, and nothing was done.",
	outcome.DecidedByCancel:       "The upstream refused it, and nothing was done.",
	outcome.DecidedByLookup:       "The upstream was asked, and showed that it had refused it: nothing was done.",
	outcome.DecidedByLateEvidence: "The upstream refused it, and nothing was done: the refusal came late.",
	outcome.DecidedByNotice:       "The upstream said by itself that it had refused it: nothing was done.",
	outcome.DecidedByReport:       "The upstream's settlement report says that it was refused: nothing was done.",
	outcome.DecidedByOperator:     "A person found that the upstream refused it: nothing was done.",
}

// handedWords complete "A person decides, because".
var handedWords = map[string]string{
	commands.ReviewNoLookup:           "the profile names no way to ask the upstream",
	reconcile.ReviewScheduleUsedUp:    "the upstream was asked for as long as planned and the answer is still not known",
	reconcile.ReviewLookupUnavailable: "no lookup brought any evidence",
	reconcile.ReviewNothingToAsk:      "there is nothing to ask the upstream by",
	reconcile.ReviewConfirmedAbsent:   "lookups found that it never arrived, and the profile leaves the rest to a person",
	reconcile.ReviewFoundThenAbsent:   "the upstream knew it once and does not any more",
	reconcile.ReviewReportOnly:        "the profile lets lookups report only, and move nothing",
}

// sourceWords begin a sentence about what was learnt.
var sourceWords = map[outcome.DecidedBy]string{
	outcome.DecidedByLookup:       "a lookup",
	outcome.DecidedByLateEvidence: "the late answer",
	outcome.DecidedByNotice:       "a notice of the upstream",
	outcome.DecidedByReport:       "a settlement report",
	outcome.DecidedByOperator:     "a person",
}

// findingClaims and answerClaims complete "says that it was".
var findingClaims = map[outcome.Finding]string{
	outcome.FindingApplied: "done",
	outcome.FindingRefused: "refused",
	outcome.FindingPending: "accepted and is under way",
	outcome.FindingAbsent:  "never there",
	outcome.FindingUnknown: "something nobody can tell",
}

var answerClaims = map[outcome.Answer]string{
	outcome.AnswerNone:     "left without an answer",
	outcome.AnswerApplied:  "done",
	outcome.AnswerPending:  "accepted and is under way",
	outcome.AnswerRefused:  "refused",
	outcome.AnswerDeclined: "declined for now",
	outcome.AnswerUnclear:  "answered without telling whether it was done",
}

// reasonWords complete "because".
var reasonWords = map[outcome.Reason]string{
	outcome.ReasonFirstAttempt:      "it is the first attempt",
	outcome.ReasonApplied:           "the upstream confirmed it",
	outcome.ReasonPending:           "the upstream accepted it and finishes it by itself",
	outcome.ReasonRefused:           "the upstream refused it",
	outcome.ReasonCancelRequested:   "the caller asked to cancel it",
	outcome.ReasonMaxAttempts:       "the attempts that the profile allows are used up",
	outcome.ReasonBudgetExhausted:   "the upstream's retry budget is empty",
	outcome.ReasonBodyNotReplayable: "its body can be sent only once",
	outcome.ReasonAlreadyDelivered:  "the caller already has an outcome",
	outcome.ReasonRuntimeDraining:   "this process was stopping",
	outcome.ReasonDeadline:          "its deadline leaves no room for another attempt",
	outcome.ReasonPermanentFailure:  "another attempt would fail in the same way",
	outcome.ReasonAmbiguous:         "the upstream may have done it, and does not promise that a repeat is harmless",
	outcome.ReasonStoredError:       "the upstream stores its error under the key and would give the same again",
	outcome.ReasonStatusDenied:      "the profile does not repeat after such an answer",
	outcome.ReasonAuthRefresh:       "a fresh credential may turn the refusal",
	outcome.ReasonNotSent:           "nothing was sent, so another attempt is harmless",
	outcome.ReasonSentNoResponse:    "no answer came, and the upstream's contract makes a repeat harmless",
	outcome.ReasonPartialResponse:   "the answer broke off, and the upstream's contract makes a repeat harmless",
}

// stopWords are those of a reason; a status has its own.
func stopWords(r outcome.Reason) (string, bool) {
	if status, ok := strings.CutPrefix(string(r), "status_"); ok && reasonWords[r] == "" {
		return fmt.Sprintf("the upstream answered %s, after which the profile allows a repeat", status), true
	}
	words, ok := reasonWords[r]
	return words, ok
}
