package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/clientaddr"
	"executor/internal/egress"
	"executor/internal/seats"
	"executor/upstreams"
)

// Commands is what the API asks of the command store.
type Commands interface {
	Submit(ctx context.Context, sub commands.Submission) (commands.Accepted, error)
	SubmitBatch(ctx context.Context, subs []commands.Submission) []commands.BatchResult
	DryRun(ctx context.Context, sub commands.Submission) (commands.Preview, error)
	Get(ctx context.Context, tenant string, id uuid.UUID) (commands.Command, error)
	List(ctx context.Context, f commands.Filter) (page []commands.Command, next string, err error)
	Wait(ctx context.Context, tenant string, id uuid.UUID) (commands.Command, error)
	Cancel(ctx context.Context, tenant string, id uuid.UUID, by audit.By) (commands.Command, commands.CancelResult, error)
	Attempts(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Attempt, error)
	Events(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Event, error)
}

// Upstreams is what the API asks of the upstream store.
type Upstreams interface {
	Apply(ctx context.Context, p *upstreams.Profile, by audit.By) (u upstreams.Upstream, changed bool, err error)
	Get(ctx context.Context, tenant, name string) (upstreams.Upstream, error)
	List(ctx context.Context, tenant string) ([]upstreams.Upstream, error)
	Tenants(ctx context.Context) ([]string, error)
	Pause(ctx context.Context, tenant, name string, by audit.By) (upstreams.Upstream, error)
	Resume(ctx context.Context, tenant, name string, by audit.By) (upstreams.Upstream, error)
}

// Config is what a Server is built from. Everything but the limits is required,
// from Reviews to Audit only for the calls that it serves: without it they are not
// there.
type Config struct {
	Commands    Commands
	Upstreams   Upstreams
	Reviews     Reviews
	Lookups     Lookups
	Notices     Notices
	Reports     Reports
	Webhooks    Webhooks
	Audit       Audit
	Keys        Authenticator
	Deployment  Deployment
	Health      Health
	Log         *slog.Logger
	SubmitBytes int64 // of one request body other than a batch; 0 is 1 MiB
	BatchBytes  int64 // of one batch; 0 is 16 MiB
	AllBytes    int64 // of the bodies of all requests at a time; 0 is 256 MiB
	KeyRate     int   // requests of one API key in a second; 0 is no limit
	AddressRate int   // requests without a valid key from one address in a minute; 0 is no limit

	Hop string // of this deployment: requests that carry it come from ourselves; "" = none does
}

// Server serves the REST API.
type Server struct {
	commands    Commands
	upstreams   Upstreams
	reviews     Reviews
	lookups     Lookups
	notices     Notices
	reports     Reports
	webhooks    Webhooks
	audit       Audit
	keys        Authenticator
	deployment  Deployment
	health      Health
	log         *slog.Logger
	submitBytes int64
	batchBytes  int64
	keyRate     *meter
	strangers   *strangers
	streams     *seats.Seats // of event streams
	waits       *seats.Seats // of requests that wait for a final state
	bodies      *bodyMemory
	hop         string
	heartbeat   time.Duration // between the comments of an event stream
	poll        time.Duration // between two looks for new events
	draining    context.Context
	drain       context.CancelFunc
	document    func() ([]byte, error) // openapi.yaml as JSON
}

// NewServer builds a Server.
func NewServer(c Config) *Server {
	s := &Server{
		commands: c.Commands, upstreams: c.Upstreams, reviews: c.Reviews, lookups: c.Lookups, notices: c.Notices,
		reports: c.Reports, webhooks: c.Webhooks, audit: c.Audit, keys: c.Keys, deployment: c.Deployment, health: c.Health, log: c.Log,
		submitBytes: c.SubmitBytes, batchBytes: c.BatchBytes,
		keyRate: newMeter("key", c.KeyRate, keyWindow), strangers: newStrangers(c.AddressRate),
		streams: seats.New(streamsOfKey, streamsOfAll), waits: seats.New(waitsOfKey, waitsOfAll), bodies: &bodyMemory{limit: cmp.Or(c.AllBytes, 256<<20)},
		hop: c.Hop, heartbeat: 15 * time.Second, poll: time.Second, document: documentJSON(),
	}
	if s.submitBytes <= 0 {
		s.submitBytes = 1 << 20
	}
	if s.batchBytes <= 0 {
		s.batchBytes = 16 << 20
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	return s
}

// Drain ends what would keep a stopping server busy: event streams end, waiting
// requests answer with the command as it is, and /readyz says not ready. All
// other requests are served as before. http.Server.RegisterOnShutdown fits it.
func (s *Server) Drain() { s.drain() }

// Routes is the router: every operation of openapi.yaml that there is a store for,
// and nothing else. HEAD is answered wherever GET is.
func (s *Server) Routes() http.Handler {
	return s.router(slices.DeleteFunc(operations(), s.lacks), "There is nothing at this path.")
}

// lacks reports whether an operation needs a part that this server was built
// without.
func (s *Server) lacks(op operation) bool {
	parts := map[string]bool{
		"reviews": s.reviews != nil, "lookups": s.lookups != nil, "notices": s.notices != nil,
		"reconciliations": s.reports != nil, "webhooks": s.webhooks != nil, "audit": s.audit != nil,
	}
	there, optional := parts[op.tag]
	return optional && !there
}

// HealthRoutes is the router of a process without the API: the health calls, and
// what the problems mean that it answers all else with. elsewhere is their
// detail.
func (s *Server) HealthRoutes(elsewhere string) http.Handler {
	return s.router(slices.DeleteFunc(operations(), func(op operation) bool {
		return !slices.Contains([]string{"Livez", "Healthz", "Readyz", "GetProblem"}, op.id)
	}), elsewhere)
}

func (s *Server) router(list []operation, elsewhere string) http.Handler {
	r := chi.NewRouter()
	r.Use(s.frame)
	r.NotFound(s.handler(func(http.ResponseWriter, *http.Request) error {
		return &failure{code: ProblemCodeNotFound, detail: elsewhere}
	}))
	r.MethodNotAllowed(s.handler(func(w http.ResponseWriter, req *http.Request) error {
		return methodNotAllowed(r, req)
	}))
	for _, op := range list {
		h := s.handler(func(w http.ResponseWriter, r *http.Request) error { return s.serve(op, w, r) })
		r.MethodFunc(op.method, op.pattern, h)
		if op.method == http.MethodGet {
			r.MethodFunc(http.MethodHead, op.pattern, h)
		}
	}
	return r
}

var _ ServerInterface = (*Server)(nil)

// methodNotAllowed lists the methods that the path does have.
func methodNotAllowed(routes chi.Routes, r *http.Request) error {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	list := strings.Join(allowed, ", ")
	return &failure{
		code: ProblemCodeMethodNotAllowed, detail: "This path answers to " + list + ".",
		headers: map[string]string{"Allow": list},
	}
}

// serve answers one request of one operation: first who asks, then what.
func (s *Server) serve(op operation, w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(op.pattern, "/v1/") && egress.Looped(r.Header, s.hop) {
		return &failure{code: ProblemCodeLoopDetected, detail: "The request came from this deployment itself. Nothing was done."}
	}
	c := callOf(r)
	if !op.public {
		key, err := s.authorize(w, r, op.scope)
		if err != nil {
			return err
		}
		c.key = key
	}
	query, err := readQuery(r, op.query)
	if err != nil {
		return err
	}
	c.query = query
	return op.serve(s, w, r)
}

// handler writes the error of a handler as a problem.
func (s *Server) handler(serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			s.fail(w, r, err) // also when the caller seems gone: no answer would be a 200
		}
	}
}

// fail answers with a problem. Causes that the caller may not see are logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := problemFor(err)
	problem, status := f.view(callOf(r).requestID)
	gone := errors.Is(r.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
	if f.ours(status) && !gone {
		s.log.Error("request failed", "request_id", problem.RequestID, "client", clientaddr.Of(r), "method", r.Method, "path", r.URL.Path, "code", f.code, "error", err)
	}
	for name, value := range f.headers {
		w.Header().Set(name, value)
	}
	if err := writeJSON(w, status, "application/problem+json", problem); err != nil {
		s.log.Error("write problem", "request_id", problem.RequestID, "error", err)
	}
}
