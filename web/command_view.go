package web

import (
	"fmt"
	"html/template"
	"time"

	"executor/commands"
	"executor/internal/bodyfiles"
	"executor/outcome"
	"executor/reconcile"
)

// attemptView is an attempt as the page shows it.
type attemptView struct {
	sight                // as it was recorded
	Unfolded      bool   // its details are shown at once
	Briefly       string // as it is known now
	Took          string // "" while it is open
	Since         string // the first one shown started; "" for itself
	EvidenceText  string
	StageWords    string
	CategoryWords string
	BoundaryText  string
	RuleName      string
	DecisionText  string
	Late          *learntView
	Stages        []stageTime
	Sent          []namedText
	URL           template.HTML
	Received      []namedText
	Body          excerpt
	BodyPath      string
}

// stageTime is how long a stage took.
type stageTime struct{ Words, Took string }

// manyAttempts are so many that only the telling ones are unfolded.
const manyAttempts = 8

// foldedBytes is how much is shown of a body that somebody has to unfold first,
// where there are many of them.
const foldedBytes = 2 << 10

// attemptViews shows the attempts of a command. The last one and those that may have
// acted are what a reader looks for.
func attemptViews(a account) []attemptView {
	known := a.sights()
	last := a.lastDoubtful()
	late := map[int]commands.Learnt{}
	for _, l := range a.learnt {
		if l.Source == outcome.DecidedByLateEvidence {
			late[l.Attempt] = l
		}
	}
	list := make([]attemptView, len(a.attempts))
	for i, attempt := range a.attempts {
		view := newAttemptView(a.kind, sight{Excerpt: attempt})
		view.Briefly = briefly(known[i])
		view.Unfolded = i == len(list)-1 || known[i].doubtful() && (len(list) <= manyAttempts || last != nil && attempt.Number == last.Number)
		most := shownBytes
		if !view.Unfolded && len(list) > manyAttempts {
			most = foldedBytes
		}
		view.addBody(a.command, most)
		if i > 0 {
			view.Since = "+" + duration(attempt.StartedAt.Sub(a.attempts[0].StartedAt))
		}
		if l, ok := late[attempt.Number]; ok {
			shown := newLearntView(l)
			view.Late = &shown
		}
		list[i] = view
	}
	return list
}

func newAttemptView(kind outcome.Idempotency, s sight) attemptView {
	view := attemptView{
		sight: s, EvidenceText: evidenceSentence(s), StageWords: stageWords[s.Stage], CategoryWords: categoryWords[s.Category],
		BoundaryText: boundarySentence(kind, s), RuleName: ruleName(s.Rule), DecisionText: decisionSentence(s),
		Sent: sentHeaders(s.Request.Headers), URL: marked(s.Request.URL), Received: receivedHeaders(s.ResponseHeaders),
	}
	if s.EndedAt != nil {
		view.Took = duration(s.EndedAt.Sub(s.StartedAt))
	}
	for _, kind := range waterfallKinds {
		if ms := s.Timings[kind.Kind]; ms > 0 {
			view.Stages = append(view.Stages, stageTime{kind.Words, stageDuration(ms)})
		}
	}
	return view
}

// stageDuration keeps the microseconds of a short stage.
func stageDuration(ms float64) string {
	switch {
	case ms < 0.01:
		return "under 0.01ms"
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	default:
		return millis(ms)
	}
}

func (v *attemptView) addBody(c commands.Command, most int) {
	v.Body = newExcerpt(v.ResponseBody, v.StoredBytes, most)
	v.Body.Came, v.Body.Cut, v.Body.SHA256 = v.ResponseBytes, v.ResponseTruncated, digest(v.ResponseSHA256)
	v.BodyPath = fmt.Sprintf("/commands/%s/attempts/%d/body", c.ID, v.Number)
}

// StageMS is how long one stage took, for the table.
func (v attemptView) StageMS(kind string) string {
	if ms := v.Timings[kind]; ms > 0 {
		return stageDuration(ms)
	}
	return ""
}

// DeadlineLeft is the time that the command had left when the attempt started.
func (v attemptView) DeadlineLeft() time.Duration {
	return time.Duration(v.DeadlineLeftMS) * time.Millisecond
}

// requestView is what the command asks of the upstream.
type requestView struct {
	Method  string
	Path    template.HTML
	Headers []namedText
	Kind    outcome.Body
	Files   []bodyfiles.Placed // sent within the body
	Body    excerpt
}

// lookupView is a question to the upstream with its raw answer.
type lookupView struct {
	reconcile.Excerpt
	Unfolded bool
	Took     string
	URL      template.HTML
	Sent     []namedText
	Received []namedText
	Body     excerpt
}

// lookupViews shows them; where the doubt is open, the newest is unfolded.
func lookupViews(lookups []reconcile.Excerpt, open bool) []lookupView {
	list := make([]lookupView, len(lookups))
	for i, l := range lookups {
		list[i] = lookupView{
			Excerpt: l, Unfolded: open && i == len(lookups)-1, Took: duration(l.EndedAt.Sub(l.StartedAt)), URL: marked(l.Request.URL), Sent: sentHeaders(l.Request.Headers),
			Received: receivedHeaders(l.ResponseHeaders), Body: newExcerpt(l.ResponseBody, l.StoredBytes, shownBytes),
		}
		list[i].Body.Cut = l.Truncated
	}
	return list
}

// CategoryWords says what went wrong with a lookup, if anything did.
func (v lookupView) CategoryWords() string {
	if v.Category == outcome.CategoryNone {
		return ""
	}
	return categoryWords[v.Category]
}

// noticeView is what the upstream said by itself.
type noticeView struct {
	reconcile.Notice
	Received []namedText
	Body     excerpt
}

func noticeViews(notices []reconcile.Notice) []noticeView {
	list := make([]noticeView, len(notices))
	for i, n := range notices {
		list[i] = noticeView{Notice: n, Received: receivedHeaders(n.Headers), Body: newExcerpt(n.Body, int64(len(n.Body)), shownBytes)}
		list[i].Body.SHA256 = digest(n.BodySHA256)
	}
	return list
}

// learntView is knowledge that came by another way than an attempt's own end.
type learntView struct {
	commands.Learnt
	SourceWords string
	Claim       string
	EffectWords string
	Observation template.HTML
}

func learntViews(learnt []commands.Learnt) []learntView {
	list := make([]learntView, len(learnt))
	for i, l := range learnt {
		list[i] = newLearntView(l)
	}
	return list
}

func newLearntView(l commands.Learnt) learntView {
	view := learntView{Learnt: l, SourceWords: capital(sourceWords[l.Source]), EffectWords: effectWords[l.Effect], Observation: marked(pretty(l.Observation))}
	if l.Finding != "" {
		view.Claim = findingClaims[l.Finding]
	} else {
		view.Claim = answerClaims[l.Answer]
	}
	if l.Effect == commands.EffectConflict && l.ResolvedAt != nil {
		view.EffectWords = "It contradicted the settled state; a person has dealt with it."
	}
	return view
}

// eventView is a line of the command's account.
type eventView struct {
	commands.Event
	Data template.HTML
}
