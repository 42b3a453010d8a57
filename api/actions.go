package api

import (
	"context"
	"net/http"

	"executor/outcome"
	"executor/reconcile"
)

// action is what a person does to one command: what the body says beside it, and
// the store's method.
type action struct {
	members []member
	do      func(ctx context.Context, a reconcile.Action) error
}

// act reads an action, has it done, and answers with the command as it is then.
func (s *Server) act(w http.ResponseWriter, r *http.Request, build func(a *reconcile.Action) action) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	version, err := expectedVersion(r.Header)
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	caller := callOf(r).key
	a := reconcile.Action{Tenant: caller.Tenant, Command: id, Version: version, Actor: caller.Name}
	act := build(&a)
	if err := decodeForm(src, act.members...); err != nil {
		return err
	}
	if err := act.do(r.Context(), a); err != nil {
		return err
	}
	c, err := s.commands.Get(r.Context(), caller.Tenant, id)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(c))
	return write(w, http.StatusOK, "application/json", view(c, writeCommand))
}

// ResolveCommand takes a person's word for what became of a command.
func (s *Server) ResolveCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, resolution(s.reviews.Resolve))
}

// CorrectCommand takes a person's word against a settled state.
func (s *Server) CorrectCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, resolution(s.reviews.Correct))
}

// settledStates are those that a person can decide on.
func settledStates() []outcome.State {
	return []outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateCancelled}
}

func resolution(do func(context.Context, reconcile.Action, reconcile.Resolution) error) func(*reconcile.Action) action {
	return func(a *reconcile.Action) action {
		var to reconcile.Resolution
		return action{
			members: append(reasons(a),
				required(wordMember("state", &to.State, settledStates()...)),
				textMember("reference", &to.Reference, maxReference),
				textMember("code", &to.Code, maxShort),
				textMember("message", &to.Message, maxWhy),
			),
			do: func(ctx context.Context, a reconcile.Action) error { return do(ctx, a, to) },
		}
	}
}

// reasons are the members with which a person answers for a decision.
func reasons(a *reconcile.Action) []member {
	return []member{
		required(textMember("reason", &a.Reason, maxWhy)),
		textMember("evidence_reference", &a.EvidenceReference, maxReference),
	}
}

// LookUpCommand brings the next lookup forward.
func (s *Server) LookUpCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, func(a *reconcile.Action) action {
		return action{members: []member{required(textMember("reason", &a.Reason, maxWhy))}, do: s.reviews.LookUpNow}
	})
}

// ResendCommand authorises one more attempt.
func (s *Server) ResendCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, func(a *reconcile.Action) action {
		var absent bool
		return action{
			members: append(reasons(a), flagMember("absent", &absent)),
			do:      func(ctx context.Context, a reconcile.Action) error { return s.reviews.Resend(ctx, a, absent) },
		}
	})
}

// AssignCommand says who looks after a command.
func (s *Server) AssignCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, func(a *reconcile.Action) action {
		var person string
		return action{
			members: []member{required(personMember("assignee", &person)), required(textMember("reason", &a.Reason, maxWhy))},
			do:      func(ctx context.Context, a reconcile.Action) error { return s.reviews.Assign(ctx, a, person) },
		}
	})
}

// NoteCommand keeps a note with a command.
func (s *Server) NoteCommand(w http.ResponseWriter, r *http.Request) error {
	return s.act(w, r, func(a *reconcile.Action) action {
		return action{
			members: []member{required(textMember("text", &a.Reason, maxWhy))},
			do:      func(ctx context.Context, a reconcile.Action) error { return aboutText(s.reviews.Note(ctx, a)) },
		}
	})
}
