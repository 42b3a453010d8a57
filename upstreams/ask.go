package upstreams

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Question is what a lookup may ask by.
type Question struct {
	Key       string // the caller's idempotency key
	CommandID uuid.UUID
	Params    map[string]string // of the command
	Body      []byte            // of the command's request, as it was sent
	Reference string            // the upstream's name for it; "" = not known
	Link      string            // path and query where its state can be seen; "" = not known
}

// NotAskable says that a question cannot be put, because what it asks by is not
// known or cannot stand where the lookup puts it.
type NotAskable struct {
	Missing string // name of the placeholder
	Why     string
}

func (e *NotAskable) Error() string {
	return fmt.Sprintf("cannot ask by {%s}: it %s", e.Missing, e.Why)
}

// Ask makes the request of a lookup, without credentials. The error is a
// *NotAskable: another lookup may still be asked. A value is one path segment or
// one query value, whatever it holds.
func (o *Operation) Ask(l Lookup, q Question) (Request, error) {
	a := &asking{question: q, quoting: l.Quoting}
	target := a.path(o, l)
	for _, p := range l.Query {
		separator := "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		target += separator + escape(p.Name) + "=" + escape(a.queryValue(p.Value))
	}
	if a.err == nil && len(target) > maxTarget {
		a.refuse(a.longest(l), fmt.Sprintf("makes a path and query of %d bytes, at most %d are sent", len(target), maxTarget))
	}
	if a.err != nil {
		return Request{}, a.err
	}
	return Request{Method: l.Method, Path: target, Headers: o.askingHeaders()}, nil
}

// askingHeaders are those of every question. A cache on the way must not answer it
// with what was so before the command was sent (RFC 9111, section 5.2.1.4).
func (o *Operation) askingHeaders() []Header {
	headers := slices.Clone(o.profile.Headers)
	if slices.ContainsFunc(headers, func(h Header) bool { return h.Name == "Cache-Control" }) {
		return headers
	}
	return append(headers, Header{Name: "Cache-Control", Value: "no-cache"})
}

// asking is one question while it is made. The first thing that is wrong with it
// is kept.
type asking struct {
	question Question
	quoting  string
	err      error
}

func (a *asking) refuse(name, why string) {
	if a.err == nil {
		a.err = &NotAskable{Missing: name, Why: why}
	}
}

// longest is the placeholder with the longest value.
func (a *asking) longest(l Lookup) string {
	name := ""
	for _, p := range l.parameters() {
		if name == "" || len(a.value(p)) > len(a.value(name)) {
			name = p
		}
	}
	return name
}

func (a *asking) path(o *Operation, l Lookup) string {
	if l.Path == linkPath {
		return a.link()
	}
	path, _ := parseTemplate(l.Path) // it was parsed with the profile
	last := ""
	target := path.expand(func(name string) string {
		last = name
		return escape(a.segment(name))
	})
	if slices.ContainsFunc(strings.Split(target, "/"), isDots) { // by what the template adds
		a.refuse(last, "would change the path")
	}
	return o.profile.Base.EscapedPath() + target
}

// segment is a value as a path segment: one that is empty, "." or ".." makes
// another path.
func (a *asking) segment(name string) string {
	v := a.value(name)
	if isDots(v) {
		a.refuse(name, fmt.Sprintf("is %q, which would change the path", v))
	}
	return v
}

// isDots says whether a segment leads elsewhere in the path: as "." and "..", or
// as soon as somebody on the way takes an escaped slash for a slash, escapes away
// twice, or drops what follows a semicolon, which proxies and servers do. One that
// vanishes then leads elsewhere too.
func isDots(segment string) bool {
	if segment == "" {
		return false
	}
	for range 3 {
		vanishes := true
		for _, part := range strings.FieldsFunc(segment, func(c rune) bool { return c == '/' || c == '\\' }) {
			if part, _, _ = strings.Cut(part, ";"); part == "." || part == ".." {
				return true
			}
			vanishes = vanishes && part == ""
		}
		decoded, err := url.PathUnescape(segment)
		if vanishes || err != nil || decoded == segment {
			return vanishes
		}
		segment = decoded
	}
	return false
}

// queryValue fills in a query value. Between quotes of a search language a value
// is kept from ending them.
func (a *asking) queryValue(text string) string {
	value, _ := parseTemplate(text)
	var b strings.Builder
	open := quotes{escapes: a.quoting == QuotingBackslash}
	for _, part := range value {
		if part.name == "" {
			open.read(part.text)
			b.WriteString(part.text)
			continue
		}
		v := a.value(part.name)
		if a.quoting == QuotingRefuse {
			b.WriteString(a.unquotable(part.name, v, value))
		} else {
			b.WriteString(a.quoted(part.name, v, open.mark))
		}
	}
	return b.String()
}

// quotes follows whether a text stands in quotes.
type quotes struct {
	escapes bool // a backslash makes the next character an ordinary one
	mark    byte // the quote that is open, 0 if none is
	skip    bool // the next character is an ordinary one
}

func (q *quotes) read(text string) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case q.skip:
			q.skip = false
		case c == '\\' && q.escapes:
			q.skip = q.mark != 0
		case q.mark == 0 && (c == '"' || c == '\''):
			q.mark = c
		case c == q.mark:
			q.mark = 0
		}
	}
}

// unquotable refuses a value that could end quotes of the template, or begin some.
func (a *asking) unquotable(name, v string, t template) string {
	for _, part := range t {
		for _, quote := range []string{`"`, "'"} {
			if strings.Contains(part.text, quote) && strings.ContainsAny(v, quote+`\`) {
				a.refuse(name, "holds a quote or a backslash, and the lookup does not say under `quoting` how those are written")
			}
		}
	}
	return v
}

// quoted writes a value so that it does not end the quotes around it.
func (a *asking) quoted(name, v string, mark byte) string {
	switch quote := string(mark); {
	case mark == 0:
		return v
	case a.quoting == QuotingBackslash:
		return strings.NewReplacer(`\`, `\\`, quote, `\`+quote).Replace(v)
	default:
		if strings.Contains(v, `\`) { // some that double their quotes take it for an escape all the same
			a.refuse(name, "holds a backslash, which may mean something between quotes that are doubled")
		}
		return strings.ReplaceAll(v, quote, quote+quote)
	}
}

// value is what stands behind a placeholder.
func (a *asking) value(name string) string {
	v, known := "", true
	switch name {
	case "key":
		v = a.question.Key
	case "command_id":
		v = a.question.CommandID.String()
	case "reference":
		v = a.question.Reference
	case "link":
		v = a.link()
	default:
		v, known = a.question.Params[name]
	}
	switch {
	case !known || v == "":
		a.refuse(name, "is not known")
	case !plainText(v):
		a.refuse(name, "holds control characters or broken UTF-8")
	}
	return v
}

// link is the path and query that the upstream named. It was checked when it was
// stored; what does not look like one is still not sent.
func (a *asking) link() string {
	switch l := a.question.Link; {
	case l == "":
		a.refuse("link", "is not known")
	case !isTarget(l):
		a.refuse("link", "is not a path on the upstream's own origin")
	default:
		return l
	}
	return ""
}
