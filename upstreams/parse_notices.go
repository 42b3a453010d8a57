package upstreams

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// notices reads how the upstream tells of outcomes by itself.
func (r *reader) notices(m *mapping) *Notices {
	if !m.has("notices") {
		m.asked = append(m.asked, "notices")
		return nil
	}
	n := m.mapping("notices")
	out := &Notices{Signature: r.signature(n.mapping("verify"))}
	fallback := ""
	if out.Signature.Scheme == SchemeStandardWebhooks {
		fallback = `headers["webhook-id"][0]`
	}
	switch {
	case n.has("event_id"):
		out.EventID = r.optional(n, "event_id", r.compiler.notices)
	case fallback != "":
		out.EventID = r.value(n, "event_id", fallback)
	default:
		n.required("event_id", "Write an expression for what is the same in every copy of an event, such as json.id.")
	}
	if out.Command = r.optional(n, "command", r.compiler.notices); out.Command == nil && !n.has("command") {
		n.required("command", `Write an expression that gives the key, or {"reference": json.data.id}.`)
	}
	out.Findings = r.findings(n, r.compiler.notices, true)
	out.Weight = n.choice("weight", WeightHint, WeightConclusive, WeightHint)
	n.done()
	return out
}

func (r *reader) signature(m *mapping) Signature {
	s := Signature{
		Scheme:    m.requiredChoice("scheme", SchemeStandardWebhooks, SchemeHMAC),
		Secrets:   m.secrets("secret"),
		Tolerance: m.duration("tolerance", 5*time.Minute, time.Second, 24*time.Hour),
	}
	if s.Scheme == SchemeHMAC {
		s.Header = m.noticeHeader("header", m.required("header", "Name the header that carries the signature."))
		s.TimestampHeader = m.noticeHeader("timestamp_header", m.text("timestamp_header", ""))
	} else {
		for _, name := range []string{"header", "timestamp_header"} {
			if m.text(name, "") != "" {
				m.fail(name, "is fixed by standard-webhooks", "Remove it.")
			}
		}
	}
	m.done()
	return s
}

// noticeHeader checks the name of a header of notices.
func (m *mapping) noticeHeader(name, header string) string {
	if header != "" && !headerToken.MatchString(header) {
		m.fail(name, "is not a header name", "")
	}
	return canonicalHeader(header)
}

// secrets reads one reference to a secret, or a list of them, any of which may
// have signed.
func (m *mapping) secrets(name string) []string {
	found, ok := m.get(name)
	if _, isList := found.value.(*ast.SequenceNode); !ok || !isList {
		return []string{m.secret(name)}
	}
	var out []string
	for _, i := range m.list(name) {
		s := referenceNode(i.value)
		if !isReference(s) { // at the name's place: the excerpt may not show the value
			m.doc.problem(found.key, i.path, "is not a reference to a secret", referenceHelp)
		}
		out = append(out, s)
	}
	if len(out) == 0 || len(out) > maxSecrets {
		m.fail(name, fmt.Sprintf("has to name 1 to %d secrets", maxSecrets), referenceHelp)
	}
	return out
}

// referenceNode reads a reference in a list. Inside {…} the YAML parser takes
// env:NAME there for a mapping.
func referenceNode(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 1 {
		value, _ := scalarNode(m.Values[0].Value)
		return m.Values[0].Key.GetToken().Value + ":" + value
	}
	s, _ := textNode(n)
	return s
}
