package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/operators"
	"executor/webhooks"
)

func webhookFormRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/webhooks/new", role: operators.RoleAdmin, serve: (*Server).webhookNew},
		{method: http.MethodPost, pattern: "/webhooks", role: operators.RoleAdmin, serve: (*Server).webhookCreate},
		{method: http.MethodGet, pattern: "/webhooks/{id}/edit", role: operators.RoleAdmin, serve: (*Server).webhookEdit},
		{method: http.MethodPost, pattern: "/webhooks/{id}/edit", role: operators.RoleAdmin, serve: (*Server).webhookUpdate},
	}
}

// webhookForm makes a webhook or changes one.
type webhookForm struct {
	ID        *uuid.UUID // nil for a new one
	Name      string
	Set       webhooks.Settings
	Reason    string
	Seen      string
	Events    []eventChoice
	Upstreams []string
	Sealing   bool
	Problem   string
	Wrong     map[string]string  // by field
	Twin      *webhooks.Endpoint // has the URL already
	Changed   []changed
}

// eventChoice is a type of events in words.
type eventChoice struct{ Type, Words string }

func eventChoices() []eventChoice {
	words := map[string]string{
		"command.success":       "it was done",
		"command.rejected":      "the upstream refused it, and nothing was done",
		"command.unresolved":    "nobody knows whether it was done; the answer follows as another event",
		"command.cancelled":     "it was not done",
		commands.EventCorrected: "a person corrected an outcome",
	}
	var list []eventChoice
	for _, kind := range webhooks.EventTypes() {
		list = append(list, eventChoice{kind, words[kind]})
	}
	return list
}

// Wants reports whether a type is ticked.
func (f *webhookForm) Wants(kind string) bool { return slices.Contains(f.Set.Events, kind) }

// From reports whether an upstream is ticked.
func (f *webhookForm) From(name string) bool { return slices.Contains(f.Set.Upstreams, name) }

func (s *Server) webhookNew(v *visit) error {
	return s.showWebhookForm(v, http.StatusOK, &webhookForm{})
}

func (s *Server) webhookEdit(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	e, err := s.hooks.Get(v.r.Context(), v.tenant, id)
	if err != nil {
		return err
	}
	return s.showWebhookForm(v, http.StatusOK, &webhookForm{ID: &id, Name: hookName(e), Set: e.Settings, Seen: snapshotOf(e).encode()})
}

func (s *Server) showWebhookForm(v *visit, status int, f *webhookForm) error {
	known, err := s.upstreamNames(v)
	if err != nil {
		return err
	}
	f.Events, f.Sealing = eventChoices(), s.hooks.Sealing()
	f.Upstreams = slices.Compact(slices.Sorted(slices.Values(append(known, f.Set.Upstreams...))))
	title := "New webhook"
	if f.ID != nil {
		title = "Change webhook " + f.Name
	}
	return v.renderStatus(status, "webhook_form.html", title, f)
}

// upstreamNames are those of the tenant, also of profiles that cannot be read.
func (s *Server) upstreamNames(v *visit) ([]string, error) {
	return s.upstreams.Names(v.r.Context(), v.tenant)
}

// typedSettings are the settings as the form brought them.
func (v *visit) typedSettings() webhooks.Settings {
	return webhooks.Settings{
		URL: v.form("url"), Description: v.form("description"), Events: v.r.PostForm["events"], Upstreams: v.r.PostForm["upstreams"],
		Ordered: v.form("ordered") != "",
	}
}

func (v *visit) hookBy(reason string) webhooks.By {
	return webhooks.By{Tenant: v.tenant, Actor: v.actor(), Reason: reason}
}

func (s *Server) webhookCreate(v *visit) error {
	f := &webhookForm{Set: v.typedSettings(), Reason: v.form("reason")}
	if f.Reason == "" {
		return s.refuseForm(v, f, errNoReason)
	}
	e, secret, err := s.hooks.Create(v.r.Context(), v.hookBy(f.Reason), f.Set)
	if err != nil {
		return s.refuseForm(v, f, err)
	}
	if err := v.keepOnce("webhook/"+e.ID.String(), secret); err != nil {
		return err
	}
	v.tell("good", madeText(e))
	return v.redirect("/webhooks/" + e.ID.String())
}

// madeText says what a new webhook gets.
func madeText(e webhooks.Endpoint) string {
	if e.VerifiedAt == nil {
		return "The webhook is made. Every outcome from now on is kept for it, and sent once its receiver has answered our challenge."
	}
	return "The webhook is made. Every outcome from now on is sent to it."
}

func (s *Server) webhookUpdate(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	seen, set := v.seen(), v.typedSettings()
	f := &webhookForm{ID: &id, Name: hookName(webhooks.Endpoint{Settings: set}), Set: set, Reason: v.form("reason"), Seen: v.form("seen")}
	if f.Reason == "" {
		return s.refuseForm(v, f, errNoReason)
	}
	events, ups := append([]string{}, set.Events...), append([]string{}, set.Upstreams...)
	_, err = s.hooks.Update(v.r.Context(), v.hookBy(f.Reason), id, seen.Version, webhooks.Changes{
		URL: &set.URL, Description: &set.Description, Events: &events, Upstreams: &ups, Ordered: &set.Ordered,
	})
	if err != nil {
		return s.refuseForm(v, f, err)
	}
	v.tell("good", "The webhook is changed.")
	return v.redirect("/webhooks/" + id.String())
}

// errNoReason: what is done goes on record with its reason.
var errNoReason = &webhooks.Invalid{Field: "reason", Code: "required", Detail: "Say why: it goes into the audit."}

// refuseForm shows a form again with what was typed and what is wrong with it.
func (s *Server) refuseForm(v *visit, f *webhookForm, err error) error {
	var (
		invalid *webhooks.Invalid
		refused *webhooks.Refused
		stale   *webhooks.Stale
		busy    *webhooks.Busy
	)
	switch {
	case errors.As(err, &busy):
		f.Problem = sentence(busy.Error()) + "."
		return s.showWebhookForm(v, http.StatusTooManyRequests, f)
	case errors.As(err, &invalid):
		f.Problem, f.Wrong = "Nothing was saved yet.", map[string]string{invalid.Field: invalid.Detail}
		return s.showWebhookForm(v, http.StatusUnprocessableEntity, f)
	case errors.As(err, &refused):
		f.Problem = refused.Detail
		if err := s.findTwin(v, f, refused.Code); err != nil {
			return err
		}
		return s.showWebhookForm(v, http.StatusConflict, f)
	case errors.As(err, &stale) && f.ID != nil:
		now, err := s.hooks.Get(v.r.Context(), v.tenant, *f.ID)
		if err != nil {
			return err
		}
		f.Problem = "Somebody changed this webhook while you did, and nothing of yours was saved. What you typed stands below: saving it now replaces what they did."
		f.Changed, f.Seen, f.Name = v.seen().since(now), snapshotOf(now).encode(), hookName(now)
		return s.showWebhookForm(v, http.StatusConflict, f)
	default:
		return err
	}
}

// findTwin finds the webhook that has the URL already: mostly the one that was made
// when the answer to the same form was lost.
func (s *Server) findTwin(v *visit, f *webhookForm, code string) error {
	if code != "webhook_exists" {
		return nil
	}
	list, err := s.hooks.List(v.r.Context(), v.tenant)
	for i := range list {
		if list[i].URL == f.Set.URL {
			f.Twin = &list[i]
		}
	}
	return err
}
