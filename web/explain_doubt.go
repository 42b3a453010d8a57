package web

import (
	"fmt"

	"executor/commands"
	"executor/outcome"
)

// sight is an attempt as it is known now: what was recorded of it, with the newest
// late evidence laid over it.
type sight struct {
	commands.Excerpt
	Late bool // what is shown came after the attempt was closed
}

// sights are the attempts, oldest first; of an open one nothing is known.
func (a account) sights() []sight {
	late := map[int]commands.Learnt{}
	for _, l := range a.learnt {
		if l.Source == outcome.DecidedByLateEvidence && l.Attempt > 0 {
			late[l.Attempt] = l
		}
	}
	var list []sight
	for _, attempt := range a.attempts {
		s := sight{Excerpt: attempt}
		if l, ok := late[attempt.Number]; ok {
			s.Evidence, s.Category, s.Answer, s.Status, s.Late = l.Evidence, l.Category, l.Answer, l.Status, true
			s.Boundary = outcome.BoundaryOf(a.kind, l.Evidence, l.Answer)
		}
		list = append(list, s)
	}
	return list
}

// doubtful reports whether the attempt may have acted, and nothing has settled that.
func (s sight) doubtful() bool {
	return s.Boundary == outcome.BoundaryPossiblyCrossed && s.SettledBy == ""
}

// lastDoubtful is the last attempt that may have acted or is said to be under way at
// the upstream; nil if there is none.
func (a account) lastDoubtful() *sight {
	var last *sight
	for _, s := range a.sights() {
		if pending := s.Answer == outcome.AnswerPending && s.SettledBy == ""; s.doubtful() || pending {
			last = &s
		}
	}
	return last
}

// pendingSight is the last attempt that the upstream accepted without saying more.
func (a account) pendingSight() *sight {
	var last *sight
	for _, s := range a.sights() {
		if s.Answer == outcome.AnswerPending && s.SettledBy == "" {
			last = &s
		}
	}
	return last
}

// doubt says what is missing for an answer. An attempt that the upstream accepted
// outweighs those that nothing is known of.
func (a account) doubt() string {
	if s := a.pendingSight(); s != nil {
		return doubtAbout(*s)
	}
	if s := a.lastDoubtful(); s != nil {
		return doubtAbout(*s)
	}
	if o := a.command.Outcome; o != nil && a.command.State == outcome.StateUnresolved {
		return unresolvedWords[o.Reason]
	}
	return "An attempt may have reached the upstream: it may or may not have done it."
}

// doubtAbout is the sentence about one attempt.
func doubtAbout(s sight) string {
	const either = ": the upstream may or may not have done it."
	switch {
	case s.Answer == outcome.AnswerPending:
		return fmt.Sprintf("The upstream accepted attempt %d (%d) and has not said yet what became of it.", s.Number, s.Status)
	case s.Detail == commands.DoubtDetail && !s.Late:
		return "The database was promoted or restored, and the record of an attempt may be lost" + either
	case s.Category == outcome.CategoryExecutorLost:
		return fmt.Sprintf("The process that made attempt %d was lost before its answer was on record%s", s.Number, either)
	case s.Evidence == outcome.EvidencePartialResponse:
		return fmt.Sprintf("The answer to attempt %d (%d) broke off before it said enough%s", s.Number, s.Status, either)
	case s.Evidence == outcome.EvidenceResponseReceived:
		return fmt.Sprintf("Attempt %d was answered %d, which does not say whether it was done%s", s.Number, s.Status, either)
	default:
		return fmt.Sprintf("No answer came to attempt %d%s", s.Number, either)
	}
}
