package web

import (
	"fmt"

	"executor/commands"
	"executor/outcome"
)

// evidenceSentence says what was seen of sending and receiving.
func evidenceSentence(s sight) string {
	handed := fmt.Sprintf("%s of %s bytes", number(s.BytesHandedOver), number(s.BytesTotal))
	switch s.Evidence {
	case outcome.EvidenceNotSent:
		return "Proven: the upstream received nothing of the request."
	case outcome.EvidenceSentNoResponse:
		switch {
		case s.Category == outcome.CategoryExecutorLost:
			return "Nobody knows how much of the request was handed over, and no final response header came back."
		case s.BytesHandedOver < s.BytesTotal:
			return "A part of the request was handed over (" + handed + "), and no final response header came back."
		default:
			return "The request was handed over whole (" + handed + "), and no final response header came back."
		}
	case outcome.EvidenceResponseReceived:
		return fmt.Sprintf("Final headers came back, and the body to its end (%s bytes).", number(s.ResponseBytes))
	case outcome.EvidencePartialResponse:
		return fmt.Sprintf("Final headers came back, and the body broke off after %s bytes.", number(s.ResponseBytes))
	default:
		return "The attempt is open: nothing is on record yet of how it ended."
	}
}

// boundarySentence says why the attempt counts as it does.
func boundarySentence(kind outcome.Idempotency, s sight) string {
	switch {
	case s.SettledBy != "" && s.Answer != outcome.AnswerApplied:
		return "It counts as not crossed now: a confirmed absence came after it."
	case kind == outcome.IdempotencySafe && s.Boundary == outcome.BoundaryNotCrossed:
		return "The operation only reads: there is nothing it could have changed."
	case s.Evidence == outcome.EvidenceNotSent:
		return "What was never sent cannot have done anything."
	case s.Answer == outcome.AnswerRefused, s.Answer == outcome.AnswerDeclined:
		return "The upstream said that it did nothing."
	case s.Answer == outcome.AnswerApplied:
		return "The upstream said that it did it."
	case s.Answer == outcome.AnswerPending:
		return "The upstream said that it accepted it."
	case s.Evidence == "":
		return "Not known before it ends."
	default:
		return "Nothing tells what the upstream did: it counts as possibly done."
	}
}

// decisionSentence says what the rules made of it.
func decisionSentence(s sight) string {
	if s.Decision == "" {
		return "None is on record for this attempt."
	}
	text := verdictWords[s.Decision]
	if words, ok := stopWords(s.Reason); ok {
		text += ", because " + words
	}
	return text + "."
}

// verdictWords begin a decision's sentence.
var verdictWords = map[outcome.Verdict]string{
	outcome.VerdictComplete:   "This answer ends the command",
	outcome.VerdictRetry:      "Another attempt is made",
	outcome.VerdictWaitBudget: "Another attempt is made once the retry budget has a token",
	outcome.VerdictHandBack:   "Another process goes on",
	outcome.VerdictClose:      "Nothing more is sent",
}

// ruleNames are the nine rules in their order, after what comes before them.
var ruleNames = []string{
	"before the rules", "attempts used up", "retry budget", "body replayable", "already delivered", "draining",
	"deadline too near", "permanent failure", "ambiguous", "by answer",
}

// ruleName is a rule's number and name.
func ruleName(n int) string {
	if n < 0 || n >= len(ruleNames) {
		return fmt.Sprintf("rule %d", n)
	}
	if n == 0 {
		return capital(ruleNames[0])
	}
	return fmt.Sprintf("Rule %d: %s", n, ruleNames[n])
}

// stageWords say how far an attempt got.
var stageWords = map[outcome.Stage]string{
	outcome.StageAdmission: "checked against the profile, credentials fetched",
	outcome.StagePermit:    "waiting for a place among the requests under way",
	outcome.StageDNS:       "looking up the host's addresses",
	outcome.StageConnect:   "connecting",
	outcome.StageTLS:       "agreeing on TLS",
	outcome.StageWrite:     "handing over the request",
	outcome.StageHeaders:   "waiting for final response headers",
	outcome.StageBody:      "reading the response body",
	outcome.StageDone:      "through to the end",
}

// categoryWords say what went wrong.
var categoryWords = map[outcome.Category]string{
	outcome.CategoryNone:               "nothing went wrong on the way",
	outcome.CategoryProfileRejected:    "the profile forbids this request",
	outcome.CategoryRequestInvalid:     "no valid request can be made of it",
	outcome.CategoryAddressForbidden:   "the host resolves to an address that is not dialled",
	outcome.CategoryCertificateInvalid: "the upstream did not prove who it is",
	outcome.CategoryPermitTimeout:      "no place among the requests under way became free in time",
	outcome.CategoryPoolTimeout:        "no connection of the pool became free in time",
	outcome.CategoryDNSFailure:         "the host's addresses could not be found",
	outcome.CategoryConnectRefused:     "the connection was refused",
	outcome.CategoryConnectTimeout:     "no connection came about in time",
	outcome.CategoryConnectFailure:     "no connection came about",
	outcome.CategoryTLSFailure:         "TLS could not be agreed on",
	outcome.CategoryRefusedStream:      "the upstream refused the stream unread",
	outcome.CategoryWriteFailure:       "handing over the request broke off",
	outcome.CategoryHeaderTimeout:      "no response header came in time",
	outcome.CategoryConnectionReset:    "the connection was cut",
	outcome.CategoryBodyTimeout:        "the response body did not end in time",
	outcome.CategoryBodyTruncated:      "the response body broke off",
	outcome.CategoryBodyUndecodable:    "the response body could not be decoded",
	outcome.CategoryAttemptTimeout:     "the attempt as a whole ran out of time",
	outcome.CategoryExecutorLost:       "our own process died or lost its lease",
	outcome.CategoryAuthFailure:        "no credential could be had",
}

// effectWords say what became of a piece of knowledge.
var effectWords = map[commands.Effect]string{
	commands.EffectSettled:  "It moved the command.",
	commands.EffectKept:     "An attempt was under way: it is weighed when that ends.",
	commands.EffectNone:     "It changed nothing.",
	commands.EffectConflict: "It contradicts the settled state: only a person changes that.",
}

// briefly is an attempt in two or three words, for the drawing and the summary.
func briefly(s sight) string {
	switch {
	case s.Evidence == "":
		return "under way"
	case s.Evidence == outcome.EvidenceNotSent:
		return "not sent: " + capitalless(s.Category)
	case s.Evidence == outcome.EvidenceSentNoResponse:
		return "no answer: " + capitalless(s.Category)
	case s.Answer == outcome.AnswerNone:
		return fmt.Sprintf("%d", s.Status)
	default:
		return fmt.Sprintf("%d, %s", s.Status, s.Answer)
	}
}

// capitalless is a word of the record as words of a sentence.
func capitalless(c outcome.Category) string {
	switch c {
	case outcome.CategoryNone, "":
		return "no failure"
	default:
		return string(c)
	}
}
