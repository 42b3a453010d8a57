package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"executor/outcome"
	"executor/upstreams"
)

// explainPage shows what each kind of failure would end in, for one operation at a
// time.
type explainPage struct {
	Upstream   string
	Version    int
	Newest     int
	Operations []link
	Chosen     *operationView // nil: the profile has none
	Warnings   []upstreams.Warning
}

// operationView is an operation's part of the matrix in words.
type operationView struct {
	upstreams.OperationMatrix
	Contract  []fact
	Rows      []failureRow
	Questions []questionView
}

// questionView is one lookup of a round.
type questionView struct {
	upstreams.QuestionMatrix
	Number int // from 1
}

// Replays reports whether it is no question but the command once more.
func (q questionView) Replays() bool { return q.Ask == "replay" }

// failureRow is a row of the matrix.
type failureRow struct {
	upstreams.Row
	Decides string // in words
	Because string
	RuleIs  string
}

func (s *Server) upstreamExplain(v *visit) error {
	name := v.param("name")
	versions, err := s.upstreams.Versions(v.r.Context(), v.tenant, name)
	if err != nil {
		return err
	}
	p := &explainPage{Upstream: name, Newest: versions[0].Version}
	if p.Version, err = versionOf(v.query("version"), p.Newest, p.Newest); err != nil {
		return err
	}
	profile, err := s.versionProfile(v, name, p.Version)
	var broken *upstreams.ParseError
	if errors.As(err, &broken) {
		return &failure{http.StatusConflict, "This version cannot be read", fmt.Sprintf("Version %d of %s is no valid profile any more. The page of the upstream says why.", p.Version, name)}
	}
	if err != nil {
		return err
	}
	p.Warnings = profile.Warnings
	if err := p.choose(profile, v.query("operation")); err != nil {
		return err
	}
	return v.render("upstream_explain.html", "What failures of "+name+" would end in", p)
}

// versionProfile reads a version, also of an upstream whose newest cannot be read.
func (s *Server) versionProfile(v *visit, name string, version int) (*upstreams.Profile, error) {
	u, err := s.upstreams.Get(v.r.Context(), v.tenant, name)
	if err == nil {
		return s.upstreams.Profile(v.r.Context(), u.ID, version) // parsed once
	}
	source, err := s.upstreams.Source(v.r.Context(), v.tenant, name, version)
	if err != nil {
		return nil, err
	}
	return upstreams.Parse(name, []byte(source))
}

// choose shows one operation, the first one unless the address names another.
func (p *explainPage) choose(profile *upstreams.Profile, name string) error {
	matrix := profile.Explain()
	i := slices.IndexFunc(matrix.Operations, func(o upstreams.OperationMatrix) bool { return name == "" || o.Operation == name })
	if i < 0 && name != "" {
		return notFound("This version of the profile has no operation " + name + ".")
	}
	for k, o := range matrix.Operations {
		p.Operations = append(p.Operations, link{
			Name: o.Operation, Current: k == i, Path: fmt.Sprintf("/upstreams/%s/explain?version=%d&operation=%s", p.Upstream, p.Version, o.Operation),
		})
	}
	if i >= 0 {
		p.Chosen = newOperationView(matrix.Operations[i])
	}
	return nil
}

func newOperationView(m upstreams.OperationMatrix) *operationView {
	o := &operationView{OperationMatrix: m, Contract: contractOf(m)}
	for _, row := range m.Rows {
		e := failureRow{Row: row, Decides: decides(row), RuleIs: ruleName(row.Rule)}
		e.Because, _ = stopWords(row.Reason)
		o.Rows = append(o.Rows, e)
	}
	if m.Lookups != nil {
		for i, q := range m.Lookups.Questions {
			o.Questions = append(o.Questions, questionView{q, i + 1})
		}
	}
	return o
}

// decides says what follows an event the first time.
func decides(row upstreams.Row) string {
	text := verdictWords[row.Decision]
	if row.Decision == outcome.VerdictRetry || row.Decision == outcome.VerdictWaitBudget {
		text += ", within " + row.Wait
	}
	return text
}

// contractOf says in words what the upstream promises.
func contractOf(m upstreams.OperationMatrix) []fact {
	promise := map[outcome.Idempotency]string{
		outcome.IdempotencySafe:    "it only reads: repeating it is harmless",
		outcome.IdempotencyKeyed:   "a repeat under the same key does nothing twice",
		outcome.IdempotencyNatural: "repeating it leaves the same state",
		outcome.IdempotencyNone:    "none: a repeat may do it a second time",
	}[outcome.Idempotency(m.CountsAs)]
	facts := []fact{{"Request", m.Method + " " + m.Path}, {"Promise about repeats", promise}}
	if promise == "" {
		facts[1].Value = capital(m.CountsAs)
	}
	if m.CountsAs != m.Idempotency {
		facts[1].Value += fmt.Sprintf(" (the profile says %s, which is not enough here)", m.Idempotency)
	}
	if m.Key != nil {
		facts = append(facts, fact{"Key", m.Key.In + " " + m.Key.Name}, fact{"The key is remembered", orUnknown(m.Retention)})
	}
	if m.Lookup == "" {
		return append(facts, fact{"When in doubt", "nobody can be asked: a person has to find out"})
	}
	return append(facts, fact{"When in doubt", "the upstream is asked: " + m.Lookup})
}

func orUnknown(span string) string {
	if span == "" {
		return "for an unknown time"
	}
	return "for " + span
}

// EndWords says how a command ends if it happens on every attempt.
func (e failureRow) EndWords() string { return endWords(e.AtTheEnd) }

// StopWords says how it ends if the caller cancels while it is under way.
func (e failureRow) StopWords() string { return endWords(e.IfStopped) }

// OnceWords says how it ends if the body cannot be sent again.
func (e failureRow) OnceWords() string {
	switch {
	case e.OneShot == nil:
		return "does not happen"
	case e.OneShot.StoppedBy == outcome.ReasonBodyNotReplayable:
		return endWords(*e.OneShot) + ": there is no second attempt"
	default:
		return endWords(*e.OneShot)
	}
}

// endWords add to a state what is known and who moves next.
func endWords(e upstreams.End) string {
	text := string(e.Reason)
	if e.State == outcome.StateSuccess || e.State == outcome.StateRejected {
		text = ""
	}
	add := func(more string) {
		if text != "" {
			text += ", "
		}
		text += more
	}
	if e.Incomplete {
		add("the answer's body is lost")
	}
	if e.Attempts > 1 {
		add(fmt.Sprintf("after %d attempts and %s at most", e.Attempts, e.After))
	}
	switch e.NextAction {
	case outcome.NextActionLookup:
		add("then the upstream is asked")
	case outcome.NextActionReview:
		add("then a person decides")
	}
	return text
}
