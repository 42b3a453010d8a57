// Package web is the dashboard: what people see of commands, and what they may
// do about them. Pages are rendered here and work without script; they read and
// act through the same stores as the REST API.
//
// Whatever comes from an upstream or a caller is data: it is escaped, and
// characters that could disguise it are shown by name (see inert).
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/operators"
	"executor/internal/seats"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// Config is what a Server is built from. All of it is required.
type Config struct {
	Pool       *pgxpool.Pool // of the audit
	Commands   *commands.Store
	Upstreams  *upstreams.Store
	Doubts     *reconcile.Store
	Hooks      *webhooks.Store
	Deployment *attempts.Deployment
	Keys       *apikeys.Store
	Operators  *operators.Store
	Sessions   *operators.Sessions
	// JSON is a command as the REST API shows it.
	JSON     func(ctx context.Context, tenant string, id uuid.UUID) ([]byte, error)
	Instance string
	Log      *slog.Logger
}

// Server serves the dashboard.
type Server struct {
	pool       *pgxpool.Pool
	commands   *commands.Store
	upstreams  *upstreams.Store
	doubts     *reconcile.Store
	hooks      *webhooks.Store
	deployment *attempts.Deployment
	keys       *apikeys.Store
	operators  *operators.Store
	sessions   *operators.Sessions
	json       func(ctx context.Context, tenant string, id uuid.UUID) ([]byte, error)
	instance   string
	log        *slog.Logger
	cookies    *scs.SessionManager
	pages      pages
	assets     *assets
	tick       time.Duration // between two looks of a live page
	streams    *seats.Seats  // live pages
	draining   context.Context
	drain      context.CancelFunc
}

// Sessions end a working day after the sign-in, or earlier when nothing happens.
const (
	sessionLifetime = 12 * time.Hour
	sessionIdle     = 2 * time.Hour
	// cookieName has the prefix that keeps other hosts and plain http from setting it.
	cookieName = "__Host-executor"
)

// NewServer builds a Server. Templates that do not parse are an error here and
// not on a page.
func NewServer(c Config) (*Server, error) {
	s := &Server{
		pool: c.Pool, commands: c.Commands, upstreams: c.Upstreams, doubts: c.Doubts, hooks: c.Hooks, deployment: c.Deployment,
		keys: c.Keys, operators: c.Operators, sessions: c.Sessions, json: c.JSON, instance: c.Instance, log: c.Log,
		tick: 2 * time.Second, streams: seats.New(maxLiveOfOne, maxLive),
	}
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("assets of the dashboard: %w", err)
	}
	if s.pages, err = parsePages(s.assets); err != nil {
		return nil, fmt.Errorf("pages of the dashboard: %w", err)
	}
	s.cookies = c.Sessions.Manager()
	s.cookies.Lifetime, s.cookies.IdleTimeout = sessionLifetime, sessionIdle
	s.cookies.Cookie = scs.SessionCookie{Name: cookieName, HttpOnly: true, Path: "/", SameSite: http.SameSiteStrictMode, Secure: true}
	s.cookies.ErrorFunc = s.sessionFailed
	s.draining, s.drain = context.WithCancel(context.Background())
	return s, nil
}

// Drain ends the live pages of a stopping server. http.Server.RegisterOnShutdown
// fits it.
func (s *Server) Drain() { s.drain() }

// route is one page or action. Role is what it takes; without one it is open to
// everybody.
type route struct {
	method  string
	pattern string
	role    operators.Role
	upload  bool // it reads its body itself, and bounds it
	serve   func(s *Server, v *visit) error
}

// routes are all of them, page by page.
func routes() []route {
	return slices.Concat(
		signInRoutes(), accountRoutes(), homeRoutes(), liveRoutes(), commandRoutes(), actionRoutes(), reviewRoutes(), searchRoutes(),
		upstreamRoutes(), webhookRoutes(), reportRoutes(), auditRoutes(), keyRoutes(), operatorRoutes(), deploymentRoutes(),
	)
}

// Routes is the router of the dashboard.
func (s *Server) Routes() http.Handler {
	r := chi.NewRouter()
	here := http.NewCrossOriginProtection()
	here.SetDenyHandler(s.foreign())
	r.Use(secured, here.Handler)
	r.Get("/static/{sum}/{name}", s.assets.serve)
	r.Get("/favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.assets.path("icon.svg"), http.StatusFound)
	})
	r.Group(func(r chi.Router) {
		r.Use(s.cookies.LoadAndSave)
		for _, route := range routes() {
			r.Method(route.method, route.pattern, s.handler(route))
			if route.method == http.MethodGet {
				r.Method(http.MethodHead, route.pattern, s.handler(route))
			}
		}
		r.NotFound(s.handler(route{serve: func(*Server, *visit) error {
			return notFound("There is no page at this address.")
		}}))
		r.MethodNotAllowed(s.handler(route{serve: func(*Server, *visit) error {
			return &failure{http.StatusMethodNotAllowed, "Not possible here", "This address does not take that kind of request. Start again from the page before."}
		}}))
	})
	return r
}

// handler opens a visit, checks what the route takes and shows what went wrong.
func (s *Server) handler(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{server: s, w: w, r: r}
		err := v.open()
		if err == nil {
			err = v.admit(route)
		}
		if err == nil {
			err = route.serve(s, v)
		}
		if err != nil {
			s.fail(v, err)
		}
	}
}

// policy allows nothing but what the dashboard itself serves. There is no inline
// script and no style attribute anywhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds what a form may send. Uploads have a bound of their own.
const maxForm = 1 << 20

// secured sets what every answer carries.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
