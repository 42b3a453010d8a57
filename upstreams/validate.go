package upstreams

import (
	"fmt"
	"net/http"
	"slices"

	"executor/outcome"
)

// warn notes something that is allowed but unwise, at a member or, if that is
// left out, at its mapping.
func (r *reader) warn(code string, m *mapping, name, message string) {
	at := m.position(name)
	r.warnings = append(r.warnings, Warning{Code: code, Line: at.line, Column: at.column, Path: m.join(name), Message: message})
}

// checkProfile looks at relations between settings of the whole profile.
func (r *reader) checkProfile(m *mapping, p *Profile) {
	r.checkOrigins(m, p)
	if p.Auth.Type == AuthHeader && slices.ContainsFunc(p.Headers, func(h Header) bool { return h.Name == p.Auth.Name }) {
		m.fail("headers", fmt.Sprintf("%s is set by auth already", p.Auth.Name), "Remove it here.")
	}
	if p.Timeouts.ResponseHeader > p.Timeouts.Total {
		r.warn("timeout_unreachable", m, "timeouts", fmt.Sprintf("response_header (%s) never ends an attempt: total (%s) is shorter", short(p.Timeouts.ResponseHeader), short(p.Timeouts.Total)))
	}
	if p.Timeouts.Total > p.Deadline {
		r.warn("deadline_short", m, "deadline", fmt.Sprintf("no attempt gets its whole time: total is %s, the deadline %s", short(p.Timeouts.Total), short(p.Deadline)))
	}
	if b := p.Retry.Budget; b.Ratio == 0 && b.FloorPerSecond == 0 {
		r.warn("budget_unfilled", m, "retry", fmt.Sprintf("the retry budget is never filled again: %d retries, then none", b.Burst))
	}
	if p.Notices != nil {
		r.warnNotices(m, p)
	}
}

// checkOperation looks at relations between settings of one operation, and tries
// its rules on answers that every upstream gives some day.
func (r *reader) checkOperation(m *mapping, o *Operation) {
	auth := o.profile.Auth
	if auth.Type == AuthHeader && (slices.Contains(o.CallerHeaders, auth.Name) || o.Idempotency.Key.In == KeyInHeader && o.Idempotency.Key.Name == auth.Name) {
		m.fail("caller_headers", fmt.Sprintf("%s carries the credential", auth.Name), "Only auth may set it.")
	}
	for _, h := range o.Idempotency.RetryHeaders {
		if o.Idempotency.Key.In == KeyInHeader && h.Name == o.Idempotency.Key.Name || h.Name == auth.Name && auth.Type == AuthHeader {
			m.fail("idempotency", fmt.Sprintf("retry_headers may not replace %s", h.Name), "")
		}
	}
	if len(r.doc.problems) > 0 {
		return // what follows runs the rules, which may not have compiled
	}
	r.warnIdempotency(m, o)
	r.warnTimes(m, o)
	r.warnLookups(m, o)
	r.warnAnswers(m, o)
}

func (r *reader) warnIdempotency(m *mapping, o *Operation) {
	i, reads := o.Idempotency, o.Method == "GET" || o.Method == "HEAD"
	switch {
	case i.Kind == outcome.IdempotencySafe && !reads:
		r.warn("safe_method", m, "idempotency", fmt.Sprintf("a %s that is called safe: if it changes anything after all, a lost answer is repeated and nobody looks into it", o.Method))
	case i.Kind == outcome.IdempotencyNatural && (o.Method == "POST" || o.Method == "PATCH"):
		r.warn("natural_method", m, "idempotency", fmt.Sprintf("a %s that is called natural: it is repeated after every lost answer, without a key", o.Method))
	case i.Kind == outcome.IdempotencyNone && reads:
		r.warn("read_not_safe", m, "idempotency", fmt.Sprintf("a %s of kind none is not repeated after a lost answer; write `kind: safe` if it only reads", o.Method))
	case i.Kind == outcome.IdempotencyKeyed && reads:
		r.warn("keyed_read", m, "idempotency", fmt.Sprintf("a %s with a key: write `kind: safe` if it only reads", o.Method))
	}
	if i.Kind == outcome.IdempotencyKeyed && o.Contract().Idempotency == outcome.IdempotencyNone {
		r.warn("key_not_relied_on", m, "idempotency", "with `preserves: success` the key is sent, but nothing is repeated in doubt: a lost answer may have been a failure that acted. If the vendor promises otherwise, write `failures_leave_no_effect: true`")
	}
	if o.profile.Connection.Fresh == "never" && o.Contract().Idempotency == outcome.IdempotencyNone {
		r.warn("fresh_anyway", m, "idempotency", "each attempt gets a new connection in spite of `fresh: never`: on a stale one it could become ambiguous")
	}
	if len(o.Lookups) == 0 && i.Kind != outcome.IdempotencySafe {
		r.warn("no_lookup", m, "lookup", "it can end unresolved and has no lookup: a person has to find out each time")
	}
}

func (r *reader) warnTimes(m *mapping, o *Operation) {
	i, deadline := o.Idempotency, o.profile.Deadline
	switch {
	case i.Kind != outcome.IdempotencyKeyed:
	case i.Retention == 0:
		r.warn("retention_unknown", m, "idempotency", "without `retention` a lost answer is never repeated under its key; look up how long the vendor keeps keys")
	case i.Retention-i.Margin < deadline:
		r.warn("retention_short", m, "idempotency", fmt.Sprintf("the key is relied on for %s, the deadline is %s: what is in doubt by then stays so", short(i.Retention-i.Margin), short(deadline)))
	}
	if window := o.Retry.MinAttemptWindow; window < o.Timeouts.ResponseHeader/20 {
		r.warn("window_short", m, "retry", fmt.Sprintf("an attempt may start %s before the deadline, but an answer is given %s: the last attempt is likely to be cut off in doubt", short(window), short(o.Timeouts.ResponseHeader)))
	}
	if o.Timeouts.ResponseHeader > o.Timeouts.Total && o.Timeouts != o.profile.Timeouts {
		r.warn("timeout_unreachable", m, "timeouts", fmt.Sprintf("response_header (%s) never ends an attempt: total (%s) is shorter", short(o.Timeouts.ResponseHeader), short(o.Timeouts.Total)))
	}
	if o.Retry.MinAttemptWindow >= deadline {
		r.warn("window_long", m, "retry", fmt.Sprintf("min_attempt_window (%s) is not shorter than the deadline (%s): nothing is ever sent", short(o.Retry.MinAttemptWindow), short(deadline)))
	}
}

// warnTransient looks for statuses that stand in the list for nothing.
func (r *reader) warnTransient(m *mapping, listed []int) {
	for _, status := range listed {
		if status != http.StatusInternalServerError {
			r.warn("transient_unused", m, "transient_statuses", fmt.Sprintf("%d has no effect, only 500 is looked for: 502, 503 and 504 are repeated anyway where that is safe, and any other status only if a rule under `answers` calls it declined", status))
			return
		}
	}
}

// warnAnswers tries the rules on a few answers and says what is odd about what
// they make of them.
func (r *reader) warnAnswers(m *mapping, o *Operation) {
	page := Response{Status: 200, Headers: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<html><title>Log in</title></html>"), BodyComplete: true, Attempt: 1}
	if o.Judge(page).Answer == outcome.AnswerApplied {
		r.warn("html_success", m, "result", "any 2xx counts as success, a login page too: say under `require` what a real answer holds, such as json.id != null")
	}
	bare := func(status int) Judgement {
		return o.Judge(Response{Status: status, Body: []byte("{}"), BodyComplete: true, Attempt: 1})
	}
	if j := bare(401); o.profile.Auth.Type != AuthNone && j.Rule == defaultTable {
		r.warn("unauthorized_unlisted", m, "answers", "401 is taken as refused, by default: if the vendor checks credentials before it acts, write a rule that says so, else one that says unclear")
	}
	for _, status := range []int{502, 503, 504} {
		if a := bare(status).Answer; a == outcome.AnswerRefused || a == outcome.AnswerDeclined || a == outcome.AnswerApplied {
			r.warn("proxy_status", m, "answers", fmt.Sprintf("a bare %d counts as %s, but any proxy on the way makes the same: look for a mark of the upstream itself in headers or body", status, a))
			break
		}
	}
	for i, rule := range o.Answers {
		if rule.Answer == outcome.AnswerApplied && rule.When.countsAttempts && !rule.When.asksDoubt {
			r.warn("applied_by_number", m, fmt.Sprintf("answers[%d]", i), "attempt counts those too of which nothing was sent or done: what the first that arrives finds done is somebody else's. Ask for in_doubt, which says that an earlier attempt may have acted")
		}
		if rule.breaksOn(201) || rule.breaksOn(422) {
			r.warn("rule_unguarded", m, fmt.Sprintf("answers[%d]", i), "it fails, and makes the answer unclear, on every response without the member it asks for: begin with a status, or with `json != null && has(json.x) && …`")
		}
	}
}

// breaksOn says whether the condition fails on an empty JSON object.
func (rule Rule) breaksOn(status int) bool {
	_, err := rule.When.Bool(map[string]any{"status": status, "headers": map[string][]string{}, "json": map[string]any{}, "text": "{}", "attempt": 1, "in_doubt": false})
	return err != nil
}
