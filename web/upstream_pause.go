package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/upstreams"
)

func upstreamPauseRoutes() []route {
	operator := func(method, pattern string, serve func(*Server, *visit) error) route {
		return route{method: method, pattern: pattern, role: operators.RoleOperator, serve: serve}
	}
	return []route{
		operator(http.MethodGet, "/upstreams/{name}/pause", func(s *Server, v *visit) error { return s.askStanding(v, pauseDeed) }),
		operator(http.MethodPost, "/upstreams/{name}/pause", (*Server).pauseUpstream),
		operator(http.MethodGet, "/upstreams/{name}/resume", func(s *Server, v *visit) error { return s.askStanding(v, resumeUpstreamDeed) }),
		operator(http.MethodPost, "/upstreams/{name}/resume", (*Server).resumeUpstream),
	}
}

// standing is an upstream's pause, of which the form carries the mark.
type standing struct {
	name       string
	since      *time.Time
	by, reason string
}

func (st standing) mark() string { return upstreams.PauseMark(st.since, st.by, st.reason) }

// standing reads how the upstream of the address stands; its profile may be
// unreadable.
func (s *Server) standing(v *visit) (standing, error) {
	o, err := s.commands.UpstreamOverview(v.r.Context(), v.tenant, v.param("name"))
	if err != nil {
		return standing{}, err
	}
	return standing{o.Name, o.PausedAt, o.PausedBy, o.PausedReason}, nil
}

func pauseDeed(st standing) deed {
	d := st.deed("Pause the upstream "+st.name, "/pause")
	d.Button, d.Danger = "Pause: send nothing more", true
	d.Says = []string{
		"Within seconds no process begins an attempt at this upstream any more.",
		"Attempts that are on the wire now end by themselves: they are not cut off.",
		"Commands are still accepted and wait. Their deadlines run on: what is not sent by then ends cancelled, or unresolved where an earlier attempt may have acted.",
		"Lookups and webhooks go on. Resuming undoes the pause.",
	}
	if st.since != nil {
		d.Says = append([]string{"It is paused already: pausing it again changes who and why, not since when."}, d.Says...)
	}
	return d
}

func resumeUpstreamDeed(st standing) deed {
	d := st.deed("Resume the upstream "+st.name, "/resume")
	d.Button = "Resume: send again"
	d.Says = []string{
		"Within seconds what waits is sent, the urgent first, within the upstream's limits: its rate, its places and its retry budget.",
		"What ended at its deadline meanwhile stays as it is.",
		"Pausing it again stops what is not yet on the wire.",
	}
	if st.since == nil {
		d.Says = append([]string{"It is not paused: resuming changes nothing."}, d.Says...)
	}
	return d
}

// deed begins the page that asks.
func (st standing) deed(title, action string) deed {
	path := "/upstreams/" + st.name
	d := deed{Title: title, Action: path + action, Back: path, Hidden: []fact{{"seen", st.mark()}}, Reason: "", Facts: []fact{{"Upstream", st.name}}}
	if st.since != nil {
		d.Facts = append(d.Facts, fact{"Paused since", stamp(*st.since)}, fact{"By", st.by}, fact{"Reason", st.reason})
	} else {
		d.Facts = append(d.Facts, fact{"Paused", "no"})
	}
	return d
}

func (s *Server) askStanding(v *visit, about func(standing) deed) error {
	st, err := s.standing(v)
	if err != nil {
		return err
	}
	return v.ask(about(st))
}

func (s *Server) pauseUpstream(v *visit) error {
	return s.changeStanding(v, pauseDeed, s.upstreams.PauseSeen, "doubt", "Paused: nothing more is sent to it until somebody resumes it.")
}

func (s *Server) resumeUpstream(v *visit) error {
	return s.changeStanding(v, resumeUpstreamDeed, s.upstreams.ResumeSeen, "good", "Resumed: what waits is being sent.")
}

// standingChange is PauseSeen or ResumeSeen.
type standingChange func(ctx context.Context, tenant, name, mark string, by audit.By) (upstreams.Upstream, error)

// changeStanding does it for a reason, unless somebody changed the upstream's pause
// meanwhile: then the page is asked again, with what was typed.
func (s *Server) changeStanding(v *visit, about func(standing) deed, change standingChange, tone, told string) error {
	st, err := s.standing(v)
	if err != nil {
		return err
	}
	d := about(st)
	reason, ok, err := v.reason(d)
	if !ok {
		return err
	}
	_, err = change(v.r.Context(), v.tenant, st.name, v.form("seen"), audit.By{Actor: v.actor(), Reason: reason})
	var unreadable *upstreams.ParseError
	switch {
	case errors.Is(err, upstreams.ErrStale):
		return s.staleStanding(v, about, reason)
	case err != nil && !errors.As(err, &unreadable): // whether its profile can be read is another matter
		return err
	}
	v.tell(tone, told)
	return v.redirect("/upstreams/" + st.name)
}

func (s *Server) staleStanding(v *visit, about func(standing) deed, reason string) error {
	st, err := s.standing(v)
	if err != nil {
		return err
	}
	d := about(st)
	d.Reason, d.Wrong = reason, "Somebody changed this upstream's pause after you opened the page, and nothing of yours was done. Above it stands as it is now: decide again."
	return v.renderStatus(http.StatusConflict, "deed.html", d.Title, d)
}
