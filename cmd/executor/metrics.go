package main

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"executor/internal/postgres"
)

// newRegistry is the process's own registry: what a library registers for
// itself in the global one does not appear.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	b := readBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "executor_build_info", Help: "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// registerPool shows whether the process runs out of database connections.
func registerPool(registry prometheus.Registerer, pool *pgxpool.Pool) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "executor_database_connections_max", Help: "Database connections that this process may open."},
			func() float64 { return float64(pool.Stat().MaxConns()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "executor_database_connections_used", Help: "Database connections in use."},
			func() float64 { return float64(pool.Stat().AcquiredConns()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "executor_database_wait_seconds_total", Help: "Time spent waiting for a free database connection."},
			func() float64 { return pool.Stat().EmptyAcquireWaitTime().Seconds() }),
	)
}

// registerWatch shows what the database's server warned of.
func registerWatch(registry prometheus.Registerer, watch *postgres.Watch) {
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "executor_unreplicated_commits_total",
		Help: "Commits whose wait for the synchronous standby was broken off; each counts as unknown and is repeated.",
	}, func() float64 { return float64(watch.Unreplicated()) }))
}

// metricsHandler serves /metrics and nothing else.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// instrument measures every request by its route's pattern, so that the number
// of series does not grow with the number of commands.
func instrument(registry prometheus.Registerer) func(http.Handler) http.Handler {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "executor_http_request_duration_seconds",
		Help:    "Duration of HTTP requests; long polls and event streams last as long as they were asked to.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"method", "route", "status"})
	running := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "executor_http_requests_in_flight", Help: "HTTP requests being answered; those that wait and event streams too.",
	})
	registry.MustRegister(duration, running)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			running.Inc()
			defer running.Dec()
			wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			next.ServeHTTP(wrapped, r)
			status := wrapped.Status()
			if status == 0 {
				status = http.StatusOK // nothing was written: net/http answers 200
			}
			duration.WithLabelValues(methodLabel(r.Method), routeLabel(r), strconv.Itoa(status)).Observe(time.Since(start).Seconds())
		})
	}
}

// routeLabel is the pattern that matched; a path that matched none must not
// become a label.
func routeLabel(r *http.Request) string {
	if route := chi.RouteContext(r.Context()); route != nil {
		if pattern := route.RoutePattern(); pattern != "" {
			return pattern
		}
	}
	return "none"
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// backlog tells, at each scrape, how old the oldest work is. It reads partial
// indexes only, never the table of all commands.
type backlog struct {
	pool                     *pgxpool.Pool
	log                      *slog.Logger
	unresolved, oldest, late *prometheus.Desc
	reviews, oldestReview    *prometheus.Desc
	conflicts, unasked       *prometheus.Desc
	frozen, paused           *prometheus.Desc
}

// scrapeTimeout bounds the database's part of a scrape.
const scrapeTimeout = 3 * time.Second

func newBacklog(pool *pgxpool.Pool, log *slog.Logger) *backlog {
	return &backlog{
		pool: pool, log: log,
		unresolved: prometheus.NewDesc("executor_unresolved", "Commands in the state unresolved.", nil, nil),
		oldest:     prometheus.NewDesc("executor_oldest_unresolved_age_seconds", "Age of the oldest unresolved command since it was accepted; 0 without one.", nil, nil),
		late:       prometheus.NewDesc("executor_oldest_due_age_seconds", "How long the pending command that is due longest has been due; 0 without one.", nil, nil),
		reviews:    prometheus.NewDesc("executor_reviews", "Unresolved commands that wait for a person.", nil, nil),
		oldestReview: prometheus.NewDesc("executor_oldest_review_age_seconds",
			"How long the one that waits longest for a person has been unresolved; 0 without one.", nil, nil),
		conflicts: prometheus.NewDesc("executor_conflicts", "Evidence against a settled command that no person has looked at.", nil, nil),
		unasked: prometheus.NewDesc("executor_oldest_lookup_due_age_seconds",
			"How long the round of lookups that is due longest has been due; 0 without one.", nil, nil),
		frozen: prometheus.NewDesc("executor_frozen", "1 while the deployment sends nothing.", nil, nil),
		paused: prometheus.NewDesc("executor_upstreams_paused", "Upstreams that a person paused.", nil, nil),
	}
}

func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.unresolved
	ch <- b.oldest
	ch <- b.late
	ch <- b.reviews
	ch <- b.oldestReview
	ch <- b.conflicts
	ch <- b.unasked
	ch <- b.frozen
	ch <- b.paused
}

func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	ages, err := readAges(ctx, b.pool)
	if err != nil {
		b.log.Warn("backlog not measured", "error", err)
		return // absent series are alarmed on; wrong ones are believed
	}
	ch <- prometheus.MustNewConstMetric(b.unresolved, prometheus.GaugeValue, float64(ages.Unresolved))
	ch <- prometheus.MustNewConstMetric(b.oldest, prometheus.GaugeValue, ages.OldestUnresolved.Seconds())
	ch <- prometheus.MustNewConstMetric(b.late, prometheus.GaugeValue, ages.OldestDue.Seconds())
	ch <- prometheus.MustNewConstMetric(b.reviews, prometheus.GaugeValue, float64(ages.Reviews))
	ch <- prometheus.MustNewConstMetric(b.oldestReview, prometheus.GaugeValue, ages.OldestReview.Seconds())
	ch <- prometheus.MustNewConstMetric(b.conflicts, prometheus.GaugeValue, float64(ages.Conflicts))
	ch <- prometheus.MustNewConstMetric(b.unasked, prometheus.GaugeValue, ages.OldestLookup.Seconds())
	ch <- prometheus.MustNewConstMetric(b.frozen, prometheus.GaugeValue, float64(ages.Frozen))
	ch <- prometheus.MustNewConstMetric(b.paused, prometheus.GaugeValue, float64(ages.Paused))
}

// ages is how much waits for a person and how long work has been due.
type ages struct {
	Unresolved       int64
	OldestUnresolved time.Duration // since it was accepted
	OldestDue        time.Duration // since the pending command due longest was due
	Reviews          int64         // of the unresolved, those that wait for a person
	OldestReview     time.Duration // since that one became unresolved
	Conflicts        int64         // open
	OldestLookup     time.Duration // since the round due longest was due
	Frozen           int64         // deployments that send nothing: 0 or 1
	Paused           int64         // upstreams
}

func readAges(ctx context.Context, pool *pgxpool.Pool) (ages, error) {
	var a ages
	var unresolved, due, review, lookup float64
	err := pool.QueryRow(ctx, `
		SELECT u.n, extract(epoch FROM u.age)::float8, extract(epoch FROM d.age)::float8,
			u.reviews, extract(epoch FROM u.review)::float8,
			(SELECT count(*) FROM findings WHERE effect = 'conflict' AND resolved_at IS NULL),
			(SELECT coalesce(extract(epoch FROM greatest(now() - min(next_at), '0')), 0)::float8 FROM doubts
				WHERE next_at IS NOT NULL AND (claimed_until IS NULL OR claimed_until <= now())),
			(SELECT count(*) FROM deployment WHERE frozen_at IS NOT NULL),
			(SELECT count(*) FROM upstreams WHERE paused_at IS NOT NULL)
		FROM (SELECT count(*) AS n, coalesce(now() - min(created_at), '0') AS age,
				count(*) FILTER (WHERE phase = 'review') AS reviews,
				coalesce(now() - min(finalized_at) FILTER (WHERE phase = 'review'), '0') AS review
			FROM commands WHERE phase IS NOT NULL) u,
		     (SELECT coalesce(greatest(now() - min(next_attempt_at), '0'), '0') AS age FROM commands WHERE next_attempt_at IS NOT NULL) d`).
		Scan(&a.Unresolved, &unresolved, &due, &a.Reviews, &review, &a.Conflicts, &lookup, &a.Frozen, &a.Paused)
	a.OldestUnresolved = seconds(unresolved)
	a.OldestDue, a.OldestReview, a.OldestLookup = seconds(due), seconds(review), seconds(lookup)
	return a, err
}
