package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/webhooks"
)

// actionForm is what a person typed, and what they saw when they did.
type actionForm struct {
	Version   int           // of the command
	SeenState outcome.State // and its state
	SeenAt    time.Time
	State     outcome.State // to resolve or correct
	Reference string
	Code      string
	Message   string
	Absent    bool
	To        string // assign: me, other or nobody
	Assignee  string
	Reason    string
	Evidence  string
}

// actionPage is the form of an action, or its confirmation.
type actionPage struct {
	Kind         actionKind
	Command      commands.Command
	Options      reconcile.Options
	Explanation  Explanation
	Form         actionForm
	Me           string
	Wrong        map[string]string // by the name of the field
	Refused      string            // why it cannot be done as things stand
	Stale        *staleAction
	Confirm      bool
	Sentence     string // what is about to be done
	Consequences []string
	Hooks        []webhooks.Endpoint
}

// States are those that a person can settle the command as. To keep its state there
// has to be something that contradicts it.
func (p actionPage) States() []outcome.State {
	all := []outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateCancelled}
	return slices.DeleteFunc(all, func(state outcome.State) bool { return p.Dismisses(state) && p.Options.Conflicts == 0 })
}

// Possible reports whether the action can be done at all as things stand.
func (p actionPage) Possible() bool { return actionRefusal(p.Options, p.Kind.Name) == nil }

// Blank reports whether there is nothing to be kept of an action that is not possible.
func (p actionPage) Blank() bool { return !p.Possible() && p.Form.Reason == "" }

// Dismisses reports whether choosing the state keeps it.
func (p actionPage) Dismisses(state outcome.State) bool {
	return p.Kind.Name == reconcile.ActionCorrect && state == p.Command.State
}

// Settles reports whether the form asks for a state.
func (p actionPage) Settles() bool {
	return p.Kind.Name == reconcile.ActionResolve || p.Kind.Name == reconcile.ActionCorrect
}

// AbsentNeeded reports whether a resend takes the person's own finding.
func (p actionPage) AbsentNeeded() bool { return p.Options.Refusal(reconcile.ActionResend) != nil }

// Cheap reports whether the action is done without a second look.
func (p actionPage) Cheap() bool {
	return p.Kind.Name == reconcile.ActionNote || p.Kind.Name == reconcile.ActionAssign
}

// openAction reads all that the page of an action shows.
func (s *Server) openAction(v *visit, kind actionKind) (*actionPage, error) {
	id, err := v.id()
	if err != nil {
		return nil, err
	}
	ctx := v.r.Context()
	p := &actionPage{Kind: kind, Me: v.actor(), Wrong: map[string]string{}}
	return p, s.readAction(ctx, v, id, p)
}

func (s *Server) readAction(ctx context.Context, v *visit, id uuid.UUID, p *actionPage) (err error) {
	// The options come first: what a form is rendered from is then never older than
	// the version that it names.
	if p.Options, err = s.doubts.Options(ctx, v.tenant, id); err != nil {
		return err
	}
	if p.Command, err = s.commands.Get(ctx, v.tenant, id); err != nil {
		return err
	}
	p.Explanation = explain(account{command: p.Command, kind: p.Options.Idempotency})
	p.Hooks, err = s.hooks.List(ctx, v.tenant)
	return err
}

func (s *Server) showAction(v *visit, kind actionKind) error {
	p, err := s.openAction(v, kind)
	if err != nil {
		return err
	}
	p.Form = actionForm{To: v.query("to")}
	if p.Form.To == "" {
		p.Form.To = "me"
	}
	p.renew()
	if refused := actionRefusal(p.Options, kind.Name); refused != nil {
		p.Refused = refused.Detail
	}
	return s.renderAction(v, http.StatusOK, p)
}

// renew makes the form one of the command as it is now.
func (p *actionPage) renew() {
	p.Form.Version, p.Form.SeenState, p.Form.SeenAt = p.Options.Version, p.Options.State, p.Options.At
}

func (s *Server) renderAction(v *visit, status int, p *actionPage) error {
	p.Consequences = p.consequences()
	if p.Confirm {
		p.Sentence = p.sentence()
	}
	return v.renderStatus(status, "action.html", p.Kind.Label+": "+p.Command.Key, p)
}

// typedAction reads the form. What is no state stays empty, and is asked for.
func (v *visit) typedAction() actionForm {
	f := actionForm{
		Reference: v.form("reference"), Code: v.form("code"), Message: v.form("message"), Absent: v.form("absent") == "yes",
		To: v.form("to"), Assignee: v.form("assignee"), Reason: v.form("reason"), Evidence: v.form("evidence_reference"),
	}
	f.Version, _ = strconv.Atoi(v.form("version"))
	f.State, _ = outcome.ParseState(v.form("state"))
	f.SeenState, _ = outcome.ParseState(v.form("seen_state"))
	f.SeenAt, _ = time.Parse(time.RFC3339Nano, v.form("seen_at"))
	return f
}

// wish is what the form asks for. What does not belong to the state is left out.
func (p *actionPage) wish() reconcile.Wish {
	f := p.Form
	w := reconcile.Wish{Action: p.Kind.Name, Absent: f.Absent, Resolution: reconcile.Resolution{State: f.State}}
	switch f.State {
	case outcome.StateSuccess:
		w.Resolution.Reference = f.Reference
	case outcome.StateRejected:
		w.Resolution.Code, w.Resolution.Message = f.Code, f.Message
	}
	switch f.To {
	case "me":
		w.Assignee = p.Me
	case "other":
		w.Assignee = f.Assignee
	}
	return w
}

// incomplete names what a choice leaves open.
func (p *actionPage) incomplete() {
	switch {
	case p.Settles() && p.Form.State == "":
		p.Wrong["state"] = "Choose what became of it."
	case p.Kind.Name == reconcile.ActionAssign && p.Form.To == "other" && p.Form.Assignee == "":
		p.Wrong["assignee"] = "Write who takes it on."
	case p.Kind.Name == reconcile.ActionAssign && p.Form.To != "me" && p.Form.To != "other" && p.Form.To != "nobody":
		p.Wrong["to"] = "Choose who looks after it."
	}
}

// wrongFields puts the complaints of a store beside the fields they are about.
func wrongFields(into map[string]string, err error) bool {
	var invalid *commands.Invalid
	if !errors.As(err, &invalid) {
		return false
	}
	for _, f := range invalid.Fields {
		name := strings.TrimPrefix(f.Pointer, "/")
		if into[name] == "" {
			into[name] = f.Detail
		}
	}
	return true
}
