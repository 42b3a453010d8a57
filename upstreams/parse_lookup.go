package upstreams

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/goccy/go-yaml/ast"

	"executor/outcome"
)

// lookups reads one lookup, or a list of them tried in order.
func (r *reader) lookups(m *mapping, o *Operation) []Lookup {
	found, ok := m.get("lookup")
	if !ok {
		return nil
	}
	if _, isList := found.value.(*ast.SequenceNode); !isList {
		return []Lookup{r.lookup(m.mapping("lookup"), o)}
	}
	var out []Lookup
	for _, i := range m.list("lookup") {
		out = append(out, r.lookup(i.mapping(), o))
	}
	if len(out) > 10 {
		m.fail("lookup", "there are more than 10 lookups", "")
	}
	return out
}

func (r *reader) lookup(m *mapping, o *Operation) Lookup {
	l := Lookup{Replay: m.boolean("replay", false)}
	if l.Replay {
		r.replay(m, o)
	} else {
		r.question(m, &l, o)
	}
	for _, i := range m.list("compare") {
		if e := r.expression(i, r.compiler.lookups, true); e != nil {
			l.Compare = append(l.Compare, e)
		}
	}
	l.Findings = r.findings(m, r.compiler.lookups, !l.Replay)
	l.Schedule = r.schedule(m.mapping("schedule"))
	l.Absence = r.absence(m.mapping("absence"))
	m.done()
	return l
}

// replay checks that asking by repeating is safe at all.
func (r *reader) replay(m *mapping, o *Operation) {
	for _, name := range []string{"method", "path", "query"} {
		if m.has(name) {
			m.asked = append(m.asked, name)
			m.fail(name, "means nothing beside `replay: true`, which sends the command itself again", "Remove one of them.")
		}
	}
	if kind := o.Contract().Idempotency; kind == outcome.IdempotencyNone || kind == outcome.IdempotencyKeyed && o.Idempotency.Retention == 0 {
		m.fail("replay", "would act a second time: nothing says that a repeat is harmless", "Ask by method and path, or state the idempotency with its retention.")
	}
}

func (r *reader) question(m *mapping, l *Lookup, o *Operation) {
	l.Method = r.method(m, "GET")
	l.Path = m.required("path", "Write the path of the question behind base_url, such as /payments.")
	if m.has("path") {
		t, bad := parsePath(l.Path)
		if bad != nil {
			m.fail("path", bad.message, bad.help)
		}
		m.knownParameters("path", t, o)
	}
	for _, p := range m.pairs("query") {
		t, bad := parseTemplate(p.value)
		if bad != nil {
			p.fail(bad.message, bad.help)
			continue
		}
		p.from.knownParameters(p.name, t, o)
		l.Query = append(l.Query, QueryParam{p.name, p.value})
	}
}

// knownParameters checks that a lookup asks only by what we will know.
func (m *mapping) knownParameters(name string, t template, o *Operation) {
	known := append(o.parameters(), reservedParams...)
	for _, p := range t.parameters() {
		if !slices.Contains(known, p) {
			m.fail(name, fmt.Sprintf("{%s} is not known when we ask", p), "Known are {"+strings.Join(known, "} {")+"}.")
		}
	}
}

// findings reads the rules that say what an answer means.
func (r *reader) findings(m *mapping, env *cel.Env, needed bool) []FindingRule {
	var out []FindingRule
	for _, i := range m.list("findings") {
		if len(out) == maxRules {
			i.fail(fmt.Sprintf("there are more than %d rules", maxRules), "")
			break
		}
		rule := i.mapping()
		out = append(out, FindingRule{
			When:      r.condition(rule, "when", env),
			Finding:   rule.requiredChoice("finding", FindingApplied, FindingRefused, FindingPending, FindingAbsent),
			Reference: r.optional(rule, "reference", env),
		})
		rule.done()
	}
	if needed && len(out) == 0 {
		m.fail("findings", "at least one rule is needed: what no rule matches is unknown", "Write `findings: [{when: …, finding: applied}]`.")
	}
	return out
}

func (r *reader) schedule(m *mapping) Schedule {
	s := Schedule{
		FirstAfter:  m.duration("first_after", 2*time.Second, 0, maxDeadline),
		Factor:      m.fraction("factor", 3, 1, 100),
		MaxInterval: m.duration("max_interval", 6*time.Hour, time.Second, maxDeadline),
		GiveUpAfter: m.duration("give_up_after", 72*time.Hour, time.Second, maxRetention),
	}
	if s.GiveUpAfter < s.FirstAfter {
		m.fail("give_up_after", "is over before the first lookup", "Make it longer than first_after.")
	}
	m.done()
	return s
}

func (r *reader) absence(m *mapping) Absence {
	a := Absence{
		SettlesAfter:  m.optionalDuration("settles_after", time.Second, maxRetention),
		Confirmations: m.integer("confirmations", 2, 1, 100),
		Spacing:       m.duration("spacing", 30*time.Second, 0, maxDeadline),
		Then:          m.choice("then", "cancel", "cancel", "resend", "review"),
	}
	m.done()
	return a
}

// notices reads how the upstream tells of outcomes by itself.
func (r *reader) notices(m *mapping) *Notices {
	if !m.has("notices") {
		m.asked = append(m.asked, "notices")
		return nil
	}
	n := m.mapping("notices")
	out := &Notices{Verify: r.verify(n.mapping("verify"))}
	fallback := ""
	if out.Verify.Scheme == "standard-webhooks" {
		fallback = `headers["webhook-id"][0]`
	}
	switch {
	case n.has("event_id"):
		out.EventID = r.optional(n, "event_id", r.compiler.answers)
	case fallback != "":
		out.EventID = r.value(n, "event_id", fallback)
	default:
		n.required("event_id", "Write an expression for what is the same in every copy of an event, such as json.id.")
	}
	if out.Command = r.optional(n, "command", r.compiler.answers); out.Command == nil && !n.has("command") {
		n.required("command", `Write an expression that gives the key, or {"reference": json.data.id}.`)
	}
	out.Findings = r.findings(n, r.compiler.answers, true)
	out.Weight = n.choice("weight", "hint", "conclusive", "hint")
	n.done()
	return out
}

func (r *reader) verify(m *mapping) Verify {
	v := Verify{
		Scheme:    m.requiredChoice("scheme", "standard-webhooks", "hmac-sha256"),
		Secret:    m.secret("secret"),
		Tolerance: m.duration("tolerance", 5*time.Minute, time.Second, 24*time.Hour),
	}
	if v.Scheme == "hmac-sha256" {
		v.Header = canonicalHeader(m.required("header", "Name the header that carries the signature."))
	} else if v.Header = m.text("header", ""); v.Header != "" {
		m.fail("header", "is fixed by standard-webhooks", "Remove it.")
	}
	m.done()
	return v
}
