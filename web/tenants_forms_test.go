package web_test

import (
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"executor/internal/testkit/tenants"
)

// webForm is a form of a page as a browser would send it, all boxes ticked.
type webForm struct {
	action string // path without query
	post   bool
	fields url.Values
}

var (
	formTag   = regexp.MustCompile(`(?s)<form\b([^>]*)>(.*?)</form>`)
	fieldTag  = regexp.MustCompile(`(?s)<(input|button)\b([^>]*)>|<(select)\b([^>]*)>(.*?)</select>|<(textarea)\b([^>]*)>(.*?)</textarea>`)
	optionTag = regexp.MustCompile(`<option\b([^>]*)>`)
	attribute = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// attributes are those of a tag.
func attributes(tag string) map[string]string {
	found := map[string]string{}
	for _, a := range attribute.FindAllStringSubmatch(tag, -1) {
		found[a[1]] = html.UnescapeString(a[2])
	}
	return found
}

// formsOf are the forms of a page.
func formsOf(p page) []webForm {
	var list []webForm
	for _, f := range formTag.FindAllStringSubmatch(p.body, -1) {
		a := attributes(f[1])
		action, _, _ := strings.Cut(a["action"], "?")
		list = append(list, webForm{action, a["method"] == "post", fieldsOf(f[2])})
	}
	return list
}

// fieldsOf are the fields of a form and what they hold.
func fieldsOf(body string) url.Values {
	fields := url.Values{}
	for _, m := range fieldTag.FindAllStringSubmatch(body, -1) {
		switch {
		case m[1] != "":
			a := attributes(m[2])
			if a["name"] == "" || a["type"] == "radio" && fields.Has(a["name"]) && !strings.Contains(m[2], " checked") {
				continue
			}
			if a["type"] == "radio" {
				fields.Del(a["name"])
			}
			fields.Add(a["name"], a["value"])
		case m[3] != "":
			fields.Set(attributes(m[4])["name"], chosen(m[5]))
		default:
			fields.Set(attributes(m[7])["name"], html.UnescapeString(m[8]))
		}
	}
	fields.Del("")
	return fields
}

// chosen is the value of a list of choices.
func chosen(options string) string {
	all := optionTag.FindAllStringSubmatch(options, -1)
	i := slices.IndexFunc(all, func(o []string) bool { return strings.Contains(o[1], " selected") })
	if len(all) == 0 {
		return ""
	}
	return attributes(all[max(i, 0)][1])["value"]
}

// typed is what somebody types into the empty fields of a form that acts.
func typed(fields url.Values, n tenants.Names) url.Values {
	for name, text := range map[string]string{
		"reason": "asked for", "text": "called them", "reference": n["reference"], "evidence_reference": "statement 7", "assignee": n["actor"], "to": "other",
		"name": n["tenant"] + "-new", "url": n["url"], "description": "more books", "overlap": "1h", "old": "not this one", "new": "a long enough word", "again": "a long enough word",
		"since": "2020-01-01T00:00", "sure": "yes", "message": "no", "code": "no", "id": n["bulk"], "source": profileOf(n),
	} {
		if fields.Has(name) && fields.Get(name) == "" {
			fields.Set(name, text)
		}
	}
	if fields.Has("item") { // a bulk action, as its second page sends it
		for name, value := range map[string]string{"do": "note", "scope": "chosen", "confirmed": "yes", "id": n["bulk"], "reason": "shift"} {
			fields.Set(name, value)
		}
	}
	return fields
}

// profileOf is of an upstream that both could have.
func profileOf(n tenants.Names) string {
	return "version: 1\nupstream: " + n["upstream"] + "\ntenant: " + n["tenant"] + "\nbase_url: https://bank.example\noperations: {pay: {method: POST, path: /p, body: json}}\n"
}

// asked are the queries of a form that filters: one for each field that can name
// something of a tenant. A field that the test knows nothing of is an error.
func asked(f webForm, n tenants.Names) (list []string, unknown []string) {
	words := map[string][]string{
		"q": {n["own"], n["key"], n["reference"], "of=" + n["tenant"]}, "upstream": {n["upstream"]}, "actor": {n["actor"]}, "command": {n["paid"]},
		"webhook": {n["webhook"]}, "event": {n["event"]}, "assignee": {n["actor"]}, "metadata": {"of=" + n["tenant"]},
		"state": {"unresolved"}, "operation": {"charge"}, "kind": {"conflict"}, "evidence": {"sent_no_response"}, "reason": {"no_response"},
		"after": {"2020-01-01T00:00"}, "before": {"2120-01-01T00:00"}, "since": {"2020-01-01T00:00"}, "until": {"2120-01-01T00:00"}, "older_than": {"1ms"},
		"action": {"command.note"}, "sort": {"deadline"}, "from": {"1"}, "to": {"1"}, "type": {"command.success"}, "role": {"viewer"},
		"label": {"of"}, "min": {"1"}, "max": {"1000"},
	}
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		values, known := words[name]
		if !known {
			unknown = append(unknown, name)
		}
		for _, value := range values {
			list = append(list, url.Values{name: {value}}.Encode())
		}
	}
	return list, unknown
}
