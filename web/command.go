package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/operators"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

func commandRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/commands/{id}", role: operators.RoleViewer, serve: (*Server).command},
		{method: http.MethodGet, pattern: "/commands/{id}/json", role: operators.RoleViewer, serve: (*Server).commandJSON},
		{method: http.MethodGet, pattern: "/commands/{id}/attempts/{n}/body", role: operators.RoleViewer, serve: (*Server).attemptBody},
	}
}

// How much of a command its page reads. The rest is in the REST API.
const (
	shownAttempts   = 60
	everyAttempt    = 1000 // a profile cannot allow more
	shownLookups    = 50
	shownNotices    = 50
	shownDeliveries = 50
	shownAudit      = 50
	shownEvents     = 200
	askedBytes      = 64 << 10
)

// commandPage is one command with everything that is on record of it.
type commandPage struct {
	Command     commands.Command
	Explanation Explanation
	Actions     actionsView
	Submitted   string // who
	Waterfall   *waterfall
	Attempts    []attemptView
	Earlier     int // attempts that are not shown
	Request     requestView
	Doubt       *reconcile.Doubt
	Lookups     []lookupView
	Notices     []noticeView
	Learnt      []learntView
	Deliveries  []deliveryView
	Audit       []audit.Recorded
	MoreAudit   bool
	Events      []eventView
	MoreEvents  int
	Repeat      repeatView
	Path        string // of the page, to be fetched again
}

func (s *Server) command(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	ctx := v.r.Context()
	c, err := s.commands.Get(ctx, v.tenant, id)
	if err != nil {
		return err
	}
	p := commandPage{Command: c, Path: v.r.URL.Path}
	newest := shownAttempts
	if v.query("attempts") == "all" {
		newest, p.Path = everyAttempt, p.Path+"?attempts=all"
	}
	for _, read := range []func(context.Context, *commandPage) error{
		func(ctx context.Context, p *commandPage) error { return s.readWire(ctx, p, newest) },
		s.readRequest, s.readDeliveries, s.readAudit, s.readEvents,
	} {
		if err := read(ctx, &p); err != nil {
			return err
		}
	}
	if p.Actions, err = s.actionsOf(ctx, v, c); err != nil {
		return err
	}
	return v.render("command.html", "Command "+c.Key, p)
}

// readWire reads what went to and fro, and explains it.
func (s *Server) readWire(ctx context.Context, p *commandPage, newest int) error {
	c := p.Command
	a := account{command: c}
	var err error
	if a.kind, err = s.kindOf(ctx, c); err != nil {
		return err
	}
	if a.attempts, err = s.commands.Excerpts(ctx, c.Tenant, c.ID, newest, shownBytes); err != nil {
		return err
	}
	if a.learnt, err = s.commands.Learnt(ctx, c.Tenant, c.ID); err != nil {
		return err
	}
	notices, err := s.readDoubt(ctx, p, &a)
	if err != nil {
		return err
	}
	p.Explanation = explain(a)
	p.Earlier = c.Attempts - len(a.attempts)
	p.Attempts = attemptViews(a)
	p.Waterfall = newWaterfall(a.sights(), a.lookups, notices, time.Now())
	p.Lookups, p.Notices, p.Learnt = lookupViews(a.lookups, c.State == outcome.StateUnresolved), noticeViews(notices), learntViews(a.learnt)
	return nil
}

// readDoubt reads what was done to clear up a doubt.
func (s *Server) readDoubt(ctx context.Context, p *commandPage, a *account) ([]reconcile.Notice, error) {
	c := p.Command
	d, known, err := s.doubts.Doubt(ctx, c.Tenant, c.ID)
	if err != nil {
		return nil, err
	}
	if known {
		p.Doubt, a.handed = &d, d.HandedReason
	}
	if a.lookups, err = s.doubts.Excerpts(ctx, c.Tenant, c.ID, shownLookups, shownBytes); err != nil {
		return nil, err
	}
	return s.doubts.NoticeExcerpts(ctx, c.Tenant, c.ID, shownNotices, shownBytes+1)
}

// kindOf is the contract of the command's operation. A profile that can no longer be
// read promises nothing.
func (s *Server) kindOf(ctx context.Context, c commands.Command) (outcome.Idempotency, error) {
	op, err := s.commands.Operation(ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
	var unreadable *upstreams.ParseError
	switch {
	case errors.As(err, &unreadable):
		return outcome.IdempotencyNone, nil
	case err != nil:
		return "", err
	default:
		return op.Contract().Idempotency, nil
	}
}

func (s *Server) readRequest(ctx context.Context, p *commandPage) error {
	asked, err := s.commands.Asked(ctx, p.Command, askedBytes)
	if err != nil {
		return err
	}
	p.Submitted = asked.By
	p.Request = requestView{
		Method: asked.Method, Path: marked(asked.Path), Headers: sentHeaders(asked.Headers),
		Body: newExcerpt(asked.Body, int64(len(asked.Body)), shownBytes),
	}
	p.Request.Kind, p.Request.Files = asked.Kind, asked.Files
	if asked.Cut {
		p.Request.Body.Stored, p.Request.Body.Empty = asked.BodyBytes, false
	}
	p.Repeat = repeatOf(p.Command, asked)
	return nil
}

// deliveryView is an event of the command for one webhook.
type deliveryView struct {
	webhooks.Delivery
	URL string // of the webhook; "" if it is gone
}

func (s *Server) readDeliveries(ctx context.Context, p *commandPage) error {
	c := p.Command
	list, _, err := s.hooks.Deliveries(ctx, webhooks.DeliveryFilter{Tenant: c.Tenant, Command: &c.ID, Limit: shownDeliveries})
	if err != nil || len(list) == 0 {
		return err
	}
	endpoints, err := s.hooks.List(ctx, c.Tenant)
	if err != nil {
		return err
	}
	urls := make(map[uuid.UUID]string, len(endpoints))
	for _, e := range endpoints {
		urls[e.ID] = e.URL
	}
	for _, d := range list {
		p.Deliveries = append(p.Deliveries, deliveryView{d, urls[d.EndpointID]})
	}
	return nil
}

func (s *Server) readAudit(ctx context.Context, p *commandPage) error {
	list, next, err := audit.List(ctx, s.pool, audit.Filter{Tenant: p.Command.Tenant, Command: &p.Command.ID, Limit: shownAudit})
	p.Audit, p.MoreAudit = list, next != ""
	return err
}

func (s *Server) readEvents(ctx context.Context, p *commandPage) error {
	list, err := s.commands.Events(ctx, p.Command.Tenant, p.Command.ID)
	if err != nil {
		return err
	}
	if p.MoreEvents = len(list) - shownEvents; p.MoreEvents > 0 {
		list = list[p.MoreEvents:]
	}
	for _, e := range list {
		p.Events = append(p.Events, eventView{e, marked(string(e.Data))})
	}
	return nil
}

// commandJSON is the command as the REST API shows it, as a file.
func (s *Server) commandJSON(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	document, err := s.json(v.r.Context(), v.tenant, id)
	if err != nil {
		return err
	}
	v.file("application/json", "command-"+id.String()+".json", document)
	return nil
}

// attemptBody is what is kept of a response, byte for byte, as a file that no
// browser opens.
func (s *Server) attemptBody(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(v.param("n"))
	if err != nil || n < 1 || n > everyAttempt {
		return notFound("Attempts are numbered from 1.")
	}
	body, err := s.commands.ResponseBody(v.r.Context(), v.tenant, id, n)
	if errors.Is(err, commands.ErrNotFound) {
		return notFound("No response body is kept of this attempt.")
	}
	if err != nil {
		return err
	}
	v.file("application/octet-stream", fmt.Sprintf("command-%s-attempt-%d.bin", id, n), body)
	return nil
}

// file answers with bytes to be saved. They are others' data: the policy keeps them
// inert even where they are opened. The name holds nothing that needs quoting.
func (v *visit) file(kind, name string, data []byte) {
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = v.w.Write(data) // whoever went away needs no answer
}
