package upstreams

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"executor/outcome"
)

// aMoment is how long an attempt takes that is not ended by a timeout.
const aMoment = 100 * time.Millisecond

// transportEvents are the failures without a response.
func (o *Operation) transportEvents() []event {
	notSent := func(name string, c outcome.Category, takes time.Duration) event {
		return event{name: name, evidence: outcome.EvidenceNotSent, category: c, takes: takes}
	}
	silent := func(name string, c outcome.Category, takes time.Duration) event {
		return event{name: name, evidence: outcome.EvidenceSentNoResponse, category: c, takes: takes}
	}
	list := []event{
		notSent("the name does not resolve", outcome.CategoryDNSFailure, aMoment),
		notSent("connection refused", outcome.CategoryConnectRefused, aMoment),
		notSent("no connection in time", outcome.CategoryConnectTimeout, o.Timeouts.Connect),
		notSent("bad certificate", outcome.CategoryCertificateInvalid, aMoment),
		notSent("forbidden address", outcome.CategoryAddressForbidden, aMoment),
		silent("cut off while sending", outcome.CategoryWriteFailure, aMoment),
		silent("sent, no answer in time", outcome.CategoryHeaderTimeout, min(o.Timeouts.ResponseHeader, o.Timeouts.Total)),
		silent("sent, connection reset", outcome.CategoryConnectionReset, aMoment),
		silent("our process dies while sending", outcome.CategoryExecutorLost, o.Timeouts.Total),
	}
	if o.Body == BodyRaw || o.Body == BodyMultipart { // which alone may have files
		changed := notSent("a file of the body is another one", outcome.CategoryRequestInvalid, aMoment)
		list = append(list, changed)
		if o.Contract().Idempotency != outcome.IdempotencyNone { // of which a lost attempt is the last
			changed.name, changed.afterLost = "the same, after a lost attempt", true
			list = append(list, changed)
		}
	}
	return list
}

// ruleEvents show each rule of the profile, at a status that it names.
func (o *Operation) ruleEvents() []event {
	var out []event
	for i, rule := range o.Answers {
		e := event{
			name:     fmt.Sprintf("rule %d matches, %d", i+1, rule.When.status),
			evidence: outcome.EvidenceResponseReceived, category: outcome.CategoryNone,
			status: rule.When.status, answer: rule.Answer, readBy: fmt.Sprintf("answers[%d]", i), takes: aMoment,
		}
		if rule.When.countsAttempts || rule.When.asksDoubt {
			e.afterLost, e.name = true, e.name+", after a lost one"
		}
		out = append(out, e)
	}
	return out
}

// statusEvents show every usual status with an answer that breaks no rule: where
// the profile asks for something in it, that is there.
func (o *Operation) statusEvents() []event {
	var out []event
	for _, status := range []int{200, 201, 202, 204, 301, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504} {
		j := o.Judge(emptyObject(status, nil))
		plain := j
		if j.incomplete() {
			plain = Judgement{Answer: outcome.DefaultAnswer(status), Rule: defaultTable}
		}
		name := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
		if j.incomplete() {
			name += ", as expected"
		}
		out = append(out, answered(name, status, plain))
		if j.incomplete() {
			out = append(out, answered(fmt.Sprintf("%d, an empty object", status), status, j))
		}
		if status == http.StatusTooManyRequests {
			later := answered("429 with Retry-After: 60", status, plain)
			later.retryAfter = "60"
			out = append(out, later)
		}
	}
	return out
}

// oddAnswers are responses that look like more than they are.
func (o *Operation) oddAnswers() []event {
	cut := emptyObject(201, nil)
	cut.Body, cut.BodyComplete = []byte("{"), false
	partial := answered("201, the body cut off", 201, o.Judge(cut))
	partial.evidence, partial.category = outcome.EvidencePartialResponse, outcome.CategoryBodyTruncated

	usual := o.statusEvents()
	early := usual[slices.IndexFunc(usual, func(e event) bool { return e.status == 201 })]
	early.name = "201 before all of the request was sent"
	if early.answer == outcome.AnswerApplied || early.answer == outcome.AnswerPending {
		early.answer, early.readBy = outcome.AnswerUnclear, "too early"
	}
	page := emptyObject(200, http.Header{"Content-Type": {"text/html"}})
	page.Body = []byte("<html><title>Log in</title></html>")
	return []event{partial, early, answered("200 with an HTML page", 200, o.Judge(page))}
}

func emptyObject(status int, headers http.Header) Response {
	if headers == nil {
		headers = http.Header{"Content-Type": {"application/json"}}
	}
	return Response{Status: status, Headers: headers, Body: []byte("{}"), BodyComplete: true, Attempt: 1}
}

func answered(name string, status int, j Judgement) event {
	readBy, _, _ := strings.Cut(j.Rule, ":")
	return event{
		name: name, evidence: outcome.EvidenceResponseReceived, category: outcome.CategoryNone,
		status: status, answer: j.Answer, readBy: readBy, takes: aMoment,
	}
}

// incomplete says that a rule found something missing in the response.
func (j Judgement) incomplete() bool { return j.Answer == outcome.AnswerUnclear && len(j.Notes) > 0 }

// statusOf finds the first HTTP status that an expression names, else 200.
func statusOf(tree *ast.AST) int {
	found := 200
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind || found != 200 {
			return
		}
		if n, ok := e.AsLiteral().(types.Int); ok && n >= 100 && n <= 599 {
			found = int(n)
		}
	}))
	return found
}
