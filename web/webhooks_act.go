package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/internal/operators"
	"executor/webhooks"
)

func webhookActionRoutes() []route {
	admin := func(action string, serve func(*Server, *visit) error) route {
		return route{method: http.MethodPost, pattern: "/webhooks/{id}/" + action, role: operators.RoleAdmin, serve: serve}
	}
	return []route{
		admin("disable", func(s *Server, v *visit) error { return s.webhookAct(v, "disable", s.disableWebhook) }),
		admin("enable", func(s *Server, v *visit) error { return s.webhookAct(v, "enable", s.enableWebhook) }),
		admin("delete", func(s *Server, v *visit) error { return s.webhookAct(v, "delete", s.deleteWebhook) }),
		admin("rotate", func(s *Server, v *visit) error { return s.webhookAct(v, "rotate", s.rotateWebhook) }),
		admin("challenge", func(s *Server, v *visit) error { return s.webhookAct(v, "challenge", s.challengeWebhook) }),
		admin("confirm", func(s *Server, v *visit) error { return s.webhookAct(v, "confirm", s.confirmWebhook) }),
		admin("test", func(s *Server, v *visit) error { return s.webhookAct(v, "test", s.testWebhook) }),
	}
}

// hookDeed does one thing to a webhook in the version that the person saw, and
// returns where to go on.
type hookDeed func(v *visit, id uuid.UUID, version int, by webhooks.By) (next string, err error)

// webhookAct does something to a webhook for a reason. What is refused is shown on
// the webhook's page, with what was typed.
func (s *Server) webhookAct(v *visit, action string, do hookDeed) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	reason, seen := v.form("reason"), v.seen()
	if reason == "" {
		return s.refuseAct(v, id, action, errNoReason)
	}
	next, err := do(v, id, seen.Version, v.hookBy(reason))
	if err != nil {
		return s.refuseAct(v, id, action, err)
	}
	return v.redirect(next)
}

func (s *Server) refuseAct(v *visit, id uuid.UUID, action string, err error) error {
	var (
		invalid *webhooks.Invalid
		refused *webhooks.Refused
		stale   *webhooks.Stale
		busy    *webhooks.Busy
		problem string
		status  = http.StatusConflict
	)
	switch {
	case errors.As(err, &invalid):
		problem, status = invalid.Detail, http.StatusUnprocessableEntity
	case errors.As(err, &refused):
		problem = refused.Detail
	case errors.As(err, &busy):
		problem, status = sentence(busy.Error())+".", http.StatusTooManyRequests
	case errors.As(err, &stale):
		problem = "Somebody changed this webhook after you opened the page, and nothing was done. Look at what is different, and decide again; what you typed is kept."
	default:
		return err
	}
	p, err := s.webhookPage(v, id)
	if err != nil {
		return err
	}
	p.Problem, p.Typed = problem, typedInput{Action: action, Reason: v.form("reason"), Overlap: v.form("overlap")}
	if stale != nil {
		p.Changed = v.seen().since(p.Endpoint)
	}
	return v.renderStatus(status, "webhook.html", "Webhook "+p.Name(), p)
}

func (s *Server) disableWebhook(v *visit, id uuid.UUID, version int, by webhooks.By) (string, error) {
	_, err := s.hooks.Update(v.r.Context(), by, id, version, webhooks.Changes{Disabled: new(true)})
	v.tellIf(err, "Disabled. Outcomes go on being kept for it and wait until somebody enables it.")
	return "/webhooks/" + id.String(), err
}

func (s *Server) enableWebhook(v *visit, id uuid.UUID, version int, by webhooks.By) (string, error) {
	e, err := s.hooks.Update(v.r.Context(), by, id, version, webhooks.Changes{Disabled: new(false)})
	text := "Enabled. What waited is being sent now."
	if e.VerifiedAt == nil {
		text = "Enabled. What waited is sent once its receiver has answered our challenge."
	}
	v.tellIf(err, text)
	return "/webhooks/" + id.String(), err
}

func (s *Server) deleteWebhook(v *visit, id uuid.UUID, version int, by webhooks.By) (string, error) {
	err := s.hooks.Delete(v.r.Context(), by, id, version)
	v.tellIf(err, "The webhook is deleted. The log of its deliveries stays.")
	return "/webhooks", err
}

func (s *Server) rotateWebhook(v *visit, id uuid.UUID, version int, by webhooks.By) (string, error) {
	overlap, err := time.ParseDuration(v.form("overlap"))
	if err != nil {
		return "", &webhooks.Invalid{Field: "overlap", Code: "invalid_overlap", Detail: "Choose how long the secret so far signs as well."}
	}
	_, secret, err := s.hooks.RotateSecret(v.r.Context(), by, id, version, overlap)
	if err == nil {
		err = v.keepOnce("webhook/"+id.String(), secret)
	}
	return "/webhooks/" + id.String(), err
}

func (s *Server) testWebhook(v *visit, id uuid.UUID, _ int, by webhooks.By) (string, error) {
	d, err := s.hooks.Test(v.r.Context(), by, id)
	v.tellIf(err, "A test event is on its way.")
	return "/deliveries/" + d.ID.String(), err
}

func (s *Server) challengeWebhook(v *visit, id uuid.UUID, _ int, by webhooks.By) (string, error) {
	d, err := s.hooks.Challenge(v.r.Context(), by, id)
	v.tellIf(err, "The receiver is being asked.")
	return "/deliveries/" + d.ID.String(), err
}

func (s *Server) confirmWebhook(v *visit, id uuid.UUID, version int, by webhooks.By) (string, error) {
	_, err := s.hooks.Confirm(v.r.Context(), by, id, version)
	v.tellIf(err, "Confirmed. What waited is being sent now.")
	return "/webhooks/" + id.String(), err
}

// tellIf has the next page say what was done, if it was.
func (v *visit) tellIf(err error, text string) {
	if err == nil {
		v.tell("good", text)
	}
}
