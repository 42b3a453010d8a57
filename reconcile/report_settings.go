package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

// The fields of a line that the comparison knows. The first three name a command.
const (
	fieldCommand   = "command_id"
	fieldKey       = "key"
	fieldReference = "reference"
	fieldState     = "state"
	fieldCode      = "code"
	fieldMessage   = "message"
)

var (
	reportFields = []string{fieldCommand, fieldKey, fieldReference, fieldState, fieldCode, fieldMessage}
	namingFields = reportFields[:3]
)

// reportWords are the words that need no explanation.
var reportWords = map[string]outcome.Finding{
	"success": outcome.FindingApplied, "applied": outcome.FindingApplied,
	"rejected": outcome.FindingRefused, "refused": outcome.FindingRefused,
	"cancelled": outcome.FindingAbsent, "absent": outcome.FindingAbsent,
	"pending": outcome.FindingPending, "executing": outcome.FindingPending, "unresolved": outcome.FindingPending,
}

const maxComparisons = 16

// reportSettings say how a report's lines are read. They are stored with it.
type reportSettings struct {
	Columns   map[string]string          `json:"columns"`
	States    map[string]outcome.Finding `json:"states"` // in lower case
	Compare   []Comparison               `json:"compare"`
	Delimiter string                     `json:"delimiter,omitempty"`
}

// finding is what a word of the report means; false for one that nobody
// explained, which is never guessed.
func (s reportSettings) finding(word string) (outcome.Finding, bool) {
	word = strings.ToLower(strings.TrimSpace(word))
	if f, ok := s.States[word]; ok {
		return f, true
	}
	f, ok := reportWords[word]
	return f, ok
}

// reportPlan is a request that can be carried out.
type reportPlan struct {
	ReportRequest
	upstreamID int64
	settings   reportSettings
}

// plan checks a request. What the caller can mend is a *commands.Invalid.
func (s *Store) plan(ctx context.Context, r ReportRequest) (*reportPlan, error) {
	up, err := s.upstreams.Get(ctx, r.Tenant, r.Upstream)
	if errors.Is(err, upstreams.ErrNotFound) {
		return nil, badReport("upstream", "unknown_upstream", "There is no upstream %q.", r.Upstream)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", commands.ErrUnavailable, err)
	}
	if _, ok := up.Profile.Operation(r.Operation); r.Operation != "" && !ok {
		return nil, badReport("operation", "unknown_operation", "The upstream %q has no operation %q.", r.Upstream, r.Operation)
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = MaxReportBytes
	}
	p := &reportPlan{ReportRequest: r, upstreamID: up.ID}
	for _, check := range []func() error{p.checkFormat, p.checkPeriod, p.readColumns, p.readStates, p.readCompare} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *reportPlan) checkFormat() error {
	p.settings.Delimiter = p.Delimiter
	switch {
	case !slices.Contains(ReportFormats(), p.Format):
		return badReport("format", "invalid", "A report is csv or jsonl, not %q.", p.Format)
	case p.Delimiter == "":
		return nil
	case p.Format != ReportCSV:
		return badReport("delimiter", "forbidden", "Only CSV has a delimiter.")
	case !slices.Contains([]string{",", ";", "\t", "|"}, p.Delimiter):
		return badReport("delimiter", "invalid", "A delimiter is a comma, a semicolon, a tab or a bar.")
	default:
		return nil
	}
}

func (p *reportPlan) checkPeriod() error {
	for name, at := range map[string]time.Time{"from": p.From, "until": p.Until} {
		if !at.IsZero() && (at.Year() < 1970 || at.Year() > 9999) {
			return badReport(name, "invalid", "%q is no moment that a command could have.", at)
		}
	}
	switch {
	case !p.From.IsZero() && !p.Until.IsZero() && !p.From.Before(p.Until):
		return badReport("until", "invalid", "The period ends before it begins.")
	case p.SettlesFor < 0:
		return badReport("settles_for", "invalid", "A duration is not negative.")
	default:
		return nil
	}
}

func (p *reportPlan) readColumns() error {
	p.settings.Columns = maps.Clone(p.Columns)
	for field, column := range p.Columns {
		if !slices.Contains(reportFields, field) {
			return badReport("columns."+field, "unknown", "There is no field %q; there are: %s.", field, strings.Join(reportFields, ", "))
		}
		if column == "" {
			return badReport("columns."+field, "required", "A column needs a name.")
		}
	}
	return nil
}

func (p *reportPlan) readStates() error {
	p.settings.States = make(map[string]outcome.Finding, len(p.States))
	for word, meaning := range p.States {
		f, ok := reportWords[meaning]
		if !ok {
			return badReport("states."+word, "invalid", "A word means success, rejected, cancelled or pending, not %q.", meaning)
		}
		word = strings.ToLower(strings.TrimSpace(word))
		if other, twice := p.settings.States[word]; twice && other != f {
			return badReport("states."+word, "conflict", "The word %q is given two meanings; upper and lower case are the same.", word)
		}
		p.settings.States[word] = f
	}
	return nil
}

func (p *reportPlan) readCompare() error {
	p.settings.Compare = p.Compare
	if len(p.Compare) > maxComparisons {
		return badReport("compare", "too_long", "At most %d columns are compared.", maxComparisons)
	}
	for _, c := range p.Compare {
		if c.Column == "" {
			return badReport("compare", "required", "A comparison needs a column.")
		}
		if _, err := parseField(c.Field); err != nil {
			return badReport("compare."+c.Column, "invalid", "%s", err)
		}
	}
	return nil
}

// period is the one in which commands are looked for in the report; nil ends for
// none. What is accepted after the upload cannot be in it.
func (p *reportPlan) period(now time.Time) (from, until *time.Time) {
	if p.From.IsZero() && p.Until.IsZero() {
		return nil, nil
	}
	from, until = new(p.From), new(p.Until)
	if p.From.IsZero() {
		from = new(time.Unix(0, 0))
	}
	if p.Until.IsZero() || p.Until.After(now) {
		until = &now
	}
	return from, until
}

func (s reportSettings) encode() string {
	data, _ := json.Marshal(s) // texts always encode
	return string(data)
}

// badReport is a request or a file that can never be compared as it stands.
func badReport(pointer, code, format string, args ...any) *commands.Invalid {
	detail := fmt.Sprintf(format, args...)
	return &commands.Invalid{Detail: detail, Fields: []upstreams.FieldError{{Pointer: pointer, Code: code, Detail: detail}}}
}
