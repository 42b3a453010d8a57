package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"executor/internal/operators"
	"executor/webhooks"
)

func webhookRangeRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/webhooks/{id}/redeliver", role: operators.RoleOperator, serve: (*Server).rangeShow},
		{method: http.MethodPost, pattern: "/webhooks/{id}/redeliver", role: operators.RoleOperator, serve: (*Server).rangeSend},
	}
}

// rangePage chooses a part of a webhook's log, shows how much that is, and sends it
// again.
type rangePage struct {
	webhooks.Endpoint
	Name    string
	Since   string // as typed
	Until   string
	States  []webhooks.DeliveryState
	Range   webhooks.Range // as it was counted: its end is fixed
	Counted bool
	Count   int
	More    bool
	Reason  string
	Problem string
}

// Has reports whether a state is chosen.
func (p *rangePage) Has(state webhooks.DeliveryState) bool { return slices.Contains(p.States, state) }

// All are the states to choose from.
func (p *rangePage) All() []webhooks.DeliveryState { return webhooks.DeliveryStates() }

// Exact is a moment as the confirmation carries it.
func (p *rangePage) Exact(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (s *Server) openRange(v *visit, value func(string) string, states []string) (*rangePage, error) {
	id, err := v.id()
	if err != nil {
		return nil, err
	}
	e, err := s.hooks.Get(v.r.Context(), v.tenant, id)
	if err != nil {
		return nil, err
	}
	p := &rangePage{Endpoint: e, Name: hookName(e), Since: value("since"), Until: value("until")}
	for _, state := range states {
		if slices.Contains(webhooks.DeliveryStates(), webhooks.DeliveryState(state)) {
			p.States = append(p.States, webhooks.DeliveryState(state))
		}
	}
	if len(p.States) == 0 {
		p.States = []webhooks.DeliveryState{webhooks.DeliveryFailed}
	}
	p.read()
	return p, nil
}

// read turns what was typed into a range. Without an end it ends now, so that what
// is sent is what was counted.
func (p *rangePage) read() {
	since, wrongSince := typedMoment(p.Since)
	until, wrongUntil := typedMoment(p.Until)
	if err := cmp.Or(wrongSince, wrongUntil); err != nil {
		p.Problem = err.Error() + "."
	}
	if until.IsZero() {
		until = time.Now()
	}
	p.Range = webhooks.Range{Endpoint: p.ID, States: p.States, Since: since, Until: until}
}

func (s *Server) rangeShow(v *visit) error {
	p, err := s.openRange(v, v.query, v.r.URL.Query()["state"])
	if err != nil {
		return err
	}
	status := http.StatusOK
	if p.Since != "" && p.Problem == "" {
		if err := s.countRange(v, p); err != nil {
			return err
		}
	}
	if p.Since == "" {
		p.Since = time.Now().UTC().Add(-24 * time.Hour).Format(inputMoment)
	}
	if p.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	return v.renderStatus(status, "webhook_redeliver.html", "Send again to "+p.Name, p)
}

func (s *Server) countRange(v *visit, p *rangePage) error {
	n, more, err := s.hooks.CountRange(v.r.Context(), v.tenant, p.Range)
	var invalid *webhooks.Invalid
	if errors.As(err, &invalid) {
		p.Problem = invalid.Detail
		return nil
	}
	p.Counted, p.Count, p.More = err == nil, n, more
	return err
}

func (s *Server) rangeSend(v *visit) error {
	p, err := s.openRange(v, v.form, v.r.PostForm["state"])
	if err != nil {
		return err
	}
	p.Reason = v.form("reason")
	if p.Problem == "" && p.Range.Since.IsZero() {
		p.Problem = "Say since when."
	}
	if p.Problem == "" && p.Reason == "" {
		p.Problem = errNoReason.Detail
	}
	if p.Problem == "" {
		if err := s.sendRange(v, p); p.Problem == "" {
			return err
		}
	}
	problem := p.Problem
	if err := s.countRange(v, p); err != nil {
		return err
	}
	p.Problem = problem
	return v.renderStatus(http.StatusUnprocessableEntity, "webhook_redeliver.html", "Send again to "+p.Name, p)
}

func (s *Server) sendRange(v *visit, p *rangePage) error {
	done, err := s.hooks.RedeliverRange(v.r.Context(), v.hookBy(p.Reason), p.Range)
	var (
		invalid *webhooks.Invalid
		busy    *webhooks.Busy
	)
	switch {
	case errors.As(err, &invalid):
		p.Problem = invalid.Detail
		return nil
	case errors.As(err, &busy):
		p.Problem = sentence(busy.Error()) + "."
		return nil
	case err != nil:
		return err
	case done.More:
		v.tell("good", "The oldest "+number(done.Count)+" are due again. There are more: send the same range again once these are through.")
	default:
		v.tell("good", plural(done.Count, "delivery is", "deliveries are")+" due again.")
	}
	return v.redirect("/deliveries?" + url.Values{"webhook": {p.ID.String()}}.Encode())
}
