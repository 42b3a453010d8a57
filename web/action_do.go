package web

import (
	"encoding/json"
	"errors"
	"net/http"

	"executor/internal/audit"
	"executor/outcome"
	"executor/reconcile"
)

// doAction checks what was typed, shows what would be done, and does it once that is
// confirmed.
func (s *Server) doAction(v *visit, kind actionKind) error {
	p, err := s.openAction(v, kind)
	if err != nil {
		return err
	}
	p.Form = v.typedAction()
	p.incomplete()
	a, w := p.action(v), p.wish()
	err = s.doubts.Check(v.r.Context(), a, w)
	if err == nil && len(p.Wrong) > 0 {
		return s.renderAction(v, http.StatusUnprocessableEntity, p)
	}
	sure := v.form("confirmed") == "yes" || p.Cheap()
	if err == nil && !sure {
		p.Confirm = true
		return s.renderAction(v, http.StatusOK, p)
	}
	if err == nil {
		err = s.doubts.Do(v.r.Context(), a, w)
	}
	if err != nil {
		return s.refuseAction(v, p, err)
	}
	v.tell("good", p.done())
	return v.redirect("/commands/" + p.Command.ID.String())
}

// action is who does it, and on what they saw.
func (p *actionPage) action(v *visit) reconcile.Action {
	return reconcile.Action{
		Tenant: v.tenant, Command: p.Command.ID, Version: p.Form.Version, Actor: v.actor(), Reason: p.Form.Reason, EvidenceReference: p.Form.Evidence,
	}
}

// refuseAction shows the form again with all that was typed, and why it was not done.
func (s *Server) refuseAction(v *visit, p *actionPage, err error) error {
	var (
		stale   *reconcile.Stale
		refused *reconcile.Refused
	)
	switch {
	case wrongFields(p.Wrong, err):
		return s.renderAction(v, http.StatusUnprocessableEntity, p)
	case errors.As(err, &stale), errors.Is(err, reconcile.ErrVersionRequired):
		return s.staleAction(v, p)
	case errors.As(err, &refused):
		p.Refused = refused.Detail
		return s.renderAction(v, http.StatusConflict, p)
	default:
		return err
	}
}

// staleAction is what happened since a form was rendered.
type staleAction struct {
	Version int // that the form was rendered from
	Was     outcome.State
	Now     outcome.State
	Lines   []pastLine
	Wanted  bool // it is as the form wanted it
}

// staleAction shows what changed since the person looked. Where it was they who
// changed it, with this very form, there is nothing left to say but that.
func (s *Server) staleAction(v *visit, p *actionPage) error {
	ctx := v.r.Context()
	deeds, _, err := audit.List(ctx, s.pool, audit.Filter{Tenant: v.tenant, Command: &p.Command.ID, Limit: 50})
	if err != nil {
		return err
	}
	for _, deed := range deeds {
		if p.isThis(deed, v.actor()) {
			v.tell("good", "This was done already: the same form came twice, and the second time changed nothing.")
			return v.redirect("/commands/" + p.Command.ID.String())
		}
	}
	// Read again: what changed it may have committed after the page was read.
	if err := s.readAction(ctx, v, p.Command.ID, p); err != nil {
		return err
	}
	events, err := s.commands.Events(ctx, v.tenant, p.Command.ID)
	if err != nil {
		return err
	}
	p.Stale = &staleAction{
		Version: p.Form.Version, Was: p.Form.SeenState, Now: p.Options.State,
		Lines: sinceLines(deeds, events, p.Form), Wanted: p.asWanted(),
	}
	p.renew()
	if refused := actionRefusal(p.Options, p.Kind.Name); refused != nil {
		p.Refused = refused.Detail
	}
	return s.renderAction(v, http.StatusConflict, p)
}

// versionBefore is the version of the command that a deed was done on.
func versionBefore(deed audit.Recorded) int {
	var before struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(deed.Before, &before) != nil {
		return 0
	}
	return before.Version
}

// isThis reports whether a deed is what this form asked for.
func (p *actionPage) isThis(deed audit.Recorded, actor string) bool {
	action := "command." + p.Kind.Name
	same := deed.Action == action || p.Kind.Name == reconcile.ActionCorrect && deed.Action == "command."+reconcile.ActionDismiss
	return same && deed.Actor == actor && deed.Reason == p.Form.Reason && p.Form.Version > 0 && versionBefore(deed) == p.Form.Version
}

// asWanted reports whether the command is as the form would have made it.
func (p *actionPage) asWanted() bool {
	c, w := p.Command, p.wish()
	switch p.Kind.Name {
	case reconcile.ActionResolve, reconcile.ActionCorrect:
		ref := ""
		if c.Outcome != nil && c.Outcome.Result != nil {
			ref = c.Outcome.Result.Reference
		}
		return c.State == w.Resolution.State && (w.Resolution.Reference == "" || ref == w.Resolution.Reference)
	case reconcile.ActionAssign:
		return c.Reconciliation != nil && c.Reconciliation.Assignee == w.Assignee
	case reconcile.ActionCancel:
		return c.CancelRequested
	default:
		return false
	}
}
