package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
)

const (
	// An uploader that brings no line for so long has lost its claim.
	uploadClaim = 5 * time.Minute
	// A chunk of lines is one transaction. It is as small as a batch in memory may be.
	uploadLines = 5000
	uploadBytes = 1 << 20
	// A slow file is stored at least so often, which renews the claim.
	uploadPause = 30 * time.Second
	// abandonBound is for what is done after the caller has gone.
	abandonBound = 10 * time.Second
)

var errLostClaim = errors.New("the claim on the settlement report is lost")

// Upload stores a settlement report line by line as it comes, and has it
// compared. A file that cannot be read is a *commands.Invalid that names the line.
// Nothing is passed on by it: see Apply.
func (s *Store) Upload(ctx context.Context, r ReportRequest, file io.Reader) (Report, error) {
	p, err := s.plan(ctx, r)
	if err != nil {
		return Report{}, err
	}
	sum := sha256.New()
	counted := &countingReader{Reader: io.TeeReader(file, sum), most: p.MaxBytes}
	lines, err := openReport(p, counted)
	if err != nil {
		return Report{}, readFailure(err, p.MaxBytes)
	}
	u := &upload{store: s, plan: p, id: uuid.Must(uuid.NewV7()), claim: uuid.New(), file: counted, sum: sum}
	if err := u.open(ctx); err != nil {
		return Report{}, err
	}
	if err := u.receive(ctx, lines); err != nil {
		err = readFailure(err, p.MaxBytes)
		u.abandon(ctx, err)
		return Report{}, err
	}
	if err := u.complete(ctx); err != nil {
		u.abandon(ctx, err)
		return Report{}, err
	}
	return s.Report(ctx, p.Tenant, u.id)
}

// readFailure says of a reader's error what the caller can do about it.
func readFailure(err error, most int64) error {
	var invalid *commands.Invalid
	switch {
	case errors.As(err, &invalid), errors.Is(err, commands.ErrUnavailable), errors.Is(err, errLostClaim), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errReportTooLarge):
		return badReport("", "too_large", "The file is larger than %d bytes; split it by its period.", most)
	default:
		return fmt.Errorf("read the settlement report: %w", err)
	}
}

// upload is one file on its way into the database.
type upload struct {
	store  *Store
	plan   *reportPlan
	id     uuid.UUID
	claim  uuid.UUID
	file   *countingReader
	sum    hash.Hash
	chunk  []reportLine
	size   int       // of the chunk
	stored time.Time // when the last chunk was
}

// open makes the report's row, claimed by this upload. When the claim ends before
// the upload does, what was stored of it is removed.
func (u *upload) open(ctx context.Context) error {
	p := u.plan
	u.stored = time.Now()
	return u.store.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
			return err
		}
		from, until := p.period(now)
		_, err := tx.Exec(ctx, `
			INSERT INTO reports (id, tenant, upstream_id, upstream, operation, format, settings, period_from, period_until,
				settles_for_ms, created_at, created_by, state, next_at, claim, claimed_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::timestamptz, $12, 'uploading', $11::timestamptz, $13, $11::timestamptz + $14::interval)`,
			u.id, p.Tenant, p.upstreamID, p.Upstream, p.Operation, p.Format, p.settings.encode(), from, until,
			p.SettlesFor.Milliseconds(), now, p.Actor, u.claim, uploadClaim)
		if err != nil {
			return fmt.Errorf("open a settlement report: %w", err)
		}
		return nil
	})
}

// receive stores the lines, a chunk at a time.
func (u *upload) receive(ctx context.Context, lines lineReader) error {
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return u.flush(ctx)
		}
		if err != nil {
			return err
		}
		if line.Number > maxReportLines {
			return badLine(line.Line, 0, "there are more than %d lines", maxReportLines)
		}
		u.chunk = append(u.chunk, line)
		u.size += len(line.Content)
		if len(u.chunk) < uploadLines && u.size < uploadBytes && time.Since(u.stored) < uploadPause {
			continue
		}
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
}

// flush stores a chunk under the claim, which it renews.
func (u *upload) flush(ctx context.Context) error {
	err := u.underClaim(ctx, func(ctx context.Context, tx commands.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"report_lines"}, []string{
			"report_id", "number", "line", "reference", "key", "command_id", "word", "finding", "code", "message", "given", "problem", "content",
		}, pgx.CopyFromSlice(len(u.chunk), u.row))
		return err
	})
	if err != nil {
		return err
	}
	u.chunk, u.size, u.stored = u.chunk[:0], 0, time.Now()
	return nil
}

func (u *upload) row(i int) ([]any, error) {
	l := u.chunk[i]
	given := l.Given
	if given == nil {
		given = []*string{}
	}
	return []any{
		u.id, int32(l.Number), int32(l.Line), l.Reference, l.Key, l.CommandID, l.Word, string(l.Finding), l.Code, l.Message,
		given, l.Problem, l.Content,
	}, nil
}

// underClaim runs fn in a transaction that takes place only while the report is
// this upload's.
func (u *upload) underClaim(ctx context.Context, fn func(ctx context.Context, tx commands.Tx) error) error {
	return u.store.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE reports SET lines = lines + $3, bytes = $4, claimed_until = now() + $5::interval
			WHERE id = $1 AND claim = $2 AND state = 'uploading'`, u.id, u.claim, len(u.chunk), u.file.n, uploadClaim)
		if err != nil {
			return fmt.Errorf("store lines of settlement report %s: %w", u.id, err)
		}
		if tag.RowsAffected() == 0 {
			return errLostClaim
		}
		if err := fn(ctx, tx); err != nil {
			return fmt.Errorf("store lines of settlement report %s: %w", u.id, err)
		}
		return nil
	})
}

// complete hands the report over to whoever compares it.
func (u *upload) complete(ctx context.Context) error {
	digest := u.sum.Sum(nil)
	return u.underClaim(ctx, func(ctx context.Context, tx commands.Tx) error {
		var lines int
		err := tx.QueryRow(ctx, `
			UPDATE reports SET state = 'comparing', sha256 = $2, next_at = now(), claim = NULL, claimed_until = NULL
			WHERE id = $1 RETURNING lines`, u.id, digest).Scan(&lines)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			Tenant: u.plan.Tenant, Actor: u.plan.Actor, Action: audit.ActionReportUpload, Subject: u.id.String(),
			Details: reportDetails(u.plan.Upstream, u.plan.Operation, digest, lines),
		})
	})
}

// abandon ends a report whose file did not arrive. What is stored of it is
// removed by whoever comes next; if this is not written, the claim ends by itself.
func (u *upload) abandon(ctx context.Context, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonBound)
	defer cancel()
	_, err := u.store.pool.Exec(ctx, `
		UPDATE reports SET state = 'failed', problem = $3, next_at = now(), claim = NULL, claimed_until = NULL
		WHERE id = $1 AND claim = $2 AND state = 'uploading'`, u.id, u.claim, commands.CleanText(uploadProblem(cause)))
	if err != nil {
		u.store.log.Error("abandon a settlement report", "report_id", u.id, "error", err)
	}
}

func uploadProblem(cause error) string {
	var invalid *commands.Invalid
	if errors.As(cause, &invalid) {
		return invalid.Detail
	}
	return "The file did not arrive whole; send it again."
}
