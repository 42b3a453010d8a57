package reconcile

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
	"executor/upstreams"
)

// Codes of refusals of Apply.
const (
	RefusedReportOnly  = "report_only"
	RefusedNotCompared = "not_compared"
)

// Apply has what a compared report proves passed on, line by line, as evidence
// about our commands: what is unresolved is settled, what contradicts a settled
// state becomes a conflict. What the report leaves out proves nothing, and a refusal
// in it says nothing of what was sent when it had not settled yet. A *Refused
// is a report that is not compared, or an upstream in report-only mode; repeating
// an Apply changes nothing.
func (s *Store) Apply(ctx context.Context, tenant string, id uuid.UUID, actor, reason string) (Report, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return Report{}, badReport("/reason", "required", "Say why the report is to be believed.")
	}
	r, err := s.Report(ctx, tenant, id)
	if err != nil {
		return Report{}, err
	}
	reportOnly, err := s.reportOnly(ctx, tenant, r.Upstream)
	if err != nil {
		return Report{}, fmt.Errorf("%w: %w", commands.ErrUnavailable, err)
	}
	if reportOnly && r.State == ReportCompared {
		return Report{}, &Refused{Code: RefusedReportOnly, Detail: fmt.Sprintf(
			"The profile of %q says reconciliation: report_only: what a report says is shown and changes nothing.", r.Upstream)}
	}
	if err := s.startApplying(ctx, r, actor, reason); err != nil {
		return Report{}, err
	}
	return s.Report(ctx, tenant, id)
}

func (s *Store) startApplying(ctx context.Context, r Report, actor, reason string) error {
	var state ReportState
	err := s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT state FROM reports WHERE id = $1 FOR UPDATE`, r.ID).Scan(&state); err != nil {
			return err
		}
		if state != ReportCompared {
			return nil
		}
		_, err := tx.Exec(ctx, `
			UPDATE reports SET state = 'applying', problem = '', apply_asked_at = now(), apply_asked_by = $2, apply_reason = $3, next_at = now()
			WHERE id = $1`, r.ID, actor, commands.CleanText(reason))
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			Tenant: r.Tenant, Actor: actor, Action: audit.ActionReportApply, Subject: r.ID.String(), Reason: reason,
			Details: reportDetails(r.Upstream, r.Operation, r.SHA256, r.Lines),
		})
	})
	switch {
	case err != nil:
		return fmt.Errorf("apply settlement report %s: %w", r.ID, err)
	case state == ReportCompared, state == ReportApplying, state == ReportApplied:
		return nil
	default:
		return &Refused{Code: RefusedNotCompared, Detail: fmt.Sprintf("The report is %s; only one that is compared can be applied.", state)}
	}
}

// reportDetails say in the audit which file it was.
func reportDetails(upstream, operation string, digest []byte, lines int) any {
	return map[string]any{"upstream": upstream, "operation": operation, "sha256": hex.EncodeToString(digest), "lines": lines}
}

// reportOnly reports whether what is found out about an upstream's commands is
// only shown.
func (s *Store) reportOnly(ctx context.Context, tenant, upstream string) (bool, error) {
	up, err := s.upstreams.Latest(ctx, tenant, upstream)
	if err != nil {
		return false, err
	}
	return up.Profile.Reconciliation == upstreams.ReconciliationReportOnly, nil
}

// stopApplying: the mode was changed meanwhile. What was passed on stays.
func stopApplying(ctx context.Context, tx commands.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE reports SET state = 'compared', problem = $2 WHERE id = $1`, id,
		"The upstream was set to report_only meanwhile: the lines that have no effect yet were not passed on.")
	if err != nil {
		return fmt.Errorf("stop applying settlement report %s: %w", id, err)
	}
	return endReportJob(ctx, tx, id)
}

// evidenceItem is the next line to be passed on.
type evidenceItem struct {
	Number    int
	CommandID uuid.UUID
	Finding   outcome.Finding
	Line      int
	Word      string
	Reference string
	Code      string
	Message   string
	Content   string
	Against   *int // a line that says the opposite
}

// applyStep passes on one line and notes its effect in the same transaction, so
// that it is done once however often this is tried.
func (s *Store) applyStep(ctx context.Context, tx commands.Tx, r heldReport) (more bool, moved []commands.Moved, err error) {
	item, err := nextEvidence(ctx, tx, r)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, `UPDATE reports SET state = 'applied', applied_at = clock_timestamp() WHERE id = $1`, r.ID)
		if err != nil {
			return false, nil, fmt.Errorf("end settlement report %s: %w", r.ID, err)
		}
		return false, nil, endReportJob(ctx, tx, r.ID)
	}
	if err != nil {
		return false, nil, fmt.Errorf("read evidence of settlement report %s: %w", r.ID, err)
	}
	effect, problem := commands.EffectNone, ""
	switch {
	case item.Against != nil:
		problem = fmt.Sprintf("not passed on: line %d says something else about the command", *item.Against)
	case r.Failures >= maxReportFailures: // it must not hold up the others
		problem = "not passed on: it failed again and again; the log of the executor tells why"
	default:
		if effect, moved, err = s.commands.Learn(ctx, tx, item.CommandID, item.knowledge(r)); err != nil {
			return false, nil, fmt.Errorf("pass on line %d of settlement report %s: %w", item.Line, r.ID, err)
		}
	}
	return true, moved, noteEffect(ctx, tx, r, item, effect, problem)
}

func nextEvidence(ctx context.Context, tx commands.Tx, r heldReport) (evidenceItem, error) {
	rows, err := tx.Query(ctx, `
		SELECT i.number, i.command_id, i.finding, i.line, l.word, l.reference, l.code, l.message, l.content, (
			SELECT d.line FROM report_items d
			WHERE d.report_id = i.report_id AND d.duplicate_of = i.number AND d.finding IN ('applied', 'refused', 'absent') AND d.finding <> i.finding
			LIMIT 1)
		FROM report_items i JOIN report_lines l ON l.report_id = i.report_id AND l.number = i.number
		WHERE i.report_id = $1 AND i.number > $2 AND i.evidence AND i.effect IS NULL
		ORDER BY i.number LIMIT 1`, r.ID, r.Applied)
	if err != nil {
		return evidenceItem{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[evidenceItem])
}

// knowledge is the line as evidence about the whole command.
func (i evidenceItem) knowledge(r heldReport) commands.Knowledge {
	observation, _ := json.Marshal(map[string]any{ // the content is known to be JSON
		"report": r.ID, "line": i.Line, "state": i.Word, "content": json.RawMessage(i.Content),
	})
	k := commands.Knowledge{
		Source: outcome.DecidedByReport, Actor: r.ApplyBy, Finding: i.Finding, AsOf: r.settled(), Reference: i.Reference,
		Code: i.Code, Message: i.Message, Observation: observation,
	}
	if k.Message == "" && i.Finding == outcome.FindingRefused {
		k.Message = i.Word
	}
	return k
}

func noteEffect(ctx context.Context, tx commands.Tx, r heldReport, item evidenceItem, effect commands.Effect, problem string) error {
	batch := &pgx.Batch{}
	batch.Queue(`
		UPDATE report_items SET effect = $3, applied_at = clock_timestamp(), problem = CASE WHEN $4 = '' THEN problem ELSE $4 END
		WHERE report_id = $1 AND number = $2`, r.ID, item.Number, effect, problem)
	batch.Queue(`
		UPDATE reports SET failures = 0, applied = $3, settled = settled + ($2 = 'settled')::int, kept = kept + ($2 = 'kept')::int,
			conflicts = conflicts + ($2 = 'conflict')::int, without_effect = without_effect + ($2 = 'none')::int
		WHERE id = $1`, r.ID, string(effect), item.Number)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("note the effect of line %d of settlement report %s: %w", item.Line, r.ID, err)
	}
	return nil
}
