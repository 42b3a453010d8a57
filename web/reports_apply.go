package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"executor/commands"
	"executor/reconcile"
	"executor/upstreams"
)

// applyPage says what applying a report would do, before anybody does it.
type applyPage struct {
	reconcile.Report
	Forecast   reconcile.ReportForecast
	Silent     int  // lines that prove nothing
	ReportOnly bool // the upstream's profile lets findings move nothing
	Seen       string
	Reason     string
	Problem    string
	Changed    []changed
}

// Ready reports whether there is something to confirm.
func (p *applyPage) Ready() bool { return p.State == reconcile.ReportCompared && !p.ReportOnly }

// Effects reports whether any line would do anything.
func (p *applyPage) Effects() bool {
	return p.Forecast.Success+p.Forecast.Rejected+p.Forecast.Conflicts+p.Forecast.Kept > 0
}

func (s *Server) reportForecast(v *visit) error {
	p, err := s.applyPage(v)
	if err != nil {
		return err
	}
	return v.render("report_apply.html", "Apply a settlement report", p)
}

func (s *Server) applyPage(v *visit) (*applyPage, error) {
	id, err := v.id()
	if err != nil {
		return nil, err
	}
	ctx, p := v.r.Context(), &applyPage{Reason: v.form("reason")}
	if p.Report, err = s.doubts.Report(ctx, v.tenant, id); err != nil {
		return nil, err
	}
	if p.Forecast, err = s.doubts.Forecast(ctx, v.tenant, id); err != nil {
		return nil, err
	}
	p.Silent = max(0, p.Lines-p.Forecast.Lines())
	seen, _ := json.Marshal(p.Forecast) // numbers always encode
	p.Seen = string(seen)
	up, err := s.upstreams.Latest(ctx, v.tenant, p.Upstream)
	if err != nil {
		return nil, err
	}
	p.ReportOnly = up.Profile.Reconciliation == upstreams.ReconciliationReportOnly
	return p, nil
}

// reportApply passes on what a report proves. The counts that were confirmed have to
// be those of now; one that is being applied already is left alone.
func (s *Server) reportApply(v *visit) error {
	p, err := s.applyPage(v)
	if err != nil {
		return err
	}
	if slices.Contains([]reconcile.ReportState{reconcile.ReportApplying, reconcile.ReportApplied}, p.State) {
		v.tell("busy", "It was applied already: "+p.ApplyAskedBy+" asked for it. Nothing more was done.")
		return v.redirect("/reports/" + p.ID.String())
	}
	if p.Changed = p.since(v.form("seen")); len(p.Changed) > 0 {
		p.Problem = "Commands went on after you looked, and applying would do something else now. Nothing was done: look at the new counts, and confirm again. Your reason is kept."
		return v.renderStatus(http.StatusConflict, "report_apply.html", "Apply a settlement report", p)
	}
	_, err = s.doubts.Apply(v.r.Context(), v.tenant, p.ID, v.actor(), p.Reason)
	var (
		invalid *commands.Invalid
		refused *reconcile.Refused
	)
	switch {
	case errors.As(err, &invalid):
		p.Problem = invalid.Detail
		return v.renderStatus(http.StatusUnprocessableEntity, "report_apply.html", "Apply a settlement report", p)
	case errors.As(err, &refused):
		p.Problem = refused.Detail
		return v.renderStatus(http.StatusConflict, "report_apply.html", "Apply a settlement report", p)
	case err != nil:
		return err
	}
	v.tell("good", "What the report proves is being passed on, line by line.")
	return v.redirect("/reports/" + p.ID.String())
}

// since tells what is different from the counts that were confirmed. Lines that have
// no effect may come and go.
func (p *applyPage) since(seen string) (list []changed) {
	var was reconcile.ReportForecast
	if json.Unmarshal([]byte(seen), &was) != nil {
		return []changed{{"The counts", "were not looked at", "stand below"}}
	}
	add := func(what string, was, now int) {
		if was != now {
			list = append(list, changed{what, number(was), number(now)})
		}
	}
	add("Unresolved that become success", was.Success, p.Forecast.Success)
	add("Unresolved that become rejected", was.Rejected, p.Forecast.Rejected)
	add("Conflicts", was.Conflicts, p.Forecast.Conflicts)
	add("Lines that others contradict", was.Against, p.Forecast.Against)
	return list
}
