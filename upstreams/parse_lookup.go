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
		stated := i.mapping()
		l := r.lookup(stated, o)
		r.warnIgnored(stated, out, l)
		out = append(out, l)
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
			e.sides = r.compiler.sides(r.compiler.lookups, e.Source)
			l.Compare = append(l.Compare, e)
		}
	}
	l.Findings = r.findings(m, r.compiler.lookups, !l.Replay)
	l.Quoting = m.choice("quoting", QuotingRefuse, QuotingRefuse, QuotingBackslash, QuotingDoubled)
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
	if m.has("path") && l.Path != linkPath {
		t, bad := parsePath(l.Path)
		if bad != nil {
			m.fail("path", bad.message, bad.help)
		}
		m.knownParameters("path", t, o)
		if slices.Contains(t.parameters(), "link") {
			m.fail("path", "{link} is a whole path and query, not a piece of one", "Write `path: \"{link}\"`.")
		}
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

// knownFindings are those that a rule may give: what none matches is unknown.
var knownFindings = slices.DeleteFunc(texts(outcome.Findings()), func(f string) bool { return f == string(outcome.FindingUnknown) })

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
			Finding:   outcome.Finding(rule.requiredChoice("finding", knownFindings...)),
			Reference: r.optional(rule, "reference", env),
			Code:      r.optional(rule, "code", env),
			Message:   r.optional(rule, "message", env),
		})
		rule.done()
	}
	if needed && len(out) == 0 {
		m.fail("findings", "at least one rule is needed: what no rule matches is unknown", "Write `findings: [{when: …, finding: applied}]`.")
	}
	return out
}

func (r *reader) schedule(m *mapping) outcome.Schedule {
	s := outcome.Schedule{
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

func (r *reader) absence(m *mapping) outcome.Absence {
	a := outcome.Absence{
		SettlesAfter:  m.optionalDuration("settles_after", time.Second, maxRetention),
		Confirmations: m.integer("confirmations", 2, 1, 100),
		Spacing:       m.duration("spacing", 30*time.Second, 0, maxDeadline),
		Then:          outcome.Then(m.choice("then", string(outcome.ThenCancel), texts(outcome.Thens())...)),
	}
	m.done()
	return a
}
