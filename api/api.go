package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"executor/commands"
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
	Cancel(ctx context.Context, tenant string, id uuid.UUID, actor string) (commands.Command, commands.CancelResult, error)
	Attempts(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Attempt, error)
	Events(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Event, error)
}

// Upstreams is what the API asks of the upstream store.
type Upstreams interface {
	Apply(ctx context.Context, p *upstreams.Profile, actor string) (u upstreams.Upstream, changed bool, err error)
	Get(ctx context.Context, tenant, name string) (upstreams.Upstream, error)
	List(ctx context.Context, tenant string) ([]upstreams.Upstream, error)
	Pause(ctx context.Context, tenant, name, reason, actor string) (upstreams.Upstream, error)
	Resume(ctx context.Context, tenant, name, actor string) (upstreams.Upstream, error)
}

// Config is what a Server is built from; everything but the limits is required.
type Config struct {
	Commands    Commands
	Upstreams   Upstreams
	Keys        Authenticator
	Deployment  Deployment
	Health      Health
	Log         *slog.Logger
	SubmitBytes int64 // of one request body other than a batch; 0 is 1 MiB
	BatchBytes  int64 // of one batch; 0 is 16 MiB
}

// Server serves the REST API.
type Server struct {
	commands    Commands
	upstreams   Upstreams
	keys        Authenticator
	deployment  Deployment
	health      Health
	log         *slog.Logger
	submitBytes int64
	batchBytes  int64
	heartbeat   time.Duration // between the comments of an event stream
	poll        time.Duration // between two looks for new events
	draining    context.Context
	drain       context.CancelFunc
	document    func() ([]byte, error) // openapi.yaml as JSON
}

// NewServer builds a Server.
func NewServer(c Config) *Server {
	s := &Server{
		commands: c.Commands, upstreams: c.Upstreams, keys: c.Keys, deployment: c.Deployment, health: c.Health, log: c.Log,
		submitBytes: c.SubmitBytes, batchBytes: c.BatchBytes,
		heartbeat: 15 * time.Second, poll: time.Second, document: documentJSON(),
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

// Routes is the router: every operation of openapi.yaml and nothing else. HEAD
// is answered wherever GET is.
func (s *Server) Routes() http.Handler {
	r := chi.NewRouter()
	r.Use(s.frame)
	r.NotFound(s.handler(func(http.ResponseWriter, *http.Request) error {
		return &failure{code: ProblemCodeNotFound, detail: "There is nothing at this path."}
	}))
	r.MethodNotAllowed(s.handler(func(w http.ResponseWriter, req *http.Request) error {
		return methodNotAllowed(r, req)
	}))
	for _, op := range operations() {
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
	c := callOf(r)
	if !op.public {
		key, err := s.authorize(r, op.scope)
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
		err := serve(w, r)
		if err == nil || errors.Is(r.Context().Err(), context.Canceled) {
			return // answered, or there is nobody left to answer
		}
		s.fail(w, r, err)
	}
}

// fail answers with a problem. Causes that the caller may not see are logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := problemFor(err)
	problem, status := f.view(callOf(r).requestID)
	if status >= http.StatusInternalServerError {
		s.log.Error("request failed", "request_id", problem.RequestID, "method", r.Method, "path", r.URL.Path, "code", f.code, "error", err)
	}
	for name, value := range f.headers {
		w.Header().Set(name, value)
	}
	if err := writeJSON(w, status, "application/problem+json", problem); err != nil {
		s.log.Error("write problem", "request_id", problem.RequestID, "error", err)
	}
}

// call is what is known of a request before its handler runs.
type call struct {
	requestID string
	key       Key
	query     map[string][]string
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// frame gives every answer its request id and the headers that keep browsers
// from guessing or keeping it, and turns a panic into a problem.
func (s *Server) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{requestID: requestID(r.Header)}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		h := w.Header()
		h.Set("X-Request-Id", c.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		answer := &answer{ResponseWriter: w}
		defer s.recovered(answer, r)
		next.ServeHTTP(answer, r)
	})
}

// recovered answers for a handler that panicked.
func (s *Server) recovered(w *answer, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if w.begun {
		s.log.Error("request failed after its answer had begun", "request_id", callOf(r).requestID, "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler) // a cut answer, not one that looks whole
	}
	s.fail(w, r, err)
}

// answer knows whether a response has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// requestID takes the caller's X-Request-Id if it is fit for a log line, else
// makes one.
func requestID(h http.Header) string {
	given := h.Get("X-Request-Id")
	fit := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:/+=", c)
	}
	if given == "" || len(given) > 128 || strings.ContainsFunc(given, func(c rune) bool { return !fit(c) }) {
		return uuid.NewString()
	}
	return given
}

// writeJSON encodes v and writes it. HTML characters stay as they are: nothing
// here is markup.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return write(w, status, contentType, body)
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return b.Bytes(), nil
}

// write writes a whole answer. Whether it arrived only the caller can tell.
func write(w http.ResponseWriter, status int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// accepts reports whether the request asks for the media type by name; */* asks
// for the default.
func accepts(r *http.Request, mediaType string) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(item string) bool {
			name, _, _ := strings.Cut(item, ";")
			return strings.EqualFold(strings.TrimSpace(name), mediaType)
		})
	})
}
