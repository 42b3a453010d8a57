package upstreams

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"executor/outcome"
)

var (
	operationName  = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)
	methods        = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	bodiless       = []string{"GET", "HEAD", "DELETE"} // no body unless the profile says so
	reservedParams = []string{"key", "command_id", "reference", "link"}
)

func (r *reader) operations(m *mapping, p *Profile) {
	p.Operations = map[string]*Operation{}
	all := m.mapping("operations")
	if len(all.members) == 0 && !m.broken {
		m.fail("operations", "at least one operation is needed", "Write `operations:` and below it a name with method and path.")
	}
	for _, name := range slices.Sorted(maps.Keys(all.members)) {
		all.asked = append(all.asked, name)
		switch {
		case len(p.Operations) >= maxOperations:
			all.fail(name, fmt.Sprintf("there are more than %d operations", maxOperations), "")
			return
		case !operationName.MatchString(name):
			all.doc.problem(all.members[name].key, all.path, fmt.Sprintf("%q is not a name for an operation", clip(name, 60)), "Use 1 to 63 of a-z, 0-9, _ and -.")
		default:
			p.Operations[name] = r.operation(all.mapping(name), name, p)
		}
	}
}

func (r *reader) operation(m *mapping, name string, p *Profile) *Operation {
	o := &Operation{Name: name, profile: p}
	o.Method = r.method(m, "")
	o.Path, o.path = r.path(m)
	o.Query, o.query = r.query(m)
	o.Body = r.body(m, o.Method)
	o.CallerHeaders = r.callerHeaders(m)
	o.CallerQuery = r.callerQuery(m, o)
	o.Timeouts = r.timeouts(m.mapping("timeouts"), p.Timeouts)
	o.Retry = r.retry(m.mapping("retry"), p.Retry, false)
	o.Idempotency = r.idempotency(m.mapping("idempotency"), o)
	o.Answers = r.answers(m)
	o.Result = r.result(m.mapping("result"))
	o.Rejection = r.rejection(m.mapping("rejection"))
	o.Lookups = r.lookups(m, o)
	o.Redaction = r.redaction(m.mapping("redact"))
	m.done()
	r.checkOperation(m, o)
	return o
}

func (r *reader) method(m *mapping, fallback string) string {
	s := fallback
	if fallback == "" || m.has("method") {
		s = m.required("method", "Write one of "+strings.Join(methods, ", ")+".")
	}
	m.asked = append(m.asked, "method")
	if s == fallback && !m.has("method") || slices.Contains(methods, s) {
		return s
	}
	help := "Write one of " + strings.Join(methods, ", ") + "."
	if upper := strings.ToUpper(s); slices.Contains(methods, upper) {
		help = "Write " + upper + "."
	}
	m.fail("method", fmt.Sprintf("%q is not a method used here", clip(s, 20)), help)
	return fallback
}

func (r *reader) path(m *mapping) (string, template) {
	s := m.required("path", "Write the part behind base_url, such as /payments/{payment}.")
	if !m.has("path") {
		return s, nil
	}
	t, bad := parsePath(s)
	if bad != nil {
		m.fail("path", bad.message, bad.help)
		return s, nil
	}
	m.refuseReserved("path", t)
	return s, t
}

// refuseReserved keeps the names that mean something else in lookups.
func (m *mapping) refuseReserved(name string, t template) {
	for _, parameter := range t.parameters() {
		if slices.Contains(reservedParams, parameter) {
			m.fail(name, fmt.Sprintf("{%s} means something else in lookups", parameter), "Give the parameter another name.")
		}
	}
}

func (r *reader) query(m *mapping) ([]QueryParam, []queryTemplate) {
	var params []QueryParam
	var templates []queryTemplate
	for _, p := range m.pairs("query") {
		t, bad := parseTemplate(p.value)
		if bad != nil {
			p.fail(bad.message, bad.help)
			continue
		}
		p.from.refuseReserved(p.name, t)
		params = append(params, QueryParam{p.name, p.value})
		templates = append(templates, queryTemplate{p.name, t})
	}
	return params, templates
}

// body reads how the body is encoded. Left out it is json, but for methods that
// seldom have a body it is none.
func (r *reader) body(m *mapping, method string) string {
	fallback := BodyJSON
	if slices.Contains(bodiless, method) {
		fallback = BodyNone
	}
	s := m.choice("body", fallback, BodyJSON, BodyForm, BodyRaw, BodyMultipart, BodyNone)
	switch {
	case s != BodyNone && (method == "GET" || method == "HEAD"):
		m.fail("body", "a "+method+" request has no body", "Remove it, or put the values under query.")
	default:
		return s
	}
	return fallback
}

func (r *reader) callerHeaders(m *mapping) []string {
	var out []string
	for _, i := range m.list("caller_headers") {
		s, _ := textNode(i.value)
		name := canonicalHeader(s)
		switch bad := refuseHeader(name); {
		case bad != nil:
			i.fail(fmt.Sprintf("%q %s", clip(s, 40), bad.message), "Callers may set other headers only.")
		case slices.Contains(out, name):
			i.fail(fmt.Sprintf("%q is there twice", s), "")
		default:
			out = append(out, name)
		}
	}
	return out
}

func (r *reader) callerQuery(m *mapping, o *Operation) []string {
	out := m.texts("caller_query")
	for i, name := range out {
		fixed := slices.ContainsFunc(o.Query, func(q QueryParam) bool { return q.Name == name })
		switch {
		case name == "":
			m.fail("caller_query", "holds an empty name", "")
		case fixed:
			m.fail("caller_query", fmt.Sprintf("%q is set under query already", clip(name, 40)), "A caller cannot set it again.")
		case slices.Contains(out[:i], name):
			m.fail("caller_query", fmt.Sprintf("%q is there twice", clip(name, 40)), "")
		}
	}
	return out
}

func (r *reader) answers(m *mapping) []Rule {
	var out []Rule
	for _, i := range m.list("answers") {
		if len(out) == maxRules {
			i.fail(fmt.Sprintf("there are more than %d rules", maxRules), "")
			break
		}
		out = append(out, r.rule(i.mapping()))
	}
	return out
}

func (r *reader) rule(m *mapping) Rule {
	rule := Rule{
		When:       r.condition(m, "when", r.compiler.answers),
		Answer:     outcome.Answer(m.requiredChoice("answer", texts(outcome.Answers())...)),
		Reference:  r.optional(m, "reference", r.compiler.answers),
		Link:       r.optional(m, "link", r.compiler.answers),
		RetryAfter: r.optional(m, "retry_after", r.compiler.answers),
	}
	if settles := rule.Answer == outcome.AnswerApplied || rule.Answer == outcome.AnswerRefused; settles && rule.RetryAfter != nil {
		m.fail("retry_after", "means nothing beside "+string(rule.Answer)+": that is not asked again", "Remove it.")
	}
	m.done()
	return rule
}

// requiredChoice reads one of a few words that has to be there.
func (m *mapping) requiredChoice(name string, words ...string) string {
	if !m.has(name) {
		m.required(name, "Write one of "+strings.Join(words, ", ")+".")
		return words[0]
	}
	return m.choice(name, words[0], words...)
}

func (r *reader) result(m *mapping) Result {
	out := Result{Reference: r.value(m, "reference", "json.id"), Link: r.optional(m, "link", r.compiler.answers)}
	for _, name := range m.texts("headers") {
		if !headerToken.MatchString(name) {
			m.fail("headers", fmt.Sprintf("%q is not a header name", clip(name, 40)), "")
		}
		out.Headers = append(out.Headers, canonicalHeader(name))
	}
	for _, i := range m.list("require") {
		if e := r.expression(i, r.compiler.answers, true); e != nil {
			out.Require = append(out.Require, e)
		}
	}
	m.done()
	return out
}

func (r *reader) rejection(m *mapping) Rejection {
	out := Rejection{Code: r.value(m, "code", "json.error.code"), Message: r.value(m, "message", "json.error.message")}
	m.done()
	return out
}

func (r *reader) redaction(m *mapping) Redaction {
	var out Redaction
	for _, name := range m.texts("headers") {
		out.Headers = append(out.Headers, canonicalHeader(name))
	}
	out.Request, out.Response = m.texts("request"), m.texts("response")
	for name, list := range map[string][]string{"request": out.Request, "response": out.Response} {
		for _, p := range list {
			if _, bad := parsePointer(p); bad != nil {
				m.fail(name, bad.message, bad.help)
			}
		}
	}
	m.done()
	return out
}
