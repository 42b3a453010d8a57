package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/internal/operators"
	"executor/webhooks"
)

func webhookRoutes() []route {
	return slices.Concat([]route{
		{method: http.MethodGet, pattern: "/webhooks", role: operators.RoleViewer, serve: (*Server).webhookList},
		{method: http.MethodGet, pattern: "/webhooks/{id}", role: operators.RoleViewer, serve: (*Server).webhookShow},
	}, webhookFormRoutes(), webhookActionRoutes(), webhookRangeRoutes(), deliveryRoutes())
}

// hookRow is a webhook with how it does.
type hookRow struct {
	webhooks.Endpoint
	webhooks.Health
}

// Name is what people call it: its description, or whose it is.
func (r hookRow) Name() string { return hookName(r.Endpoint) }

func hookName(e webhooks.Endpoint) string {
	if e.Description != "" {
		return e.Description
	}
	if u, err := url.Parse(e.URL); err == nil {
		return u.Host
	}
	return e.URL
}

// Standing is one word for how it does.
func (r hookRow) Standing() string {
	switch {
	case r.DisabledAt != nil:
		return "disabled"
	case r.VerifiedAt == nil:
		return "not verified"
	case r.FailingSince != nil:
		return "failing"
	default:
		return "enabled"
	}
}

// Tone is the colour of its Standing.
func (r hookRow) Tone() string {
	return map[string]string{"enabled": "good", "failing": "doubt", "not verified": "doubt", "disabled": "bad"}[r.Standing()]
}

// Why says in words why it does not deliver; "" where it does.
func (r hookRow) Why() string {
	switch {
	case r.DisabledAt == nil && r.VerifiedAt == nil:
		return "It gets nothing but a challenge until its receiver has answered that. What happens meanwhile waits."
	case r.DisabledBy == webhooks.DisabledByPerson:
		return sentence(r.DisabledReason) + "."
	case r.DisabledBy == webhooks.DisabledByGone:
		return "Disabled by executor: it answered 410 Gone, so the receiver wants no more."
	case r.DisabledBy == webhooks.DisabledByFailing, r.DisabledBy == webhooks.DisabledByUnproven:
		return "Disabled by executor: " + r.DisabledReason + "."
	default:
		return ""
	}
}

// Keeps reports whether what happens is kept for it.
func (r hookRow) Keeps() bool { return r.DisabledBy != webhooks.DisabledByUnproven }

// PendingText is a number, or that there are more than are counted.
func (r hookRow) PendingText() string { return bounded(r.Pending) }

// FailedText is a number, or that there are more than are counted.
func (r hookRow) FailedText() string { return bounded(r.Failed) }

func bounded(n int) string {
	if n > webhooks.MaxCount {
		return "over " + number(webhooks.MaxCount)
	}
	return number(n)
}

// VerifiedText says how it is known that the receiver wants webhooks.
func (r hookRow) VerifiedText() string {
	return map[webhooks.VerifiedBy]string{
		"": "not yet", webhooks.VerifiedByChallenge: "the receiver answered a challenge", webhooks.VerifiedByPerson: "a person vouches for the receiver",
		webhooks.VerifiedBySetting: "this deployment asks no receiver", webhooks.VerifiedByBefore: "it is older than challenges",
	}[r.VerifiedBy]
}

// webhooksPage lists the webhooks of the tenant.
type webhooksPage struct {
	Webhooks []hookRow
	Admin    bool
	Full     bool // there are as many as there may be
	Sealing  bool
}

func (s *Server) webhookList(v *visit) error {
	list, err := s.hooks.List(v.r.Context(), v.tenant)
	if err != nil {
		return err
	}
	health, err := s.hooks.Health(v.r.Context(), v.tenant)
	if err != nil {
		return err
	}
	p := webhooksPage{Admin: v.may(operators.RoleAdmin), Full: len(list) >= webhooks.MaxEndpoints, Sealing: s.hooks.Sealing()}
	for _, e := range list {
		p.Webhooks = append(p.Webhooks, hookRow{e, health[e.ID]})
	}
	return v.render("webhooks.html", "Webhooks", p)
}

// recentDeliveries is how many of a webhook's deliveries its page shows.
const recentDeliveries = 10

// webhookPage is one webhook with what may be done about it.
type webhookPage struct {
	hookRow
	Secret     string // shown this once
	Deliveries []webhooks.Delivery
	Admin      bool
	Operator   bool
	Sealing    bool
	Seen       string // its settings, for the forms
	Now        time.Time
	Problem    string     // why an action was refused
	Changed    []changed  // what somebody else did meanwhile
	Typed      typedInput // what was typed into the action's form
}

// typedInput is kept for who has to decide again.
type typedInput struct {
	Action  string // the form it belongs to
	Reason  string
	Overlap string
}

func (s *Server) webhookShow(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	p, err := s.webhookPage(v, id)
	if err != nil {
		return err
	}
	p.Secret = v.takeOnce("webhook/" + id.String())
	return v.render("webhook.html", "Webhook "+p.Name(), p)
}

func (s *Server) webhookPage(v *visit, id uuid.UUID) (*webhookPage, error) {
	ctx := v.r.Context()
	e, err := s.hooks.Get(ctx, v.tenant, id)
	if err != nil {
		return nil, err
	}
	health, err := s.hooks.Health(ctx, v.tenant)
	if err != nil {
		return nil, err
	}
	p := &webhookPage{
		hookRow: hookRow{e, health[id]}, Admin: v.may(operators.RoleAdmin), Operator: v.may(operators.RoleOperator),
		Sealing: s.hooks.Sealing(), Seen: snapshotOf(e).encode(), Now: time.Now(),
	}
	p.Deliveries, _, err = s.hooks.Deliveries(ctx, webhooks.DeliveryFilter{Tenant: v.tenant, Endpoint: &id, Limit: recentDeliveries})
	return p, err
}

// sentence begins a text with a capital letter and changes nothing else of it.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
