package reconcile

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// reportPatience bounds waits for events that take moments, on a busy machine.
const reportPatience = time.Minute

const reportProfile = `version: 1
upstream: %s
tenant: %s
base_url: https://up.example/v2
%s
operations:
  pay:
    method: POST
    path: /payments
    body: json
    idempotency: {kind: keyed, retention: 24h, key: {in: header, name: Idempotency-Key}}
    redact: {request: [/card]}
  refund: {method: POST, path: /refunds, body: form}
`

// reportRig is a store on a database of its own. Nothing is ever sent: commands
// are put into the state that a test needs.
type reportRig struct {
	pool  *pgxpool.Pool
	ups   *upstreams.Store
	store *Store
}

func newReportRig(t testing.TB) *reportRig {
	t.Helper()
	r := openReportRig(t, testkit.Database(t))
	r.apply(t, "default", "up", "")
	return r
}

func openReportRig(t testing.TB, pool *pgxpool.Pool) *reportRig {
	t.Helper()
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ups := upstreams.NewStore(pool)
	cmds := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs})
	t.Cleanup(cmds.Close)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("EXECUTOR_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return &reportRig{pool: pool, ups: ups, store: NewStore(Config{Pool: pool, Commands: cmds, Upstreams: ups, Log: log})}
}

// apply applies a profile with further lines at its top level.
func (r *reportRig) apply(t testing.TB, tenant, name, extra string) {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", fmt.Appendf(nil, reportProfile, name, tenant, extra))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ups.Apply(t.Context(), p, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}

// arranged is a command as a test wants it.
type arranged struct {
	tenant, upstream, operation string
	key                         string
	state                       outcome.State
	reference                   string // that its attempt brought
	body, contentType           string
	metadata                    string
	age                         time.Duration // since it was accepted, and ended
}

// command puts a command into the database, with one attempt.
func (r *reportRig) command(t testing.TB, a arranged) uuid.UUID {
	t.Helper()
	for _, fallback := range []struct {
		field *string
		value string
	}{
		{&a.tenant, "default"}, {&a.upstream, "up"}, {&a.operation, "pay"}, {(*string)(&a.state), "success"},
		{&a.body, `{"amount":100}`}, {&a.contentType, "application/json"}, {&a.metadata, "{}"},
	} {
		if *fallback.field == "" {
			*fallback.field = fallback.value
		}
	}
	if a.age == 0 {
		a.age = 48 * time.Hour
	}
	id := uuid.Must(uuid.NewV7())
	r.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, sequence, created_at, deadline,
			next_attempt_at, attempts, finalized_at, outcome, phase)
		SELECT $1, $2, $3, u.id, $5, 1, $6, 1, now() - $7::interval, now(), CASE WHEN $6 = 'pending' THEN now() END, 1,
			CASE WHEN $6 NOT IN ('pending', 'executing') THEN now() - $7::interval END,
			json_build_object('state', $6::text, 'reference', CASE WHEN $6 = 'success' THEN $8::text END),
			CASE WHEN $6 = 'unresolved' THEN 'review' END
		FROM upstreams u WHERE u.tenant = $2 AND u.name = $4`, id, a.tenant, a.key, a.upstream, a.operation, string(a.state), a.age, a.reference)
	r.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		VALUES ($1, $2, 'POST', '/', '[]', $3, 'replayable', $4, '', '', ($1::uuid)::text, '{}', '', $5, 'test')`,
		id, a.tenant, []byte(a.body), a.contentType, a.metadata)
	r.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, request, bytes_total, body_sha256, reference)
		SELECT id, 1, tenant, upstream_id, 1, 'test', 1, created_at, created_at, created_at,
			CASE WHEN state <> 'executing' THEN created_at END, CASE WHEN state <> 'executing' THEN 'sent_no_response' END, '{}', 0, '', $2
		FROM commands WHERE id = $1`, id, a.reference)
	if a.state == outcome.StateUnresolved {
		r.exec(t, `INSERT INTO doubts (command_id, tenant, upstream_id, since) SELECT id, tenant, upstream_id, created_at FROM commands WHERE id = $1`, id)
	}
	return id
}

func (r *reportRig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *reportRig) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := r.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (r *reportRig) state(t testing.TB, id uuid.UUID) (state outcome.State) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), `SELECT state FROM commands WHERE id = $1`, id).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// reportOf is a request about the upstream "up" of the tenant "default".
func reportOf(changes ...func(*ReportRequest)) ReportRequest {
	r := ReportRequest{Tenant: "default", Actor: "ann", Upstream: "up", Format: ReportCSV}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func (r *reportRig) upload(t testing.TB, request ReportRequest, file string) Report {
	t.Helper()
	report, err := r.store.Upload(t.Context(), request, strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// run starts the Runner until the test ends, or stop is called.
func (r *reportRig) run(t testing.TB) (stop func()) {
	t.Helper()
	runner := r.store.ReportRunner()
	runner.Start()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			runner.Stop(context.Background())
		}
	}
	t.Cleanup(stop)
	return stop
}

// compared uploads a file and waits until it is compared.
func (r *reportRig) compared(t testing.TB, request ReportRequest, file string) Report {
	t.Helper()
	id := r.upload(t, request, file).ID
	stop := r.run(t)
	defer stop()
	return r.reach(t, request.Tenant, id, ReportCompared)
}

func (r *reportRig) applied(t testing.TB, id uuid.UUID) Report {
	t.Helper()
	if _, err := r.store.Apply(t.Context(), "default", id, "ann", "the bank says so"); err != nil {
		t.Fatal(err)
	}
	stop := r.run(t)
	defer stop()
	return r.reach(t, "default", id, ReportApplied)
}

// reach waits for a state and checks that the counts add up.
func (r *reportRig) reach(t testing.TB, tenant string, id uuid.UUID, state ReportState) Report {
	t.Helper()
	var report Report
	reportEventually(t, "the report is "+string(state), func() bool {
		var err error
		if report, err = r.store.Report(context.Background(), tenant, id); err != nil {
			t.Fatal(err)
		}
		if report.Counts.Lines() != report.Compared {
			t.Fatalf("the counts %+v add up to %d, and %d lines were compared", report.Counts, report.Counts.Lines(), report.Compared)
		}
		return report.State == state
	})
	if report.Compared != report.Lines {
		t.Errorf("%d of %d lines were compared", report.Compared, report.Lines)
	}
	return report
}

func (r *reportRig) items(t testing.TB, report Report, kinds ...ReportKind) []ReportItem {
	t.Helper()
	var all []ReportItem
	f := ReportItemFilter{Tenant: report.Tenant, Report: report.ID, Kinds: kinds, Limit: 7}
	for {
		page, next, err := r.store.ReportItems(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		f.Cursor = next
	}
}

// said is what items say, a line each.
func said(items []ReportItem) string {
	var b strings.Builder
	for _, i := range items {
		fmt.Fprintf(&b, "%d %s", i.Line, i.Kind)
		for _, d := range i.Differences {
			fmt.Fprintf(&b, " %s:%s/%s", d.Field, d.Ours, d.Theirs)
		}
		if i.DuplicateOf > 0 {
			fmt.Fprintf(&b, " of %d", i.DuplicateOf)
		}
		if i.Effect != "" {
			fmt.Fprintf(&b, " -> %s", i.Effect)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func expectItems(t testing.TB, got []ReportItem, want string) {
	t.Helper()
	if said(got) != want {
		t.Errorf("the items say\n%swant\n%s", said(got), want)
	}
}

func reportEventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, reportPatience, what, ok)
}

// lineGenerator writes a file of n lines as it is read.
type lineGenerator struct {
	header string
	line   func(i int) string
	n, i   int
	rest   []byte
}

func (g *lineGenerator) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		switch {
		case g.header != "":
			g.rest, g.header = []byte(g.header), ""
		case g.i < g.n:
			g.i++
			g.rest = []byte(g.line(g.i))
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}
