package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/bench/seed"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/operators"
	"executor/reconcile"
	"executor/upstreams"
	"executor/web"
	"executor/webhooks"
)

// pageBound is how long a page may take to its first byte, at the median.
const pageBound = 150 * time.Millisecond

// pageRuns is how often each page is asked for.
const pageRuns = 21

// pages: how long every page of the dashboard takes to its first byte with a million
// commands. One that takes too long is an error, after all of them were measured.
func (b *bench) pages(ctx context.Context) error {
	pool, err := b.seededDatabase(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := openDashboard(ctx, pool)
	if err != nil {
		return err
	}
	defer d.close()
	paths, err := pagePaths(ctx, pool)
	if err != nil {
		return err
	}
	fmt.Printf("pages with %d commands, first byte, of %d runs\n", seed.Large.Commands, pageRuns)
	var slow []string
	for _, path := range paths {
		median, err := d.measure(ctx, path)
		if err != nil {
			return err
		}
		if median > pageBound {
			slow = append(slow, path)
		}
	}
	if len(slow) > 0 {
		return fmt.Errorf("over %s: %s", pageBound, strings.Join(slow, ", "))
	}
	return nil
}

// dashboard is a served dashboard with somebody signed in.
type dashboard struct {
	server   *httptest.Server
	commands *commands.Store
	cookie   string
}

func openDashboard(ctx context.Context, pool *pgxpool.Pool) (*dashboard, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	ups := upstreams.NewStore(pool)
	cmds := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Log: log})
	people, err := operators.NewStore(operators.Config{Pool: pool})
	if err != nil {
		return nil, err
	}
	hooks := webhooks.NewStore(webhooks.Config{Pool: pool, Log: log, Ask: webhooks.AskNobody})
	doubts := reconcile.NewStore(reconcile.Config{Pool: pool, Commands: cmds, Upstreams: ups, Log: log})
	site, err := web.NewServer(web.Config{
		Pool: pool, Commands: cmds, Upstreams: ups, Doubts: doubts, Hooks: hooks, Deployment: attempts.OpenDeployment(pool, "", cmds, ups),
		Keys: apikeys.NewStore(pool, log), Operators: people, Sessions: operators.NewSessions(pool), Instance: "bench", Log: log,
		JSON: func(context.Context, string, uuid.UUID) ([]byte, error) { return []byte("{}"), nil },
	})
	if err != nil {
		return nil, err
	}
	if _, err := attempts.NewDeployment(pool, "bench", nil).Adopt(ctx, audit.By{Actor: "bench", Reason: "measures pages"}); err != nil {
		return nil, err
	}
	d := &dashboard{server: httptest.NewServer(site.Routes()), commands: cmds}
	tenants, err := ups.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	return d, d.signIn(ctx, people, tenants)
}

func (d *dashboard) close() {
	d.server.Close()
	d.commands.Close()
}

// signIn makes an admin of every tenant, where there is none yet, and takes a link of
// theirs.
func (d *dashboard) signIn(ctx context.Context, people *operators.Store, tenants []string) error {
	by := operators.By{Actor: "bench", Reason: "measures pages"}
	o, err := people.Create(ctx, by, operators.New{Name: "bench", Tenant: "default", Role: operators.RoleAdmin})
	if errors.Is(err, operators.ErrExists) {
		o, err = people.ByName(ctx, "bench")
	}
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if o, err = people.SetRole(ctx, by, o.ID, tenant, operators.RoleAdmin); err != nil {
			return err
		}
	}
	token, err := people.CreateLink(ctx, by, o.ID, time.Minute)
	if err != nil {
		return err
	}
	form := url.Values{"token": {token}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.server.URL+"/sign-in/link", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		d.cookie = c.Name + "=" + c.Value
	}
	if d.cookie == "" {
		return fmt.Errorf("the sign-in answers %d", resp.StatusCode)
	}
	return nil
}

// measure asks for a page again and again and prints how long its first byte took.
func (d *dashboard) measure(ctx context.Context, path string) (time.Duration, error) {
	var (
		took []time.Duration
		size int64
	)
	for range pageRuns {
		one, n, err := d.once(ctx, path)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		took, size = append(took, one), n
	}
	slices.Sort(took)
	median := took[len(took)/2]
	fmt.Printf("  %-62s p50 %8s   worst %8s   %4d KiB\n", shortened(path), median.Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond), size>>10)
	return median, nil
}

func shortened(path string) string {
	if len(path) > 60 {
		return path[:59] + "…"
	}
	return path
}

func (d *dashboard) once(ctx context.Context, path string) (time.Duration, int64, error) {
	var first time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server.URL+path, nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Cookie", d.cookie)
	began := time.Now()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %d", resp.StatusCode)
	}
	return first.Sub(began), n, err
}

// pagePaths are the pages with what there is to see on each, and the filters that
// have most to look through.
func pagePaths(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	var unresolved, many, delivery string
	for _, find := range []struct {
		sql  string
		into *string
	}{
		{`SELECT id::text FROM commands WHERE tenant = 'default' AND phase IS NOT NULL ORDER BY created_at LIMIT 1`, &unresolved},
		{`SELECT id::text FROM commands WHERE tenant = 'default' ORDER BY attempts DESC, created_at DESC LIMIT 1`, &many},
		{`SELECT coalesce((SELECT id::text FROM webhook_deliveries WHERE tenant = 'default' ORDER BY at DESC LIMIT 1), '')`, &delivery},
	} {
		if err := pool.QueryRow(ctx, find.sql).Scan(find.into); err != nil {
			return nil, err
		}
	}
	paths := []string{
		"/", "/reviews", "/reviews?sort=deadline", "/reviews?kind=conflict", "/reviews?evidence=not_sent", "/reviews?reason=remote_pending", "/reviews?assignee=nobody",
		"/commands/" + unresolved, "/commands/" + many, "/commands/" + unresolved + "/resolve",
		"/search", "/search?state=unresolved", "/search?state=pending", "/search?state=executing", "/search?state=success", "/search?state=rejected", "/search?state=cancelled",
		"/search?q=order-123451", "/search?q=order-12345", "/search?q=pay_777778", "/search?q=c-4711", "/search?q=DE", "/search?q=order%3Do-500000", "/search?q=nothing-of-that-kind",
		"/search?evidence=not_sent&state=success", "/search?reason=declined", "/search?operation=none", "/search?upstream=rare",
		"/upstreams", "/upstreams/ledger", "/upstreams/ledger/explain", "/upstreams/ledger/edit", "/upstreams/rare", "/webhooks", "/deliveries", "/deliveries?state=failed", "/reports", "/bulk", "/audit", "/audit?action=command.resolve",
		"/keys", "/operators", "/deployment", "/deployment/resume", "/account",
	}
	if delivery != "" {
		paths = append(paths, "/deliveries/"+delivery)
	}
	return paths, nil
}
