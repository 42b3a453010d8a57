package upstreams

import (
	"fmt"
	"net/http"

	"executor/outcome"
)

// Response is what came back of one attempt, or of one lookup.
type Response struct {
	Status       int
	Headers      http.Header // canonical names
	Body         []byte
	BodyComplete bool // read to its end, and not cut at a limit
	Attempt      int  // number of the attempt, from 1; 0 for lookups and notices
	InDoubt      bool // an attempt before it may have acted

	// Target is the path and query of the request, which a relative link counts
	// from; "" = the path of base_url.
	Target string
}

// Judgement is a response read through the profile.
type Judgement struct {
	Answer    outcome.Answer
	Reference string // the upstream's name for what was done; "" = not known
	Code      string // of a refusal or another failure
	Message   string // for people
	Link      string // path and query on the upstream's origin where its state can be seen; "" = not known
	// RetryAfter is when to come back by the rule that answered, as it was given; "" = the
	// rule does not say.
	RetryAfter string
	NeedsBody  bool     // the rule that answered reads the body
	Rule       string   // which rule answered, for people
	Notes      []string // what went wrong while reading
}

const (
	defaultTable = "default table"

	maxReference = 512 // bytes; a longer one is no name
	maxCode      = 200
	maxMessage   = 2000
)

// Judge says what a response means: by the first rule that matches, else by the
// default table, where a success has to show what `require` asks for. A rule
// that cannot be evaluated ends the search with `unclear`; so does one that
// depends on a body which is not there whole.
func (o *Operation) Judge(r Response) Judgement {
	j, _ := o.judge(r)
	return j
}

// JudgeAndTell is Judge, and beside it what may be told of the response: read by the
// same rule from what the profile does not redact.
func (o *Operation) JudgeAndTell(r Response) (j, told Judgement) {
	j, rule := o.judge(r)
	if len(o.Redaction.Response) == 0 {
		return j, j
	}
	r.Body = o.RedactBody(r.Body, false)
	w := &judging{reading: reading{response: r}, operation: o, Judgement: Judgement{Answer: j.Answer}, rule: rule}
	w.tell()
	return j, w.Judgement
}

func (o *Operation) judge(r Response) (Judgement, Rule) {
	w := &judging{reading: reading{response: r}, operation: o}
	w.answer()
	w.tell()
	if w.Answer == outcome.AnswerPending || w.Answer == outcome.AnswerUnclear && w.rule.Link != nil {
		w.readLink()
	}
	w.RetryAfter = w.evaluate("retry_after", w.rule.RetryAfter)
	w.Notes = w.notes
	return w.Judgement, w.rule
}

// tell reads what goes with the answer.
func (w *judging) tell() {
	o := w.operation
	if w.Answer == outcome.AnswerApplied || w.Answer == outcome.AnswerPending {
		w.readReference(o.Result.Reference)
	} else {
		w.readReference(nil)
		w.Code = w.text("rejection.code", o.Rejection.Code, maxCode)
		w.Message = w.text("rejection.message", o.Rejection.Message, maxMessage)
	}
}

// judging is one response while it is judged.
type judging struct {
	reading
	Judgement
	operation *Operation
	rule      Rule // that matched; zero if none did
}

func (w *judging) answer() {
	for i, rule := range w.operation.Answers {
		label := fmt.Sprintf("answers[%d]: %s", i, clip(rule.When.Source, 200))
		matched, err := rule.When.Bool(w.vars())
		if err != nil {
			w.unclear(label, rule.When, w.failure(rule.When, err))
			return
		}
		if matched {
			w.Answer, w.Rule, w.NeedsBody, w.rule = rule.Answer, label, rule.When.needsBody, rule
			return
		}
	}
	w.Answer, w.Rule = outcome.DefaultAnswer(w.response.Status), defaultTable
	if w.Answer == outcome.AnswerApplied {
		w.require()
	}
}

// require looks for what a success has to show.
func (w *judging) require() {
	for i, e := range w.operation.Result.Require {
		label := fmt.Sprintf("result.require[%d]: %s", i, clip(e.Source, 200))
		holds, err := e.Bool(w.vars())
		switch {
		case err != nil:
			w.unclear(label, e, w.failure(e, err))
			return
		case !holds:
			w.unclear(label, e, "it does not hold")
			return
		}
		w.NeedsBody = w.NeedsBody || e.needsBody
	}
}

func (w *judging) unclear(label string, e *Expression, why string) {
	w.Answer, w.Rule, w.NeedsBody = outcome.AnswerUnclear, label, e.needsBody
	w.note(label + ": " + why)
}

// readReference takes the reference from the rule that matched, else from
// fallback.
func (w *judging) readReference(fallback *Expression) {
	e := w.rule.Reference
	if e == nil {
		e = fallback
	}
	w.Reference = w.cleanReference(w.evaluate("reference", e))
}
