package upstreams

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxTarget = 8 << 10 // bytes of path and query that servers commonly take

// parameters lists the parameters that a command has to give.
func (o *Operation) parameters() []string {
	names := o.path.parameters()
	for _, q := range o.query {
		for _, name := range q.value.parameters() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// parameters lists what a lookup asks by.
func (l Lookup) parameters() []string {
	path, _ := parseTemplate(l.Path) // it was parsed with the profile
	names := path.parameters()
	for _, q := range l.Query {
		value, _ := parseTemplate(q.Value)
		names = append(names, value.parameters()...)
	}
	return names
}

// target renders path and query.
func (r *rendering) target(key string) string {
	o := r.operation
	r.checkParameters()
	value := func(name string) string { return r.input.Params[name] }
	path := o.profile.Base.EscapedPath() + o.path.expand(func(name string) string { return escape(value(name)) })
	var query []string
	for _, q := range o.query {
		query = append(query, escape(q.name)+"="+escape(q.value.expand(value)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.input.Query)) {
		switch v := r.input.Query[name]; {
		case !slices.Contains(o.CallerQuery, name):
			r.fail(pointer("query", name), "forbidden", "The profile does not let callers set this query parameter"+listed(o.CallerQuery)+".")
		case !plainText(v):
			r.fail(pointer("query", name), "invalid", "Control characters and broken UTF-8 are refused.")
		default:
			query = append(query, escape(name)+"="+escape(v))
		}
	}
	if k := o.Idempotency.Key; key != "" && k.In == KeyInQuery {
		query = append(query, escape(k.Name)+"="+escape(key))
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	if len(path) > maxTarget {
		r.fail("/params", "too_long", fmt.Sprintf("Path and query have %d bytes, at most %d are sent.", len(path), maxTarget))
	}
	return path
}

// checkParameters refuses values that would make another path: an empty segment,
// dots that servers or proxies resolve (isDots), and control characters.
// Everything else is escaped.
func (r *rendering) checkParameters() {
	known, inPath := r.operation.parameters(), r.operation.path.parameters()
	for _, name := range known {
		v, given := r.input.Params[name]
		switch {
		case !given:
			r.fail(pointer("params", name), "required", "The path needs this parameter.")
		case v == "":
			r.fail(pointer("params", name), "invalid", "An empty value would change the path.")
		case v == "." || v == "..", slices.Contains(inPath, name) && isDots(v):
			r.fail(pointer("params", name), "invalid", fmt.Sprintf("%q would change the path.", clip(v, 60)))
		case !plainText(v):
			r.fail(pointer("params", name), "invalid", "Control characters and broken UTF-8 are refused.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.input.Params)) {
		if !slices.Contains(known, name) {
			r.fail(pointer("params", name), "unknown", "The operation has no such parameter"+listed(known)+".")
		}
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	return "; there are " + strings.Join(names, ", ")
}

func plainText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
