package upstreams

import (
	"fmt"
	"slices"
	"strings"

	"executor/outcome"
)

// warnLookups looks at how an operation is followed up.
func (r *reader) warnLookups(m *mapping, o *Operation) {
	if len(o.Lookups) == 0 {
		return
	}
	r.warnAskedBy(m, o)
	for i, l := range o.Lookups {
		at := "lookup"
		if len(o.Lookups) > 1 {
			at = fmt.Sprintf("lookup[%d]", i)
		}
		r.warnQuestion(m, at, l)
		if !l.Replay {
			r.warnFindings(m, at, o, l)
		}
	}
	r.warnAbsence(m, o)
}

// warnAskedBy looks for lookups that cannot be asked after the very answer that
// makes them necessary.
func (r *reader) warnAskedBy(m *mapping, o *Operation) {
	byKey := slices.ContainsFunc(o.Lookups, func(l Lookup) bool {
		asked := l.parameters()
		return l.Replay || slices.Contains(asked, "key") || slices.Contains(asked, "command_id") || !l.asksByAnswer()
	})
	switch {
	case byKey:
	case o.Idempotency.Kind == outcome.IdempotencySafe:
		r.warn("pending_by_reference", m, "lookup", "after a pending answer it asks only by {reference} or {link}, which that answer may not have carried: ask by {key} or {command_id} too")
	default:
		r.warn("lookup_by_reference", m, "lookup", "it asks by {reference} or {link}, which a lost answer never gave us and a pending one may not carry: ask by {key} or {command_id}")
	}
}

// asksByAnswer says whether a lookup needs something that only an answer gives.
func (l Lookup) asksByAnswer() bool {
	asked := l.parameters()
	return slices.Contains(asked, "reference") || slices.Contains(asked, "link")
}

func (r *reader) warnQuestion(m *mapping, at string, l Lookup) {
	asked := l.parameters()
	byKey := l.Replay || slices.Contains(asked, "key") || slices.Contains(asked, "command_id")
	switch {
	case l.Replay && len(l.Findings)+len(l.Compare) > 0:
		r.warn("replay_findings", m, at, "findings and compare mean nothing for a replay: the answer is read by `answers`, like that of any attempt")
	case !byKey && !l.asksByAnswer() && len(l.Compare) == 0:
		r.warn("lookup_unspecific", m, at, "it asks for nothing that only this command has: use {key} or {command_id}, or say under compare what makes a find ours")
	case len(l.Compare) == 0 && l.searches():
		r.warn("lookup_search", m, at, "a search may find more than it was asked for, by a wildcard in the key or by its beginning: say under compare that what was found is ours, such as json.items[0].client_reference == command.key")
	}
	if l.unquoted() {
		r.warn("lookup_unquoted", m, at, "a value stands in a search language without quotes: with a space or an operator in it something else is asked for; put it in quotes, and say under `quoting` how the vendor writes one inside")
	}
	if !l.Replay && l.Method != "GET" && l.Method != "HEAD" {
		r.warn("lookup_method", m, at, fmt.Sprintf("a lookup by %s: it is asked again and again and may not change anything", l.Method))
	}
}

// searches says whether a value stands in the quotes of a search language.
func (l Lookup) searches() bool { return l.stands(func(_ string, quoted bool) bool { return quoted }) }

// unquoted says whether a value stands in what looks like a search language
// without quotes around it.
func (l Lookup) unquoted() bool {
	return l.stands(func(before string, quoted bool) bool { return !quoted && strings.ContainsAny(before, ` :=<>"'`) })
}

// stands asks about each value of the query: what stands before it, and whether it
// stands in quotes.
func (l Lookup) stands(how func(before string, quoted bool) bool) bool {
	for _, p := range l.Query {
		value, _ := parseTemplate(p.Value)
		open, before := quotes{escapes: l.Quoting == QuotingBackslash}, ""
		for _, part := range value {
			open.read(part.text)
			before += part.text
			if part.name != "" && how(before, open.mark != 0) {
				return true
			}
		}
	}
	return false
}

// warnFindings tries the rules on answers that every upstream, or something on
// the way to it, gives some day.
func (r *reader) warnFindings(m *mapping, at string, o *Operation, l Lookup) {
	for i, rule := range l.Findings {
		if silent(rule.When.status) {
			r.warn("finding_silent", m, at, fmt.Sprintf("findings[%d] has no effect: a %d says nothing about the command, whatever the rules make of it", i, rule.When.status))
		}
	}
	for _, status := range []int{200, 404} {
		page := Response{Status: status, Body: []byte("<html><title>Log in</title></html>"), BodyComplete: true}
		found := o.Find(l, Question{}, page)
		if len(found.Notes) == 0 && found.Finding != outcome.FindingUnknown {
			r.warn("finding_page", m, at, fmt.Sprintf("a page with status %d counts as %s, also one of a proxy or of a wrong route: ask for something that only the vendor answers, such as %s", status, found.Finding, mark(found.Finding)))
		}
	}
}

// mark is an example of what only the vendor would answer.
func mark(f outcome.Finding) string {
	if f == outcome.FindingAbsent {
		return `json != null && has(json.error)`
	}
	return "has(json.id)"
}

func (r *reader) warnAbsence(m *mapping, o *Operation) {
	a, s := o.LookupAbsence(), o.LookupSchedule()
	if a.SettlesAfter == 0 {
		return
	}
	at, ok := o.confirmedAt(a)
	switch {
	case !ok:
		r.warn("absence_too_late", m, "lookup", fmt.Sprintf("the lookups end after %s, before an absence could be confirmed: raise give_up_after, or lower settles_after (%s), confirmations or spacing", short(s.GiveUpAfter), short(a.SettlesAfter)))
	case a.Then == outcome.ThenResend && at.Sub(unresolvedAt) >= o.profile.Deadline:
		r.warn("resend_late", m, "lookup", fmt.Sprintf("`then: resend` sends nothing: an absence is confirmed after %s, when the deadline (%s) is over; the command then ends cancelled", short(at.Sub(unresolvedAt)), short(o.profile.Deadline)))
	case a.Then == outcome.ThenResend && o.Contract().Idempotency == outcome.IdempotencyNone:
		r.warn("resend_risky", m, "lookup", fmt.Sprintf("`then: resend` on an operation that is not safe to repeat: if what was not found shows up after all, it is done twice. Make sure that nothing takes longer than settles_after (%s) to arrive and to be found, or write `then: review`", short(a.SettlesAfter)))
	}
	if a.SettlesAfter < o.Timeouts.ResponseHeader {
		r.warn("settles_short", m, "lookup", fmt.Sprintf("settles_after (%s) is less than an answer may take (%s): what is still being done is not found yet", short(a.SettlesAfter), short(o.Timeouts.ResponseHeader)))
	}
	if a.Confirmations == 1 {
		r.warn("absence_once", m, "lookup", "a single look confirms an absence: one server that lags behind is enough to be wrong")
	}
}

// warnIgnored says what a later lookup states for nothing: there is one schedule
// for all of them, and one meaning of absence.
func (r *reader) warnIgnored(m *mapping, earlier []Lookup, l Lookup) {
	if len(earlier) == 0 {
		return
	}
	if m.has("schedule") {
		r.warn("schedule_ignored", m, "schedule", "it has no effect: all lookups of an operation are made together, as the first one's schedule says")
	}
	settled := slices.ContainsFunc(earlier, func(l Lookup) bool { return l.Absence.SettlesAfter > 0 })
	if settled && l.Absence.SettlesAfter > 0 {
		r.warn("absence_ignored", m, "absence", "it has no effect: the first lookup with settles_after says when an absence is one")
	}
}

// warnNotices looks at notices that lead nowhere.
func (r *reader) warnNotices(m *mapping, p *Profile) {
	if slices.ContainsFunc(p.Notices.Findings, func(f FindingRule) bool { return f.Finding == outcome.FindingAbsent }) {
		r.warn("notice_absent", m, "notices", "a notice of finding absent has no effect: what is not there sends none")
	}
	looks := slices.ContainsFunc(p.operations(), func(o *Operation) bool { return len(o.Lookups) > 0 })
	if p.Notices.Weight == WeightHint && !looks {
		r.warn("hint_without_lookup", m, "notices", "a notice of weight hint is a reason to look, and no operation has a lookup: write one, or `weight: conclusive` if the vendor's word is enough")
	}
}
