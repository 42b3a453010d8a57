package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"executor/api"
	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/bodyfiles"
	"executor/internal/egress"
	"executor/internal/operators"
	"executor/internal/postgres"
	"executor/upstreams"
	"executor/web"
)

func newServeCommand(getenv func(string) string) *cobra.Command {
	config := defaultConfig()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API and the dashboard, and work on commands",
		Long: `Serve answers the REST API, shows the dashboard and works on commands until it is told to
stop. Any number of processes may share one database, each with the roles it is given.

SIGTERM or SIGINT drains: /readyz fails, nothing new is taken, attempts on the wire
finish within the drain bound, the rest is handed to the other processes. A second
signal ends the process at once; what it had on the wire is then taken over by another.`,
		Example: `  export EXECUTOR_DATABASE_URL=postgres://executor@localhost/executor EXECUTOR_DEPLOYMENT_ID=production
  executor migrate
  executor serve
  executor serve --roles worker --listen 127.0.0.1:8082 --metrics-listen 127.0.0.1:9090`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config.fill()
			if err := config.Validate(); err != nil {
				return usage(err)
			}
			log := newLogger(cmd.ErrOrStderr(), config.LogFormat, config.LogLevel).With("instance", config.Instance)
			return serve(cmd.Context(), config, log, getenv)
		},
	}
	config.addServeFlags(cmd.Flags())
	return cmd
}

// gcPercent spends memory, of which a process keeps little alive, to collect
// garbage less often. GOGC overrides it.
const gcPercent = 400

// serve runs one process until ctx ends, then drains it.
func serve(ctx context.Context, config Config, log *slog.Logger, getenv func(string) string) error {
	log.Info("starting", "build", readBuild(), "config", config)
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	db, err := awaitDatabase(ctx, config, log)
	if err != nil {
		return err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		postgres.Leave(bound, db.pool)
	}()
	p, err := openProcess(ctx, config, log, getenv, db)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

// process is everything of one serving process between its listeners and the
// database. It is built whole before anything of it runs.
type process struct {
	config     Config
	log        *slog.Logger
	db         database
	resolver   attempts.Resolver // of upstreams' names; nil for the machine's
	files      *bodyfiles.Root   // of bodies
	commands   *commands.Store
	deployment *attempts.Deployment
	keys       *apikeys.Store
	api        *api.Server
	web        *web.Server // nil without the role web, as is people
	people     *operators.Store
	guard      *egress.Guard
	hop        string           // by which this deployment recognises its own requests
	sender     *attempts.Sender // nil without the role worker, as is engine
	engine     *attempts.Engine
	started    bool // the engine
	followers
	router  http.Handler
	metrics http.Handler
	front   *httpServer // API and health
	back    *httpServer // metrics; nil if there are none
	failed  chan error  // a listener that ended by itself
}

// openProcess opens what can fail and wires the parts. A busy port or an old
// schema ends it before anything was started.
func openProcess(ctx context.Context, config Config, log *slog.Logger, getenv func(string) string, db database) (*process, error) {
	p := &process{config: config, log: log, failed: make(chan error, 2)}
	if err := p.open(ctx, getenv, db); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) open(ctx context.Context, getenv func(string) string, db database) error {
	pool := db.pool
	p.db = db
	if err := onlyDurable(ctx, pool); err != nil {
		return err
	}
	if err := requireMigrated(ctx, pool); err != nil {
		return err
	}
	if err := requireKeys(ctx, pool, p.config); err != nil {
		return err
	}
	var err error
	if p.hop, err = attempts.Hop(ctx, pool, p.config.DeploymentID); err != nil {
		return err
	}
	registry := newRegistry()
	registry.MustRegister(newBacklog(pool, p.log))
	registerPool(registry, pool)
	registerWatch(registry, db.watch)
	if err := p.wire(pool, registry, getenv); err != nil {
		return err
	}
	p.router = p.route(registry)
	p.metrics = metricsHandler(registry)
	if err := p.listen(); err != nil {
		p.close()
		return err
	}
	return nil
}

// wire builds the stores first, on a queue client that only inserts, then what
// works, then what answers: so nothing needs what is built after it.
func (p *process) wire(pool *pgxpool.Pool, registry *prometheus.Registry, getenv func(string) string) error {
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		return err
	}
	box, err := p.config.box()
	if err != nil {
		return err
	}
	p.guard = egress.NewGuard(egress.GuardConfig{Own: databaseAddresses(pool)})
	if err := p.openHooks(pool, box, registry); err != nil {
		return err
	}
	ups := upstreams.NewStore(pool)
	p.files = bodyfiles.New(p.config.BodyDir)
	p.commands = commands.NewStore(commands.Config{
		Pool: pool, Upstreams: ups, Jobs: jobs, Announcer: p.hooks, Deployment: p.config.DeploymentID, Box: box,
		Files: p.files, Log: p.log, Registry: registry, Backlog: p.config.Backlog,
	})
	secrets := egress.NewSecrets(getenv, p.config.SecretsDir)
	p.openDoubts(pool, ups, secrets, registry)
	p.deployment = attempts.OpenDeployment(pool, p.config.DeploymentID, p.commands, ups)
	if p.config.has(roleWorker) {
		if err := p.wireWorker(pool, ups, registry, secrets); err != nil {
			return err
		}
	}
	p.deployment.Demand(onlyDurable)
	p.keys = apikeys.NewStore(pool, p.log)
	p.api = api.NewServer(api.Config{
		Commands: p.commands, Upstreams: ups, Reviews: p.doubts, Lookups: p.doubts, Notices: p.doubts, Reports: p.doubts,
		Webhooks: p.hooks, Audit: api.NewAuditLog(pool), Keys: p.keys, Deployment: p.deployment, Health: &health{pool: pool}, Log: p.log,
		KeyRate: p.config.KeyRate, AddressRate: p.config.AddressRate, Hop: p.hop,
	})
	if p.config.has(roleWeb) {
		return p.wireWeb(pool, ups)
	}
	return nil
}

func (p *process) wireWorker(pool *pgxpool.Pool, ups *upstreams.Store, registry *prometheus.Registry, secrets *egress.Secrets) error {
	if p.resolver == nil {
		p.resolver = &net.Resolver{PreferGo: true} // refuses odd spellings of addresses
	}
	p.sender = attempts.NewSender(attempts.SenderConfig{Guard: p.guard, Resolver: p.resolver, Log: p.log})
	tokens := egress.NewTokens(egress.TokensConfig{Guard: p.guard, Resolver: p.resolver})
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: pool, Commands: p.commands, Upstreams: ups, Sender: p.sender, Secrets: secrets, Tokens: tokens, Files: p.files,
		Instance: p.config.Instance, Expected: p.config.DeploymentID, Hop: p.hop, LeaseTTL: p.config.LeaseTTL, Drain: p.config.Drain,
		River: attempts.RiverConfig{
			JobTimeout: p.config.JobTimeout, RescueStuckJobsAfter: p.config.RescueAfter, SoftStopTimeout: p.config.SoftStop,
		},
		Log: p.log, Registry: registry,
	})
	if err != nil {
		return err
	}
	p.engine, p.deployment = engine, engine.Deployment()
	p.commands.SetStarter(engine)
	p.wireFollowers(upstreams.NewAccess(secrets, tokens))
	return nil
}

// route puts what every request passes before the API and the dashboard. A
// process without the role api answers the health calls alone.
func (p *process) route(registry *prometheus.Registry) http.Handler {
	r := chi.NewRouter()
	r.Use(p.config.proxies().Handler, instrument(registry))
	calls := p.api.HealthRoutes("This process does not serve the API: its role is " + strings.Join(p.config.Roles, ",") + ".")
	if p.config.has(roleAPI) {
		calls = p.api.Routes()
	}
	if p.web != nil {
		calls = besides(p.web.Routes(), calls)
	}
	r.Mount("/", calls)
	return r
}

// besides serves the paths of the API by its own handler and all else by pages.
func besides(pages, calls http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.ContainsFunc(apiPaths, func(path string) bool {
			return r.URL.Path == path || strings.HasSuffix(path, "/") && strings.HasPrefix(r.URL.Path, path)
		}) {
			calls.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// apiPaths are those that the API keeps to itself where the dashboard is served too;
// with a slash at the end all below it.
var apiPaths = []string{"/v1", "/v1/", "/openapi.json", "/problems/", "/livez", "/healthz", "/readyz"}

// listen opens the listeners; nothing is answered yet.
func (p *process) listen() (err error) {
	if p.front, err = listen("API", "EXECUTOR_LISTEN", p.config.Listen, p.config.MaxClients, p.log); err != nil {
		return err
	}
	p.front.server.RegisterOnShutdown(p.api.Drain)
	if p.web != nil {
		p.front.server.RegisterOnShutdown(p.web.Drain)
	}
	if p.config.MetricsListen != "" {
		p.back, err = listen("metrics", "EXECUTOR_METRICS_LISTEN", p.config.MetricsListen, metricsConnections, p.log)
	}
	if err == nil {
		p.guard.RefuseOwn(p.front.address())
		if p.back != nil {
			p.guard.RefuseOwn(p.back.address())
		}
	}
	return err
}

// run works until ctx ends or a listener fails, then drains.
func (p *process) run(ctx context.Context) error {
	err := p.start(ctx)
	if err == nil {
		watching, end := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { p.keepDurable(watching) })
		select {
		case err = <-p.failed:
			p.log.Error("listener failed", "error", err)
		case <-ctx.Done():
			p.log.Info("draining", "bound", p.config.Drain.String())
		}
		end()
		watch.Wait()
	}
	return errors.Join(err, p.stop())
}

// start takes the lease and begins to answer. ctx bounds the start alone: what
// was started is ended by stop.
func (p *process) start(ctx context.Context) error {
	state, err := p.deployment.Check(ctx, p.config.Instance, p.config.Frozen)
	if err != nil {
		return deploymentError(err)
	}
	if state.Foreign() {
		p.log.Warn("this process sends nothing: the data is another deployment's; \"executor deployment adopt\" makes it this one's",
			"data", state.ID, "this_process", state.Expected)
	}
	if state.Frozen() {
		p.log.Warn("frozen: nothing is sent", "reason", state.FrozenReason, "since", state.FrozenAt, "by", state.FrozenBy)
	}
	if p.engine != nil {
		if err := p.engine.Start(ctx); err != nil {
			return err
		}
		p.started = true
		p.followers.start()
	}
	p.front.serve(p.router, p.failed)
	serving := []any{"url", p.front.url(), "roles", p.config.Roles, "frozen", state.Frozen() || state.Foreign()}
	if p.back != nil {
		p.back.serve(p.metrics, p.failed)
		serving = append(serving, "metrics_url", p.back.url())
	}
	p.log.Info("serving", serving...)
	return nil
}

// lastWords is the most of the drain that is kept for ending the lease and
// handing back what waits, so that others need not wait for the lease to lapse.
const lastWords = time.Second

// stop drains within the bound, whatever happens: on a database or a network
// that answers nothing any of the steps could stand still for longer. What is
// unfinished then ends with the process, and others take it over.
func (p *process) stop() error {
	began := time.Now()
	drained := make(chan error, 1)
	go func() { drained <- p.drain(p.config.Drain - min(lastWords, p.config.Drain/10)) }()
	var err error
	select {
	case err = <-drained:
	case <-time.After(p.config.Drain):
		err = fmt.Errorf("not everything ended within %s (EXECUTOR_DRAIN): does the database answer?", p.config.Drain)
	}
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	p.log.Info("stopped", "took", time.Since(began).String())
	return nil
}

// drain stops in this order: requests, attempts, lease. Requests get what the
// bound leaves beside the workers' part; waiting ones are answered at once.
func (p *process) drain(bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	requests, done := context.WithTimeout(ctx, p.config.Drain-p.config.SoftStop)
	defer done()
	err := p.front.stop(requests)
	if p.started {
		var following sync.WaitGroup
		following.Go(func() { p.followers.stop(ctx) })
		err = errors.Join(err, p.engine.Stop(ctx))
		following.Wait()
	}
	err = errors.Join(err, p.back.stop(ctx))
	p.close()
	return err
}

// close gives back what was opened, in whatever part.
func (p *process) close() {
	p.front.shut()
	p.back.shut()
	if p.sender != nil {
		p.sender.Close()
	}
	p.keys.Close()
	p.commands.Close()
	p.hooks.Close()
}
