package upstreams

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"executor/outcome"
)

// LookupMatrix shows how the operation is followed up when it ends unresolved.
// Times count from that moment.
type LookupMatrix struct {
	Questions  []QuestionMatrix `json:"questions"` // of one round, in their order, until one is answered with applied, refused or pending
	Rounds     []string         `json:"rounds"`    // when the first ones are made
	Every      string           `json:"every"`     // the longest wait between the later ones; "" = there are none
	Total      int              `json:"total"`     // rounds, about
	UsedUp     FindingEnd       `json:"used_up"`   // nothing was found in all of them
	After      string           `json:"after"`     // when the last of them is made
	Absence    AbsenceMatrix    `json:"absence"`
	Vanished   FindingEnd       `json:"vanished"`    // it was there once, then it is absent
	ReportOnly bool             `json:"report_only"` // findings are recorded and change nothing
}

// QuestionMatrix is one lookup of a round.
type QuestionMatrix struct {
	Ask     string       `json:"ask"`     // method and target, or "replay"
	Needs   []string     `json:"needs"`   // what it asks by and may not be known: then it is left out
	Rules   []string     `json:"rules"`   // the conditions of its findings, in their order
	Compare []string     `json:"compare"` // what has to hold of what was found
	Rows    []FindingRow `json:"rows"`
}

// FindingRow says what one answer to a lookup leads to.
type FindingRow struct {
	Event   string          `json:"event"`
	Status  int             `json:"status"` // 0 = no answer
	Finding outcome.Finding `json:"finding"`
	End     FindingEnd      `json:"end"`
}

// FindingEnd is where a command stands after a finding.
type FindingEnd struct {
	State      outcome.State         `json:"state"`
	Reason     outcome.OutcomeReason `json:"reason"` // "" = as before
	NextAction outcome.NextAction    `json:"next_action"`
	Then       string                `json:"then"` // in words
}

// AbsenceMatrix says when "not found" proves that nothing arrived.
type AbsenceMatrix struct {
	SettlesAfter  string       `json:"settles_after"` // "" = it never proves anything
	CountsFrom    string       `json:"counts_from"`   // at the latest
	Confirmations int          `json:"confirmations"`
	Spacing       string       `json:"spacing"`
	Confirmed     string       `json:"confirmed"` // at the latest, if every round finds nothing; "" = not before the lookups are used up
	Then          outcome.Then `json:"then"`
	End           FindingEnd   `json:"end"`
}

const (
	// sendWindow is how long after its record an attempt may begin to send.
	sendWindow = 5 * time.Second
	// maxRounds bounds how far a schedule is played.
	maxRounds = 2000
	// shownRounds is how many rounds are shown one by one.
	shownRounds = 6
)

// explainLookups plays the lookups with the functions that decide about real
// ones: Find, outcome.Settle and Schedule.Next.
func (o *Operation) explainLookups() *LookupMatrix {
	if len(o.Lookups) == 0 {
		return nil
	}
	s := o.LookupSchedule()
	m := &LookupMatrix{
		UsedUp:     inReview("a person finds out"),
		After:      short(s.GiveUpAfter),
		Absence:    o.explainAbsence(),
		Vanished:   inReview("a person finds out where it went"),
		ReportOnly: o.profile.Reconciliation == ReconciliationReportOnly,
	}
	var shown []time.Duration
	shown, m.Total = rounds(s)
	for _, at := range shown {
		m.Rounds = append(m.Rounds, short(at))
	}
	if m.Total > len(shown) {
		m.Every = short(s.MaxInterval)
	}
	for i, l := range o.Lookups {
		m.Questions = append(m.Questions, o.explainQuestion(l, i+1 < len(o.Lookups)))
	}
	return m
}

func inReview(then string) FindingEnd {
	return FindingEnd{State: outcome.StateUnresolved, NextAction: outcome.NextActionReview, Then: then}
}

// unresolvedAt is the moment that times count from.
var unresolvedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rounds lists when the first rounds are made if none of them settles anything,
// and counts them all. The last one is made when the schedule is used up.
func rounds(s outcome.Schedule) (shown []time.Duration, total int) {
	end := unresolvedAt.Add(s.GiveUpAfter)
	for at := unresolvedAt.Add(s.FirstAfter); ; {
		if total++; total <= shownRounds {
			shown = append(shown, at.Sub(unresolvedAt))
		}
		if !at.Before(end) {
			return shown, total
		}
		next := s.Next(total, at, time.Time{})
		if total == maxRounds { // the waits hardly grow any more
			return shown, total + int(end.Sub(at)/next.Sub(at)) + 1
		}
		at = earlier(next, end)
	}
}

// possibleUntil is the last moment at which an attempt could be under way, at the
// latest: that one began right before the command became unresolved.
func (o *Operation) possibleUntil() time.Time {
	return unresolvedAt.Add(sendWindow + o.Timeouts.Total)
}

func (o *Operation) explainAbsence() AbsenceMatrix {
	a := o.LookupAbsence()
	if a.SettlesAfter == 0 {
		return AbsenceMatrix{End: FindingEnd{State: outcome.StateUnresolved, NextAction: outcome.NextActionLookup, Then: "proves nothing"}}
	}
	m := AbsenceMatrix{
		SettlesAfter: short(a.SettlesAfter), CountsFrom: short(o.possibleUntil().Add(a.SettlesAfter).Sub(unresolvedAt)),
		Confirmations: a.Confirmations, Spacing: short(a.Spacing), Then: a.Then, End: o.confirmed(a.Then),
	}
	if at, ok := o.confirmedAt(a); ok {
		m.Confirmed = short(at.Sub(unresolvedAt))
	}
	return m
}

// confirmedAt plays rounds that all find nothing.
func (o *Operation) confirmedAt(a outcome.Absence) (time.Time, bool) {
	s := o.LookupSchedule()
	end, search := unresolvedAt.Add(s.GiveUpAfter), outcome.Search{}
	at := unresolvedAt.Add(s.FirstAfter)
	for n := 1; n <= maxRounds; n++ {
		settled := outcome.Settle(outcome.FindingAbsent, search, a, o.possibleUntil(), at)
		if settled.Verdict == outcome.SettlementAbsent {
			return at, true
		}
		if !at.Before(end) {
			break
		}
		search, at = settled.Search, earlier(s.Next(n, at, settled.NotBefore), end)
	}
	return time.Time{}, false
}

// confirmed is what follows a confirmed absence.
func (o *Operation) confirmed(then outcome.Then) FindingEnd {
	switch {
	case o.profile.Reconciliation == ReconciliationReportOnly:
		return FindingEnd{State: outcome.StateUnresolved, NextAction: outcome.NextActionLookup, Then: "only recorded"}
	case then == outcome.ThenReview:
		return inReview("a person decides")
	case then == outcome.ThenResend:
		return FindingEnd{State: outcome.StatePending, NextAction: outcome.NextActionNone, Then: "one more attempt if time and attempts allow, else cancelled"}
	default:
		return FindingEnd{State: outcome.StateCancelled, Reason: outcome.OutcomeReasonConfirmedAbsent, NextAction: outcome.NextActionNone, Then: "cancelled confirmed_absent"}
	}
}

func (o *Operation) explainQuestion(l Lookup, more bool) QuestionMatrix {
	q := QuestionMatrix{Ask: l.question(), Needs: []string{}, Rules: []string{}, Compare: []string{}, Rows: []FindingRow{}}
	for _, name := range []string{"reference", "link"} {
		if slices.Contains(l.parameters(), name) {
			q.Needs = append(q.Needs, name)
		}
	}
	if l.Replay {
		return q
	}
	for _, rule := range l.Findings {
		q.Rules = append(q.Rules, rule.When.Source)
	}
	for _, e := range l.Compare {
		q.Compare = append(q.Compare, e.Source)
	}
	for _, a := range o.lookupAnswers(l) {
		q.Rows = append(q.Rows, FindingRow{Event: a.name, Status: a.status, Finding: a.finding, End: o.after(a.finding, more)})
	}
	return q
}

// question writes what a lookup asks.
func (l Lookup) question() string {
	if l.Replay {
		return "replay"
	}
	text := l.Method + " " + l.Path
	for i, p := range l.Query {
		text += map[bool]string{true: "?", false: "&"}[i == 0] + p.Name + "=" + p.Value
	}
	return text
}

// lookupAnswer is something that can come of a lookup.
type lookupAnswer struct {
	name    string
	status  int
	finding outcome.Finding
}

// lookupAnswers lists what can come of a lookup: each of its rules, at a status
// that it names, and what every upstream answers some day.
func (o *Operation) lookupAnswers(l Lookup) []lookupAnswer {
	var out []lookupAnswer
	for i, rule := range l.Findings {
		w := finding{reading: reading{response: Response{Status: rule.When.status}}, Found: Found{Finding: rule.Finding}}
		if silent(rule.When.status) || !w.believable() {
			w.Finding = outcome.FindingUnknown
		}
		out = append(out, lookupAnswer{fmt.Sprintf("rule %d matches, %d", i+1, rule.When.status), rule.When.status, w.Finding})
	}
	if len(l.Compare) > 0 {
		out = append(out, lookupAnswer{"found, and a compare does not hold", 200, outcome.FindingUnknown})
	}
	page := emptyObject(200, http.Header{"Content-Type": {"text/html"}})
	page.Body = []byte("<html><title>Log in</title></html>")
	missing := page
	missing.Status = 404
	usual := []struct {
		name     string
		response Response
	}{
		{"200, an empty object", emptyObject(200, nil)}, {"404, an empty object", emptyObject(404, nil)},
		{"404 with an HTML page", missing}, {"200 with an HTML page", page}, {"403 Forbidden", emptyObject(403, nil)},
		{"429 Too Many Requests", emptyObject(429, nil)}, {"500 Internal Server Error", emptyObject(500, nil)},
	}
	for _, u := range usual {
		out = append(out, lookupAnswer{u.name, u.response.Status, o.Find(l, Question{}, u.response).Finding})
	}
	return append(out, lookupAnswer{"no answer", 0, outcome.FindingUnknown})
}

// after says what one finding leads to, if nothing was found before it.
func (o *Operation) after(f outcome.Finding, more bool) FindingEnd {
	absence := o.LookupAbsence()
	first := unresolvedAt.Add(o.LookupSchedule().FirstAfter)
	settled := outcome.Settle(f, outcome.Search{}, absence, o.possibleUntil(), first)
	end := FindingEnd{State: outcome.StateUnresolved, NextAction: outcome.NextActionLookup, Then: "asked again"}
	if more && f != outcome.FindingPending {
		end.Then = "the next question"
	}
	switch {
	case settled.Verdict == outcome.SettlementApplied:
		end = FindingEnd{State: outcome.StateSuccess, Reason: outcome.OutcomeReasonApplied, NextAction: outcome.NextActionNone, Then: "success"}
	case settled.Verdict == outcome.SettlementRefused:
		end = FindingEnd{State: outcome.StateRejected, Reason: outcome.OutcomeReasonRefused, NextAction: outcome.NextActionNone, Then: "rejected"}
	case settled.Verdict == outcome.SettlementAbsent:
		return o.confirmed(absence.Then)
	case f == outcome.FindingAbsent && absence.SettlesAfter == 0:
		end.Then += "; proves nothing"
	case f == outcome.FindingAbsent:
		end.Then += "; counts from " + short(settled.NotBefore.Sub(unresolvedAt)) + " on"
	}
	if end.State != outcome.StateUnresolved && o.profile.Reconciliation == ReconciliationReportOnly {
		return FindingEnd{State: outcome.StateUnresolved, NextAction: outcome.NextActionLookup, Then: "only recorded"}
	}
	return end
}
