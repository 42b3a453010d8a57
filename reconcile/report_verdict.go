package reconcile

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// reportCandidate is a command that a line may be about.
type reportCandidate struct {
	Number    int // of the line
	ID        uuid.UUID
	State     outcome.State
	Since     time.Time // it has been as it is, or was accepted
	Reference string    // of its outcome
	Operation string
	Version   int // of its profile
}

// verdict is what the comparison says of one line.
type verdict struct {
	Kind        ReportKind
	Command     *reportCandidate
	Differences []Difference
	DuplicateOf int // number of the first line about the command
	Problem     string
	Evidence    bool // may be passed on
}

// about finds the one command that a line names. Whatever it names has to be the
// same one: two that fit are none. A line that cannot be compared has its kind at
// once, and yet it mentions the command.
func about(l reportLine, candidates []reportCandidate) verdict {
	v := oneCommand(candidates)
	if l.Problem != "" {
		v.Kind, v.Problem = ReportUnreadable, l.Problem
	}
	return v
}

func oneCommand(candidates []reportCandidate) verdict {
	if len(candidates) == 0 {
		return verdict{Kind: ReportMissingHere}
	}
	ids := make([]string, 0, len(candidates))
	for _, c := range candidates {
		if id := c.ID.String(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 1 {
		return verdict{Kind: ReportAmbiguous, Problem: "the line fits several commands: " + strings.Join(ids, ", ")}
	}
	return verdict{Command: &candidates[0]}
}

// weigh compares a line with the command that it is about. A line whose fields
// differ is no evidence about the command, whatever its state says.
func (v *verdict) weigh(l reportLine, compare []Comparison, ours []*fieldText, settled time.Time) {
	c := v.Command
	stateDiffers := !sameMeaning(c.State, l.Finding)
	if stateDiffers {
		v.Differences = append(v.Differences, Difference{Field: fieldState, Ours: string(c.State), Theirs: l.Word})
	}
	if l.Reference != "" && c.Reference != "" && l.Reference != c.Reference {
		v.Differences = append(v.Differences, Difference{Field: fieldReference, Ours: c.Reference, Theirs: l.Reference})
	}
	for i, field := range compare {
		if !equalValues(ours[i], l.Given[i]) {
			v.Differences = append(v.Differences, Difference{Field: field.Field, Ours: shown(ours[i]), Theirs: given(l.Given[i])})
		}
	}
	switch {
	case v.DuplicateOf > 0:
		v.Kind = ReportDuplicate
	case len(v.Differences) == 0:
		v.Kind = ReportMatched
	case c.Since.After(settled):
		v.Kind = ReportTooYoung
	default:
		v.Kind = ReportDifferent
		v.Evidence = stateDiffers && len(v.Differences) == 1 && tells(c.State, l.Finding)
	}
}

// sameMeaning reports whether the report says of a command what we say: done, not
// done, or not yet known.
func sameMeaning(state outcome.State, f outcome.Finding) bool {
	switch state {
	case outcome.StateSuccess:
		return f == outcome.FindingApplied
	case outcome.StateRejected:
		return f == outcome.FindingRefused
	case outcome.StateCancelled:
		return f == outcome.FindingAbsent
	default:
		return f == outcome.FindingPending
	}
}

// tells reports whether a differing state is evidence. That something is not in
// the upstream's books is none: it may come yet. What is pending moves nothing, and
// yet it is there, which contradicts that it was refused or never arrived.
func tells(state outcome.State, f outcome.Finding) bool {
	switch f {
	case outcome.FindingApplied, outcome.FindingRefused:
		return true
	case outcome.FindingPending:
		return state == outcome.StateRejected || state == outcome.StateCancelled
	default:
		return false
	}
}

func shown(v *fieldText) string {
	if v == nil {
		return ""
	}
	return v.text
}

func given(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
