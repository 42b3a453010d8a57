package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/due"
)

const (
	// reportClaim is longer than a batch may take.
	reportClaim = 2 * time.Minute
	reportEvery = time.Second
	// reportsAtOnce is small: a report keeps the database busy.
	reportsAtOnce = 2
	// After so long a report lets others go first, and the process stop.
	reportSlice = 3 * time.Second
	// After so many failures in a row it is not the database that is at fault.
	maxReportFailures = 8
)

// reportJob is a report that this process has claimed.
type reportJob struct {
	ID       uuid.UUID
	Tenant   string
	Upstream string
	State    ReportState // while it is claimed
	Claim    uuid.UUID
}

// ReportRunner works on the settlement reports that are due: it compares and
// applies them, one of a tenant at a time in each process.
func (s *Store) ReportRunner() *due.Runner[string, reportJob] {
	return due.New(due.Config[string, reportJob]{
		Name: "settlement reports", Every: reportEvery, Total: reportsAtOnce,
		Claim: s.claimReports, Work: s.workOnReport,
		Lane: func(j reportJob) string { return j.Tenant },
		Log:  s.log,
	})
}

// claimReports takes one report of a tenant that has none under way here. Once it
// asks it waits for the answer, shutdown or not: a claim that nobody knows of would
// hold the report up until it ends.
func (s *Store) claimReports(ctx context.Context, busy map[string]int, _ int) ([]reportJob, error) {
	tenants := make([]string, 0, len(busy))
	for tenant := range busy {
		tenants = append(tenants, tenant)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonBound)
	defer cancel()
	rows, err := s.pool.Query(ctx, `
		UPDATE reports SET claim = gen_random_uuid(), claimed_until = now() + $2::interval
		WHERE id = (
			SELECT id FROM reports
			WHERE next_at <= now() AND (claimed_until IS NULL OR claimed_until < now()) AND tenant <> ALL ($1)
			ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, tenant, upstream, state, claim`, tenants, reportClaim)
	if err != nil {
		return nil, fmt.Errorf("claim settlement reports: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[reportJob])
	if err != nil {
		return nil, fmt.Errorf("claim settlement reports: %w", err)
	}
	return jobs, nil
}

// workOnReport takes step after step, each a transaction of its own with its
// progress: where it stops another goes on.
func (s *Store) workOnReport(ctx context.Context, job reportJob) {
	for began := time.Now(); ; {
		more, err := s.reportStep(ctx, job)
		switch {
		case errors.Is(err, errLostClaim):
			return
		case err != nil && ctx.Err() == nil:
			s.postponeReport(ctx, job, err)
			return
		case err == nil && !more:
			return
		case err != nil, time.Since(began) > reportSlice:
			s.releaseReport(ctx, job)
			return
		}
	}
}

// releaseReport gives the claim back in the middle of the work: this process or
// another goes on at once.
func (s *Store) releaseReport(ctx context.Context, job reportJob) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonBound)
	defer cancel()
	_, err := s.pool.Exec(ctx, `
		UPDATE reports SET claim = NULL, claimed_until = NULL, next_at = now() WHERE id = $1 AND claim = $2`, job.ID, job.Claim)
	if err != nil {
		s.log.Error("release a settlement report", "report_id", job.ID, "error", err)
	}
}

// reportStep does the next piece of work. It tells whether there is more.
func (s *Store) reportStep(ctx context.Context, job reportJob) (more bool, err error) {
	reportOnly := false
	if job.State == ReportApplying {
		if reportOnly, err = s.reportOnly(ctx, job.Tenant, job.Upstream); err != nil {
			return false, fmt.Errorf("apply settlement report %s: %w", job.ID, err)
		}
	}
	var moved []commands.Moved
	err = s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		moved, more = nil, true
		r, err := holdReport(ctx, tx, job)
		if err != nil {
			return err
		}
		switch r.State {
		case ReportUploading, ReportFailed:
			more, err = discardLines(ctx, tx, r)
		case ReportComparing:
			more, err = s.compareStep(ctx, tx, r)
		case ReportApplying:
			if reportOnly {
				more, err = false, stopApplying(ctx, tx, r.ID)
				return err
			}
			more, moved, err = s.applyStep(ctx, tx, r)
		default:
			more, err = false, endReportJob(ctx, tx, r.ID)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	s.commands.Changed(moved)
	return more, nil
}

// heldReport is what the work on a report needs of its row.
type heldReport struct {
	ID          uuid.UUID
	Tenant      string
	UpstreamID  int64
	Upstream    string
	Operation   string
	Settings    string
	State       ReportState
	CreatedAt   time.Time
	SettlesMS   int64
	PeriodFrom  *time.Time
	PeriodUntil *time.Time
	Lines       int
	Compared    int
	ScannedAt   *time.Time
	ScannedID   *uuid.UUID
	Unmentioned int
	ApplyBy     string
	Applied     int
	Failures    int
}

// settled is the moment before which commands have settled for the report.
func (r heldReport) settled() time.Time {
	return r.CreatedAt.Add(-time.Duration(r.SettlesMS) * time.Millisecond)
}

func (r heldReport) settings() (reportSettings, error) {
	var settings reportSettings
	if err := json.Unmarshal([]byte(r.Settings), &settings); err != nil {
		return settings, fmt.Errorf("settings of settlement report %s: %w", r.ID, err)
	}
	return settings, nil
}

// holdReport locks a report whose claim is still ours and prolongs the claim.
// Whoever stood still for so long that another took over finds it gone and writes
// nothing.
func holdReport(ctx context.Context, tx commands.Tx, job reportJob) (heldReport, error) {
	rows, err := tx.Query(ctx, `
		UPDATE reports SET claimed_until = now() + $3::interval WHERE id = $1 AND claim = $2
		RETURNING id, tenant, upstream_id, upstream, operation, settings::text, state, created_at, settles_for_ms, period_from,
			period_until, lines, compared, scanned_at, scanned_id, missing_there + young_there, apply_asked_by, applied, failures`,
		job.ID, job.Claim, reportClaim)
	if err != nil {
		return heldReport{}, fmt.Errorf("hold settlement report %s: %w", job.ID, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[heldReport])
	if errors.Is(err, pgx.ErrNoRows) {
		return heldReport{}, errLostClaim
	}
	if err != nil {
		return heldReport{}, fmt.Errorf("hold settlement report %s: %w", job.ID, err)
	}
	return r, nil
}

// endReportJob: the report waits for a person now, or for nothing.
func endReportJob(ctx context.Context, tx commands.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE reports SET next_at = NULL, claim = NULL, claimed_until = NULL, failures = 0 WHERE id = $1`, id)
	if err != nil {
		return fmt.Errorf("end the work on settlement report %s: %w", id, err)
	}
	return nil
}

// postponeReport gives the claim back after a failure. Without the database the
// claim ends by itself.
func (s *Store) postponeReport(ctx context.Context, job reportJob, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonBound)
	defer cancel()
	s.log.Error("work on a settlement report", "report_id", job.ID, "error", cause)
	_, err := s.pool.Exec(ctx, `
		UPDATE reports SET claim = NULL, claimed_until = NULL, failures = failures + 1,
			next_at = CASE WHEN state = 'comparing' AND failures + 1 >= $3 THEN NULL ELSE now() + least(60, power(2, failures)) * interval '1 second' END,
			problem = CASE WHEN state = 'comparing' AND failures + 1 >= $3 THEN $4 ELSE problem END,
			state = CASE WHEN state = 'comparing' AND failures + 1 >= $3 THEN 'failed' ELSE state END
		WHERE id = $1 AND claim = $2`, job.ID, job.Claim, maxReportFailures,
		"The comparison failed again and again; the log of the executor tells why.")
	if err != nil {
		s.log.Error("postpone a settlement report", "report_id", job.ID, "error", err)
	}
}

// discardBatch bounds what one transaction removes.
const discardBatch = 10_000

// discardLines removes what is stored of a file that did not arrive whole.
func discardLines(ctx context.Context, tx commands.Tx, r heldReport) (more bool, err error) {
	rest := max(0, r.Lines-discardBatch)
	if _, err := tx.Exec(ctx, `DELETE FROM report_lines WHERE report_id = $1 AND number > $2 AND number <= $3`, r.ID, rest, r.Lines); err != nil {
		return false, fmt.Errorf("discard settlement report %s: %w", r.ID, err)
	}
	_, err = tx.Exec(ctx, `
		UPDATE reports SET state = 'failed', lines = $2, failures = 0,
			problem = CASE WHEN problem = '' THEN $3 ELSE problem END
		WHERE id = $1`, r.ID, rest, uploadProblem(nil))
	if err != nil {
		return false, fmt.Errorf("discard settlement report %s: %w", r.ID, err)
	}
	if rest == 0 {
		return false, endReportJob(ctx, tx, r.ID)
	}
	return true, nil
}

// countKinds counts the verdicts of a batch.
func countKinds(kinds []ReportKind) map[ReportKind]int {
	counts := make(map[ReportKind]int, len(ReportKinds()))
	for _, kind := range kinds {
		counts[kind]++
	}
	return counts
}
