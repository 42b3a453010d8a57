package web

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"executor/internal/operators"
	"executor/webhooks"
)

func deliveryRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/deliveries", role: operators.RoleViewer, serve: (*Server).deliveryList},
		{method: http.MethodGet, pattern: "/deliveries/{id}", role: operators.RoleViewer, serve: (*Server).deliveryShow},
		{method: http.MethodPost, pattern: "/deliveries/{id}/redeliver", role: operators.RoleOperator, serve: (*Server).deliverAgain},
	}
}

// deliveriesPage is a page of the log. Its filters stand in the address.
type deliveriesPage struct {
	Deliveries []webhooks.Delivery
	Hooks      []webhooks.Endpoint // to choose from
	Webhook    string
	State      string
	Type       string
	Command    string
	Event      string
	Since      string
	Until      string
	Filtered   bool
	Pages      pagesView
	Problem    string
}

// States are those to choose from.
func (p *deliveriesPage) States() []webhooks.DeliveryState { return webhooks.DeliveryStates() }

// Types are those to choose from.
func (p *deliveriesPage) Types() []string { return append(webhooks.EventTypes(), webhooks.TypeTest) }

// HookName is what people call a webhook; the end of its id once it is deleted.
func (p *deliveriesPage) HookName(id uuid.UUID) string {
	for _, e := range p.Hooks {
		if e.ID == id {
			return hookName(e)
		}
	}
	return "deleted " + short(id)
}

// Known reports whether the webhook is still there.
func (p *deliveriesPage) Known(id uuid.UUID) bool {
	return slices.ContainsFunc(p.Hooks, func(e webhooks.Endpoint) bool { return e.ID == id })
}

// Gone reports whether the filter names a webhook that is not to choose from.
func (p *deliveriesPage) Gone() bool {
	id, err := uuid.Parse(p.Webhook)
	return err == nil && !p.Known(id)
}

func (s *Server) deliveryList(v *visit) error {
	p := &deliveriesPage{
		Webhook: v.query("webhook"), State: v.query("state"), Type: v.query("type"), Command: v.query("command"), Event: v.query("event"),
		Since: fieldMoment(v.query("since")), Until: fieldMoment(v.query("until")),
	}
	var err error
	if p.Hooks, err = s.hooks.List(v.r.Context(), v.tenant); err != nil {
		return err
	}
	f, problem := p.filter(v)
	if p.Problem = problem; problem != "" {
		return v.renderStatus(http.StatusUnprocessableEntity, "deliveries.html", "Deliveries", p)
	}
	var next string
	if p.Deliveries, next, err = s.hooks.Deliveries(v.r.Context(), f); err != nil {
		return err
	}
	query := p.values()
	p.Filtered, p.Pages = len(query) > 0, newPages(v, query, next)
	return v.render("deliveries.html", "Deliveries", p)
}

// values are the filters that are set.
func (p *deliveriesPage) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"webhook": p.Webhook, "state": p.State, "type": p.Type, "command": p.Command, "event": p.Event, "since": p.Since, "until": p.Until,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// filter reads the filters; the problem is for the person who typed them.
func (p *deliveriesPage) filter(v *visit) (f webhooks.DeliveryFilter, problem string) {
	f = webhooks.DeliveryFilter{Tenant: v.tenant, Type: p.Type, Cursor: v.query("cursor")}
	for _, id := range []struct {
		text, what string
		into       **uuid.UUID
	}{{p.Webhook, "webhook", &f.Endpoint}, {p.Command, "command", &f.Command}, {p.Event, "event", &f.Event}} {
		if id.text == "" {
			continue
		}
		parsed, err := uuid.Parse(id.text)
		if err != nil {
			return f, "The id of a " + id.what + " is a UUID, such as 01a22a3f-da84-731b-b26f-1c9f4be05fc2."
		}
		*id.into = &parsed
	}
	if p.State != "" {
		if !slices.Contains(p.States(), webhooks.DeliveryState(p.State)) {
			return f, "Deliveries are pending, delivered, failed or dropped."
		}
		f.States = []string{p.State}
	}
	since, err := typedMoment(p.Since)
	if err != nil {
		return f, err.Error() + "."
	}
	until, err := typedMoment(p.Until)
	if err != nil {
		return f, err.Error() + "."
	}
	if !since.IsZero() {
		f.Since = &since
	}
	if !until.IsZero() {
		f.Until = &until
	}
	return f, ""
}
