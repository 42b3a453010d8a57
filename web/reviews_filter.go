package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"executor/reconcile"
)

// reviewQuery is what the address of the queue asks for, as it was written.
type reviewQuery struct {
	Kind, Upstream, Operation, Reason, Evidence, Assignee, Older, Metadata, Label, Min, Max, Sort string

	Cursor string
	Wrong  map[string]string // by the name of the field
}

// reviewFields are the names of the fields, in the order of an address.
var reviewFields = []string{"kind", "upstream", "operation", "reason", "evidence", "assignee", "older_than", "metadata", "label", "min", "max", "sort"}

func (q *reviewQuery) field(name string) *string {
	return map[string]*string{
		"kind": &q.Kind, "upstream": &q.Upstream, "operation": &q.Operation, "reason": &q.Reason, "evidence": &q.Evidence, "assignee": &q.Assignee,
		"older_than": &q.Older, "metadata": &q.Metadata, "label": &q.Label, "min": &q.Min, "max": &q.Max, "sort": &q.Sort,
	}[name]
}

// readReviewQuery reads the query of an address.
func readReviewQuery(values url.Values) reviewQuery {
	q := reviewQuery{Cursor: values.Get("cursor"), Wrong: map[string]string{}}
	for _, name := range reviewFields {
		*q.field(name) = strings.TrimSpace(values.Get(name))
	}
	if q.Sort != reconcile.ReviewSortDeadline {
		q.Sort = ""
	}
	return q
}

// Encode is the query without a page.
func (q reviewQuery) Encode() string { return q.values().Encode() }

func (q reviewQuery) values() url.Values {
	values := url.Values{}
	for _, name := range reviewFields {
		if text := *q.field(name); text != "" {
			values.Set(name, text)
		}
	}
	return values
}

// Narrowed reports whether anything but the order is asked for.
func (q reviewQuery) Narrowed() bool {
	q.Sort = ""
	return q.Encode() != ""
}

// filter is the query for the store. me is who asks. What cannot be read is named in
// Wrong.
func (q *reviewQuery) filter(tenant, me string) reconcile.ReviewFilter {
	f := reconcile.ReviewFilter{Tenant: tenant, Upstream: q.Upstream, Operation: q.Operation, Sort: q.Sort, Cursor: q.Cursor}
	one := func(text string) []string {
		return slices.DeleteFunc([]string{text}, func(s string) bool { return s == "" })
	}
	f.Kinds, f.Reasons, f.Evidence = one(q.Kind), one(q.Reason), one(q.Evidence)
	switch q.Assignee {
	case "":
	case "me":
		f.Assignee = &me
	case "nobody":
		f.Assignee = new("")
	default:
		f.Assignee = new(q.Assignee)
	}
	if q.Older != "" {
		d, err := time.ParseDuration(q.Older)
		if err != nil || d < 0 {
			q.Wrong["older_than"] = "A span such as 90m or 24h."
		}
		f.OlderThan = max(d, 0)
	}
	q.filterMetadata(&f)
	return f
}

func (q *reviewQuery) filterMetadata(f *reconcile.ReviewFilter) {
	if q.Metadata != "" {
		key, value, ok := strings.Cut(q.Metadata, "=")
		if !ok {
			q.Wrong["metadata"] = "A name and a value, such as order=42."
		}
		f.Metadata = map[string]string{strings.TrimSpace(key): strings.TrimSpace(value)}
	}
	if (q.Min != "" || q.Max != "") && q.Label == "" {
		q.Wrong["label"] = "Name the metadata that is to be compared, such as amount."
		return
	}
	if q.Min != "" {
		f.MetadataMin = map[string]string{q.Label: q.Min}
	}
	if q.Max != "" {
		f.MetadataMax = map[string]string{q.Label: q.Max}
	}
}
