package upstreams

import (
	"fmt"
	"slices"
	"time"

	"executor/outcome"
)

func (r *reader) idempotency(m *mapping, o *Operation) Idempotency {
	i := Idempotency{Kind: outcome.Idempotency(m.choice("kind", string(outcome.IdempotencyNone), texts(outcome.Idempotencies())...))}
	i.RetryHeaders = r.headers(m, "retry_headers")
	if i.Kind == outcome.IdempotencyKeyed {
		r.keyed(m, &i, o)
	} else {
		for _, name := range []string{"key", "retention", "margin", "preserves", "failures_leave_no_effect", "authoritative_refusals", "stores_errors"} {
			if m.has(name) {
				m.asked = append(m.asked, name)
				m.fail(name, fmt.Sprintf("means nothing for kind %s", i.Kind), "Write `kind: keyed` if the upstream remembers a key, or remove it.")
			}
		}
	}
	m.done()
	return i
}

func (r *reader) keyed(m *mapping, i *Idempotency, o *Operation) {
	i.Key = r.key(m.mapping("key"), o)
	i.Retention = m.optionalDuration("retention", time.Second, maxRetention)
	i.Margin = m.duration("margin", 5*time.Minute, 0, maxRetention)
	i.Preserves = m.choice("preserves", PreservesFirstOutcome, PreservesFirstOutcome, PreservesSuccess)
	i.FailuresLeaveNoEffect = m.boolean("failures_leave_no_effect", false)
	i.AuthoritativeRefusals = m.statuses("authoritative_refusals", nil, 400, 499)
	i.StoresErrors = m.boolean("stores_errors", false)
	if i.Retention > 0 && i.Margin >= i.Retention {
		m.fail("margin", fmt.Sprintf("(%s) leaves nothing of retention (%s)", short(i.Margin), short(i.Retention)), "Make it shorter.")
	}
	if i.StoresErrors && i.Preserves == PreservesSuccess {
		m.fail("stores_errors", "contradicts `preserves: success`, which says that only successes are stored", "Remove one of them.")
	}
}

func (r *reader) key(m *mapping, o *Operation) Key {
	k := Key{
		In:        m.choice("in", KeyInHeader, KeyInHeader, KeyInQuery, KeyInBody),
		From:      m.choice("from", KeyFromCaller, KeyFromCaller, KeyFromCommandID),
		MaxLength: m.integer("max_length", 255, 1, 255),
	}
	if k.In == KeyInHeader {
		k.Name = canonicalHeader(m.text("name", "Idempotency-Key"))
	} else {
		k.Name = m.required("name", map[string]string{KeyInQuery: "Name the query parameter.", KeyInBody: "Write a JSON pointer, such as /idempotency_key."}[k.In])
	}
	if k.Name != "" {
		if bad := k.refusal(o); bad != nil {
			m.fail("name", bad.message, bad.help)
		}
	}
	if k.From == KeyFromCommandID && k.MaxLength < 36 {
		m.fail("max_length", "is too short for a command id, which has 36 characters", "")
	}
	m.done()
	return k
}

// refusal checks that the key has a place in the request and does not collide
// with anything there.
func (k Key) refusal(o *Operation) *refusal {
	switch k.In {
	case KeyInHeader:
		if bad := refuseHeader(k.Name); bad != nil {
			return bad
		}
		if slices.Contains(o.CallerHeaders, k.Name) || slices.ContainsFunc(o.profile.Headers, func(h Header) bool { return h.Name == k.Name }) {
			return &refusal{fmt.Sprintf("the header %s is also set by headers or caller_headers", k.Name), "Only the key may set it."}
		}
	case KeyInQuery:
		if slices.Contains(o.CallerQuery, k.Name) || slices.ContainsFunc(o.Query, func(q QueryParam) bool { return q.Name == k.Name }) {
			return &refusal{fmt.Sprintf("the query parameter %q is also set by query or caller_query", clip(k.Name, 40)), "Only the key may set it."}
		}
	case KeyInBody:
		tokens, bad := parsePointer(k.Name)
		switch {
		case bad != nil:
			return bad
		case o.Body != BodyJSON && o.Body != BodyForm && o.Body != BodyMultipart:
			return &refusal{fmt.Sprintf("%s is not in the request: its body is %s", clip(k.Name, 60), o.Body), "Use a body of json, form or multipart, or another place for the key."}
		case o.Body != BodyJSON && len(tokens) != 1:
			return &refusal{fmt.Sprintf("%s is deeper than a form can hold", clip(k.Name, 60)), "Write it as /name."}
		}
	}
	return nil
}
