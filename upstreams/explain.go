package upstreams

import (
	"slices"
	"time"

	"executor/outcome"
)

// Matrix shows what each kind of failure would end in, operation by operation.
type Matrix struct {
	Upstream   string            `json:"upstream"`
	Operations []OperationMatrix `json:"operations"`
}

// OperationMatrix is the part of one operation.
type OperationMatrix struct {
	Operation   string   `json:"operation"`
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	Idempotency string   `json:"idempotency"` // as the profile says
	CountsAs    string   `json:"counts_as"`   // what decisions make of it
	Key         *Key     `json:"key"`         // nil = none
	Retention   string   `json:"retention"`   // "" = unknown or without meaning
	Lookup      string   `json:"lookup"`      // the first question; "" = none
	Rules       []string `json:"rules"`       // the conditions of the profile's own rules, in their order
	Rows        []Row    `json:"rows"`

	Lookups *LookupMatrix `json:"lookups"` // nil = none: a person has to find out
}

// Row says what one event leads to: first, and at the end if the same happens on
// every attempt.
type Row struct {
	Event    string           `json:"event"`
	Evidence outcome.Evidence `json:"evidence"`
	Category outcome.Category `json:"category"`
	Status   int              `json:"status"`  // 0 = no response
	Answer   outcome.Answer   `json:"answer"`  // "" = none
	ReadBy   string           `json:"read_by"` // the rule that gave the answer
	Boundary outcome.Boundary `json:"boundary"`

	Decision outcome.Verdict `json:"decision"`
	Rule     int             `json:"rule"`
	Reason   outcome.Reason  `json:"reason"`
	Wait     string          `json:"wait"` // at most, before the next attempt

	IfStopped End `json:"if_stopped"` // nothing more is sent, because the caller cancels
	AtTheEnd  End `json:"at_the_end"` // it happens on every attempt
	// OneShot is the end of a command whose body is one-shot, and so has one attempt;
	// nil where there is no body, or no first attempt to which this could happen.
	OneShot *End `json:"one_shot"`
}

// End is how the command ends.
type End struct {
	State          outcome.State         `json:"state"`
	Reason         outcome.OutcomeReason `json:"reason"`
	StoppedBy      outcome.Reason        `json:"stopped_by"`
	Attempts       int                   `json:"attempts"`
	After          string                `json:"after"` // since the first attempt began, at most
	SafeToResubmit bool                  `json:"safe_to_resubmit"`
	NextAction     outcome.NextAction    `json:"next_action"`
	Incomplete     bool                  `json:"incomplete"`
}

// Explain computes the matrix with the functions that decide about real
// commands: Judge, outcome.Decide and outcome.Close.
func (p *Profile) Explain() Matrix {
	m := Matrix{Upstream: p.Upstream}
	for _, o := range p.operations() {
		m.Operations = append(m.Operations, o.explain())
	}
	return m
}

func (o *Operation) explain() OperationMatrix {
	m := OperationMatrix{
		Operation: o.Name, Method: o.Method, Path: o.Path,
		Idempotency: string(o.Idempotency.Kind), CountsAs: string(o.Contract().Idempotency),
		Lookup: o.firstQuestion(), Rules: []string{}, Lookups: o.explainLookups(),
	}
	if o.Idempotency.Kind == outcome.IdempotencyKeyed {
		key := o.Idempotency.Key
		m.Key = &key
		if o.Idempotency.Retention > 0 {
			m.Retention = short(o.Idempotency.Retention)
		}
	}
	for _, rule := range o.Answers {
		m.Rules = append(m.Rules, rule.When.Source)
	}
	for _, e := range o.events() {
		m.Rows = append(m.Rows, o.row(e))
	}
	return m
}

func (o *Operation) firstQuestion() string {
	switch {
	case len(o.Lookups) == 0:
		return ""
	case o.Lookups[0].Replay:
		return "replay"
	default:
		return o.Lookups[0].Method + " " + o.Lookups[0].Path
	}
}

// row plays an event once, and then again on every attempt.
func (o *Operation) row(e event) Row {
	play := newPlay(o, e)
	if e.afterLost {
		play.lose(o.Timeouts)
	}
	first := play.attempt()
	row := Row{
		Event: e.name, Evidence: e.evidence, Category: e.category, Status: e.status, Answer: e.answer, ReadBy: e.readBy,
		Boundary: first.AttemptBoundary, Decision: first.Verdict, Rule: first.Rule, Reason: first.Reason,
		IfStopped: play.cancelled(first),
	}
	if first.Outcome == nil {
		row.Wait = short(first.Wait)
	}
	row.AtTheEnd = play.toTheEnd(first)
	row.OneShot = o.onlyOnce(e)
	return row
}

// onlyOnce plays an event for a body that cannot be sent again.
func (o *Operation) onlyOnce(e event) *End {
	if o.Body == BodyNone || e.afterLost {
		return nil
	}
	play := newPlay(o, e)
	play.facts.Body = outcome.BodyOneShot
	end := play.toTheEnd(play.attempt())
	return &end
}

// play is a synthetic history: the same event on every attempt, the longest
// waits, a budget that is always full.
type play struct {
	event event
	start time.Time
	facts outcome.Facts
}

func newPlay(o *Operation, e event) *play {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &play{event: e, start: start, facts: outcome.Facts{
		Now: start, Deadline: start.Add(o.profile.Deadline),
		Operation: o.Contract(), Retry: o.Policy(), Body: outcome.BodyReplayable, BudgetTokens: float64(o.Retry.Budget.Burst),
	}}
}

// lose lets a first attempt end without an answer.
func (p *play) lose(t Timeouts) {
	begun := p.facts.Now
	p.facts.Now = earlier(begun.Add(min(t.ResponseHeader, t.Total)), p.facts.Deadline)
	p.facts.Attempts = append(p.facts.Attempts, outcome.Attempt{
		StartedAt: begun, EndedAt: p.facts.Now, Evidence: outcome.EvidenceSentNoResponse, Category: outcome.CategoryHeaderTimeout,
	})
}

// attempt lets the event happen now, and decides.
func (p *play) attempt() outcome.Decision {
	begun := p.facts.Now
	p.facts.Now = earlier(begun.Add(p.event.takes), p.facts.Deadline)
	p.facts.Attempts = append(p.facts.Attempts, outcome.Attempt{
		StartedAt: begun, EndedAt: p.facts.Now,
		Evidence: p.event.evidence, Category: p.event.category, Status: p.event.status, Answer: p.event.answer,
		RetryAfter: p.event.retryAfter, RefreshedAuth: p.refreshed(),
	})
	return outcome.Decide(p.facts)
}

// refreshed says whether the attempt goes out with a refreshed credential.
func (p *play) refreshed() bool {
	return p.event.status == 401 && p.facts.Operation.CanRefreshAuth && len(p.facts.Attempts) > 0
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// cancelled says how it ends if the caller cancels while it is under way.
func (p *play) cancelled(d outcome.Decision) End {
	if d.Outcome == nil {
		facts := p.facts
		facts.CancelRequested = true
		d = outcome.Decide(facts)
	}
	return p.end(*d.Outcome, d.Reason)
}

// toTheEnd repeats the event until nothing more is sent.
func (p *play) toTheEnd(d outcome.Decision) End {
	for d.Outcome == nil {
		p.facts.PreviousWait = d.Wait
		p.facts.Now = d.RetryAt
		if d = outcome.MayStart(p.facts); d.Outcome == nil {
			d = p.attempt()
		}
	}
	return p.end(*d.Outcome, d.Reason)
}

func (p *play) end(o outcome.Outcome, stopped outcome.Reason) End {
	return End{
		State: o.State, Reason: o.Reason, StoppedBy: stopped, Attempts: len(p.facts.Attempts),
		After:          short(p.facts.Now.Sub(p.start).Round(time.Millisecond)),
		SafeToResubmit: o.SafeToResubmit, NextAction: o.NextAction, Incomplete: o.Incomplete,
	}
}

// event is something that can happen to an attempt.
type event struct {
	name       string
	evidence   outcome.Evidence
	category   outcome.Category
	status     int
	answer     outcome.Answer
	readBy     string
	retryAfter string
	takes      time.Duration
	afterLost  bool // it can only happen to a later attempt
}

// events lists what can happen: failures on the way, every usual status as the
// profile reads it, and each of its own rules.
func (o *Operation) events() []event {
	return slices.Concat(o.transportEvents(), o.ruleEvents(), o.statusEvents(), o.oddAnswers())
}
