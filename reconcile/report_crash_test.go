package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/testkit"
)

// reportChild names the database of a child process that works on reports until
// it is killed.
const reportChild = "EXECUTOR_TEST_REPORT_CHILD"

// TestReportChildProcess is the child of the tests below, and nothing by itself.
func TestReportChildProcess(t *testing.T) {
	url := os.Getenv(reportChild)
	if url == "" {
		return
	}
	runner := openReportRig(t, testkit.Open(t, url)).store.ReportRunner()
	runner.Start()
	_, _ = io.Copy(io.Discard, os.Stdin) // its parent's end
	runner.Stop(t.Context())
}

// child starts one. It is killed with SIGKILL.
func (r *reportRig) child(t *testing.T) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReportChildProcess$")
	cmd.Env = append(os.Environ(), reportChild+"="+r.pool.Config().ConnString())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	}
}

// gate stops whoever comes to a row, until it is opened.
func (r *reportRig) gate(t *testing.T, event, table, condition string) (open func()) {
	t.Helper()
	conn, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(77)`); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `CREATE OR REPLACE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NEW; END $$`)
	r.exec(t, fmt.Sprintf(`CREATE TRIGGER gate BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION gate()`, event, table, condition))
	opened := false
	open = func() {
		if !opened {
			opened = true
			_, _ = conn.Exec(context.Background(), `SELECT pg_advisory_unlock(77)`)
			conn.Release()
			r.exec(t, fmt.Sprintf(`DROP TRIGGER gate ON %s`, table))
		}
	}
	t.Cleanup(open)
	return open
}

// held waits until somebody stands at the gate.
func (r *reportRig) held(t *testing.T) {
	t.Helper()
	reportEventually(t, "somebody stands at the gate", func() bool {
		return r.count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	})
}

// lapse ends the claims, as time would.
func (r *reportRig) lapse(t *testing.T) {
	t.Helper()
	r.exec(t, `UPDATE reports SET claimed_until = now() - interval '1 second' WHERE claimed_until IS NOT NULL`)
}

// crowd makes n commands with the keys k1 to kn.
func (r *reportRig) crowd(t testing.TB, n int, state string) {
	t.Helper()
	r.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, sequence, created_at, deadline, attempts, finalized_at, outcome, phase)
		SELECT gen_random_uuid(), 'default', 'k' || i, (SELECT id FROM upstreams WHERE tenant = 'default' AND name = 'up'), 'pay', 1, $2, 1,
			now() - interval '2 days' + i * interval '1 millisecond', now(), 1, now() - interval '1 day', json_build_object('state', $2::text),
			CASE WHEN $2 = 'unresolved' THEN 'review' END
		FROM generate_series(1, $1) i`, n, state)
	r.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, tenant, 'POST', '/', '[]', convert_to('{"amount": ' || substr(idempotency_key, 2) || '.50, "account": "a1"}', 'UTF8'), 'replayable',
			'application/json', '', '', '', '{}', '', '{}', 'test' FROM commands WHERE idempotency_key LIKE 'k%'`)
	r.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, request, bytes_total, body_sha256, reference)
		SELECT id, 1, tenant, upstream_id, 1, 'test', 1, now(), now(), now(), now(), 'sent_no_response', '{}', 0, '', 'ref' || substr(idempotency_key, 2)
		FROM commands WHERE idempotency_key LIKE 'k%'`)
	r.exec(t, `ANALYZE commands, command_requests, attempts`)
}

// crowdFile has a line for each of the crowd.
func crowdFile(n int, state string) io.Reader {
	return &lineGenerator{header: "key,state,amount\n", n: n, line: func(i int) string { return fmt.Sprintf("k%d,%s,%d.5\n", i, state, i) }}
}

func TestReportGoesOnWhereAKilledProcessWas(t *testing.T) {
	r := newReportRig(t)
	const n = 4*compareBatch + 1
	r.crowd(t, n, "success")
	report, err := r.store.Upload(t.Context(), reportOf(func(q *ReportRequest) { q.From = time.Unix(0, 0) }), crowdFile(n, "success"))
	if err != nil {
		t.Fatal(err)
	}
	open := r.gate(t, "INSERT", "report_items", fmt.Sprintf("NEW.number = %d", 2*compareBatch+5))
	kill := r.child(t)
	r.held(t) // in the middle of its third batch
	kill()
	if got, err := r.store.Report(t.Context(), "default", report.ID); err != nil || got.Compared != 2*compareBatch || got.Counts.Matched != got.Compared {
		t.Fatalf("%d lines were compared, %+v, %v", got.Compared, got.Counts, err)
	}
	open()
	r.lapse(t)
	r.run(t)
	report = r.reach(t, "default", report.ID, ReportCompared)
	if want := (ReportCounts{Matched: n}); report.Counts != want || r.count(t, `SELECT count(*) FROM report_items`) != n {
		t.Errorf("got %+v, want %+v", report.Counts, want)
	}
}

func TestReportIsAppliedOnceThoughItsProcessIsKilled(t *testing.T) {
	r := newReportRig(t)
	const n = 40
	r.crowd(t, n, "unresolved")
	report, err := r.store.Upload(t.Context(), reportOf(), crowdFile(n, "success"))
	if err != nil {
		t.Fatal(err)
	}
	kill := r.child(t)
	report = r.reach(t, "default", report.ID, ReportCompared)
	open := r.gate(t, "UPDATE", "report_items", "NEW.number = 20 AND NEW.effect IS NOT NULL")
	if _, err := r.store.Apply(t.Context(), "default", report.ID, "ann", "because"); err != nil {
		t.Fatal(err)
	}
	r.held(t) // it has passed on the 20th line, and not committed
	kill()
	open()
	r.lapse(t)
	r.run(t)
	report = r.reach(t, "default", report.ID, ReportApplied)
	if want := (ReportEffects{Settled: n}); report.Effects != want {
		t.Errorf("got %+v, want %+v", report.Effects, want)
	}
	if f, e := r.count(t, `SELECT count(*) FROM findings`), r.count(t, `SELECT count(*) FROM events WHERE type = 'command.success'`); f != n || e != n {
		t.Errorf("%d findings and %d events, want %d", f, e, n)
	}
}

func TestReportIsWorkedOnByOneOfTwoProcesses(t *testing.T) {
	r := newReportRig(t)
	const n = 3 * compareBatch
	r.crowd(t, n, "unresolved")
	other := openReportRig(t, r.pool)
	r.run(t)
	other.run(t)
	var ids []uuid.UUID
	for range 3 {
		report, err := r.store.Upload(t.Context(), reportOf(), crowdFile(n, "success"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, report.ID)
	}
	for _, id := range ids {
		report := r.reach(t, "default", id, ReportCompared)
		if report.Counts.Different != n || r.count(t, `SELECT count(*) FROM report_items WHERE report_id = $1`, id) != n {
			t.Errorf("got %+v", report.Counts)
		}
	}
}

// A process that stood still while its claim ended writes nothing more.
func TestReportIsNotWrittenWithoutItsClaim(t *testing.T) {
	r := newReportRig(t)
	const n = compareBatch + 100
	r.crowd(t, n, "success")
	report, err := r.store.Upload(t.Context(), reportOf(), crowdFile(n, "success"))
	if err != nil {
		t.Fatal(err)
	}
	paused := r.claim(t)
	if more, err := r.store.reportStep(t.Context(), paused); err != nil || !more {
		t.Fatalf("more %v, %v", more, err)
	}
	r.lapse(t)
	follower := r.claim(t)
	if _, err := r.store.reportStep(t.Context(), paused); !errors.Is(err, errLostClaim) {
		t.Errorf("without its claim it went on: %v", err)
	}
	r.store.postponeReport(t.Context(), paused, errors.New("it woke up"))
	if more, err := r.store.reportStep(t.Context(), follower); err != nil || !more {
		t.Fatalf("more %v, %v", more, err)
	}
	if more, err := r.store.reportStep(t.Context(), follower); err != nil || more {
		t.Fatalf("more %v, %v", more, err)
	}
	if report = r.reach(t, "default", report.ID, ReportCompared); report.Counts.Matched != n {
		t.Errorf("got %+v", report.Counts)
	}
}

// A process that stops gives its report back, and another goes on at once.
func TestReportIsGivenBackByAProcessThatStops(t *testing.T) {
	r := newReportRig(t)
	const n = 2*compareBatch + 1
	r.crowd(t, n, "success")
	report, err := r.store.Upload(t.Context(), reportOf(), crowdFile(n, "success"))
	if err != nil {
		t.Fatal(err)
	}
	open := r.gate(t, "INSERT", "report_items", fmt.Sprintf("NEW.number = %d", compareBatch+5))
	runner := r.store.ReportRunner()
	runner.Start()
	r.held(t)
	over, cancel := context.WithCancel(context.Background())
	cancel() // there is no time left
	stopped := make(chan struct{})
	go func() {
		runner.Stop(over)
		close(stopped)
	}()
	// What was cut off may hold the report's row until the server notices.
	reportEventually(t, "the report is given back, or about to be", func() bool {
		return r.count(t, `SELECT (SELECT count(*) FROM reports WHERE claim IS NULL) + (SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%claim = NULL%')`) > 0
	})
	open()
	<-stopped
	if got, err := r.store.Report(t.Context(), "default", report.ID); err != nil || got.Compared != compareBatch {
		t.Fatalf("%d lines were compared, %v", got.Compared, err)
	}
	if n := r.count(t, `SELECT count(*) FROM reports WHERE claim IS NULL AND next_at <= now()`); n != 1 {
		t.Fatal("the report is still claimed")
	}
	r.run(t)
	if report = r.reach(t, "default", report.ID, ReportCompared); report.Counts.Matched != n {
		t.Errorf("got %+v", report.Counts)
	}
}

func (r *reportRig) claim(t *testing.T) reportJob {
	t.Helper()
	jobs, err := r.store.claimReports(t.Context(), nil, 1)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %v, %v", jobs, err)
	}
	return jobs[0]
}

// An upload that stood still for too long has lost its report, which is removed.
func TestReportUploadWithoutItsClaim(t *testing.T) {
	r := newReportRig(t)
	file := &lineGenerator{header: "key,state\n", n: 3 * uploadLines, line: func(i int) string {
		if i == 2*uploadLines {
			r.lapse(t)
			r.run(t)
			reportEventually(t, "the report has failed", func() bool { return r.count(t, `SELECT count(*) FROM reports WHERE state = 'failed'`) == 1 })
		}
		return "k,success\n"
	}}
	if _, err := r.store.Upload(t.Context(), reportOf(), file); !errors.Is(err, errLostClaim) {
		t.Errorf("got %v", err)
	}
	reportEventually(t, "its lines are removed", func() bool { return r.count(t, `SELECT count(*) FROM report_lines`) == 0 })
}

// A line that cannot be passed on holds up no other, and a comparison that cannot
// be made ends.
func TestReportOutlivesWhatFailsForEver(t *testing.T) {
	r := newReportRig(t)
	r.crowd(t, 3, "unresolved")
	report, err := r.store.Upload(t.Context(), reportOf(), crowdFile(3, "success"))
	if err != nil {
		t.Fatal(err)
	}
	stop := r.run(t)
	report = r.reach(t, "default", report.ID, ReportCompared)
	stop()
	r.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$`)
	r.exec(t, `CREATE TRIGGER broken BEFORE UPDATE ON commands FOR EACH ROW WHEN (NEW.idempotency_key = 'k2') EXECUTE FUNCTION broken()`)
	if _, err := r.store.Apply(t.Context(), "default", report.ID, "ann", "because"); err != nil {
		t.Fatal(err)
	}
	r.hurry(t, func() bool { return r.count(t, `SELECT count(*) FROM reports WHERE state = 'applied'`) == 1 })
	report = r.reach(t, "default", report.ID, ReportApplied)
	if want := (ReportEffects{Settled: 2, None: 1}); report.Effects != want || !strings.Contains(r.items(t, report)[1].Problem, "again and again") {
		t.Errorf("got %+v, %+v", report.Effects, r.items(t, report))
	}
	r.exec(t, `CREATE TRIGGER broken BEFORE INSERT ON report_items FOR EACH ROW EXECUTE FUNCTION broken()`)
	failed := r.upload(t, reportOf(), "key,state\nk1,success\n")
	r.hurry(t, func() bool { return r.count(t, `SELECT count(*) FROM reports WHERE state = 'failed'`) == 1 })
	if failed, err = r.store.Report(t.Context(), "default", failed.ID); err != nil || failed.Problem == "" {
		t.Errorf("got %+v, %v", failed, err)
	}
}

// hurry works on what is due, and lets no failure wait for its next try.
func (r *reportRig) hurry(t *testing.T, done func() bool) {
	t.Helper()
	for range 20 * maxReportFailures {
		if done() {
			return
		}
		r.exec(t, `UPDATE reports SET next_at = now() WHERE next_at IS NOT NULL`)
		jobs, err := r.store.claimReports(t.Context(), nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			r.store.workOnReport(t.Context(), job)
		}
	}
	t.Fatal("it goes on for ever")
}

// A file is larger than what may be in memory.
func TestReportStaysInBoundedMemory(t *testing.T) {
	r := newReportRig(t)
	const n, most = 20_000, 64 << 20
	padding := strings.Repeat("x", 3500)
	file := &lineGenerator{header: "key,state,amount,padding\n", n: n, line: func(i int) string {
		return fmt.Sprintf("k%d,success,%d.5,%s\n", i, i, padding)
	}}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, stop := watchHeap()
	report, err := r.store.Upload(t.Context(), reportOf(func(q *ReportRequest) { q.Compare = []Comparison{{"amount", "/body/amount"}} }), file)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t)
	report = r.reach(t, "default", report.ID, ReportCompared)
	stop()
	if report.Lines != n || report.Bytes < 64<<20 || report.Counts.MissingHere != n {
		t.Errorf("got %d lines of %d bytes, %+v", report.Lines, report.Bytes, report.Counts)
	}
	if used := int64(peak.Load()) - int64(before.HeapAlloc); used > most {
		t.Errorf("a file of %d MiB took %d MiB of memory", report.Bytes>>20, used>>20)
	} else {
		t.Logf("a file of %d MiB took %d MiB of memory", report.Bytes>>20, used>>20)
	}
}

// watchHeap follows the size of the heap.
func watchHeap() (peak *atomic.Uint64, stop func()) {
	peak = &atomic.Uint64{}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}
