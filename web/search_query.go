package web

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

// searchQuery is a search as it stands in the address.
type searchQuery struct {
	Text      string
	States    []string
	Upstream  string
	Operation string
	Evidence  string
	Reason    string
	After     string
	Before    string
	Metadata  []string // name=value each
}

func (v *visit) searchQuery() searchQuery {
	query := v.r.URL.Query()
	return searchQuery{
		Text: v.query("q"), States: filled(query["state"]), Upstream: v.query("upstream"), Operation: v.query("operation"),
		Evidence: v.query("evidence"), Reason: v.query("reason"), After: fieldMoment(v.query("after")), Before: fieldMoment(v.query("before")),
		Metadata: filled(query["metadata"]),
	}
}

// filled are the values that are not empty.
func filled(values []string) (list []string) {
	for _, value := range values {
		if value = strings.TrimSpace(value); value != "" && !slices.Contains(list, value) {
			list = append(list, value)
		}
	}
	return list
}

// values is the search as an address carries it; empty fields are left out.
func (q searchQuery) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"q": q.Text, "upstream": q.Upstream, "operation": q.Operation, "evidence": q.Evidence, "reason": q.Reason, "after": q.After, "before": q.Before,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if len(q.States) > 0 {
		values["state"] = q.States
	}
	if len(q.Metadata) > 0 {
		values["metadata"] = q.Metadata
	}
	return values
}

// asks reports whether anything narrows the list.
func (q searchQuery) asks() bool { return len(q.values()) > 0 }

// alone reports whether nothing but the box narrows it.
func (q searchQuery) alone() bool { return q.Text != "" && len(q.values()) == 1 }

func (q searchQuery) has(state outcome.State) bool { return slices.Contains(q.States, string(state)) }

// MetadataFields are the fields for metadata: one for each that is asked for, or an
// empty one.
func (q searchQuery) MetadataFields() []string {
	if len(q.Metadata) == 0 {
		return []string{""}
	}
	return q.Metadata
}

// filter reads it. What cannot be read is told in a sentence.
func (q searchQuery) filter(tenant string) (commands.Filter, string) {
	f := commands.Filter{
		Tenant: tenant, Search: q.Text, States: q.States, Upstream: q.Upstream, Operation: q.Operation,
		Evidence: filled([]string{q.Evidence}), Reasons: filled([]string{q.Reason}),
	}
	for _, member := range q.Metadata {
		name, value, ok := strings.Cut(member, "=")
		if !ok {
			return f, "Metadata is asked for as name=value, such as order=42."
		}
		if f.Metadata == nil {
			f.Metadata = map[string]string{}
		}
		f.Metadata[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	after, err := typedMoment(q.After)
	before, alsoErr := typedMoment(q.Before)
	if err != nil || alsoErr != nil {
		return f, "A time is written like 2026-12-01T15:04 and is in UTC."
	}
	if !after.IsZero() {
		f.CreatedAfter = &after
	}
	if !before.IsZero() {
		f.CreatedBefore = &before
	}
	return f, ""
}

// reasonGroup is a heading with reasons to choose from.
type reasonGroup struct {
	Name    string
	Reasons []string
}

// reasonGroups are the reasons of outcomes and what can stop a command; the chosen
// one is among them, whatever it is.
func reasonGroups(chosen string) []reasonGroup {
	known, stopped := reasonGroup{Name: "What is known"}, reasonGroup{Name: "Why no more was sent"}
	for _, reason := range outcome.OutcomeReasons() {
		known.Reasons = append(known.Reasons, string(reason))
	}
	for _, reason := range outcome.Reasons() {
		if !slices.Contains(known.Reasons, string(reason)) { // one word asks for both
			stopped.Reasons = append(stopped.Reasons, string(reason))
		}
	}
	if chosen != "" && !slices.Contains(known.Reasons, chosen) {
		stopped.Reasons = withChosen(stopped.Reasons, chosen)
	}
	return []reasonGroup{known, stopped}
}

// withChosen adds what somebody chose to what can be chosen.
func withChosen(list []string, chosen string) []string {
	if chosen == "" || slices.Contains(list, chosen) {
		return list
	}
	return append(slices.Clip(list), chosen)
}

// operationNames are those of a profile, sorted.
func operationNames(p *upstreams.Profile) []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Operations))
}
