package web

import (
	"context"
	"net/http"

	"executor/commands"
	"executor/internal/operators"
	"executor/reconcile"
)

// actionKinds are what a person can do about one command, in the order of the page.
var actionKinds = []actionKind{
	{reconcile.ActionResolve, "Resolve", "Say what became of it: done, refused, or never arrived."},
	{reconcile.ActionLookup, "Look up now", "Ask the upstream what became of it. Nothing is sent again."},
	{reconcile.ActionResend, "Resend", "Send it once more, under the same key."},
	{reconcile.ActionCorrect, "Correct", "Change a settled state, or keep it against evidence that contradicts it."},
	{reconcile.ActionAssign, "Assign", "Say who looks after it."},
	{reconcile.ActionNote, "Add a note", "Put a remark on record."},
	{reconcile.ActionCancel, "Cancel", "Have nothing more sent."},
}

// actionKind is an action as pages name it. Its name is the last part of its address.
type actionKind struct{ Name, Label, Hint string }

func actionRoutes() []route {
	var list []route
	for _, kind := range actionKinds {
		pattern := "/commands/{id}/" + kind.Name
		list = append(list,
			route{method: http.MethodGet, pattern: pattern, role: operators.RoleOperator, serve: func(s *Server, v *visit) error { return s.showAction(v, kind) }},
			route{method: http.MethodPost, pattern: pattern, role: operators.RoleOperator, serve: func(s *Server, v *visit) error { return s.doAction(v, kind) }})
	}
	return list
}

// actionsView is what may be done about a command.
type actionsView struct {
	Path    string // of the command
	May     bool   // the visitor's role allows it
	Offered []actionView
	Others  []actionView
}

// actionView is an action that is offered, or why it is not.
type actionView struct {
	actionKind
	Why string
	Key string // the key that leads to it
}

func (s *Server) actionsOf(ctx context.Context, v *visit, c commands.Command) (actionsView, error) {
	options, err := s.doubts.Options(ctx, v.tenant, c.ID)
	if err != nil {
		return actionsView{}, err
	}
	view := actionsView{Path: "/commands/" + c.ID.String(), May: v.may(operators.RoleOperator)}
	for _, kind := range actionKinds {
		shown := actionView{actionKind: kind}
		if kind.Name == reconcile.ActionAssign {
			shown.Key = "a"
		}
		if refused := actionRefusal(options, kind.Name); refused != nil {
			shown.Why = refused.Detail
			view.Others = append(view.Others, shown)
			continue
		}
		if kind.Name == reconcile.ActionResend && options.Refusal(reconcile.ActionResend) != nil {
			shown.Hint = "Send it once more, under the same key: only on your own finding, with its evidence, that nothing of it arrived."
		}
		view.Offered = append(view.Offered, shown)
	}
	return view, nil
}

// actionRefusal says why an action cannot be done at all, whatever its form says.
func actionRefusal(o reconcile.Options, action string) *reconcile.Refused {
	refused := o.Refusal(action)
	if action == reconcile.ActionResend && refused != nil && o.Refusal(reconcile.ActionResendAbsent) == nil {
		return nil
	}
	return refused
}
