package upstreams

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/internal/groupcommit"
)

// Pause holds back every new attempt at an upstream. Pausing a paused one
// changes who and why, not since when.
func (s *Store) Pause(ctx context.Context, tenant, name string, by audit.By) (Upstream, error) {
	return s.pause(ctx, tenant, name, by, nil)
}

// PauseSeen is Pause by somebody who has seen the upstream with a mark of PauseMark:
// ErrStale if it has another by now.
func (s *Store) PauseSeen(ctx context.Context, tenant, name, mark string, by audit.By) (Upstream, error) {
	return s.pause(ctx, tenant, name, by, &mark)
}

func (s *Store) pause(ctx context.Context, tenant, name string, by audit.By, seen *string) (Upstream, error) {
	u, err := s.change(ctx, tenant, name, by, change{
		action: audit.ActionUpstreamPause,
		is:     pauseNow{Paused: true, By: by.Actor, Reason: by.Reason},
		query: `UPDATE upstreams SET paused_at = coalesce(paused_at, now()), paused_by = $2, paused_reason = $3, updated_at = now()
			WHERE id = $1 RETURNING ` + upstreamColumns,
		args: []any{by.Actor, by.Reason},
		seen: seen,
	})
	if err != nil {
		return Upstream{}, fmt.Errorf("pause upstream %s of %s: %w", name, tenant, err)
	}
	return u, nil
}

// Resume ends a pause, if there is one.
func (s *Store) Resume(ctx context.Context, tenant, name string, by audit.By) (Upstream, error) {
	return s.resume(ctx, tenant, name, by, nil)
}

// ResumeSeen is Resume by somebody who has seen the upstream with a mark of
// PauseMark: ErrStale if it has another by now, and is paused.
func (s *Store) ResumeSeen(ctx context.Context, tenant, name, mark string, by audit.By) (Upstream, error) {
	return s.resume(ctx, tenant, name, by, &mark)
}

func (s *Store) resume(ctx context.Context, tenant, name string, by audit.By, seen *string) (Upstream, error) {
	u, err := s.change(ctx, tenant, name, by, change{
		action: audit.ActionUpstreamResume,
		query: `UPDATE upstreams SET paused_at = NULL, paused_by = '', paused_reason = '', updated_at = now()
			WHERE id = $1 RETURNING ` + upstreamColumns,
		seen: seen,
	})
	if err != nil {
		return Upstream{}, fmt.Errorf("resume upstream %s of %s: %w", name, tenant, err)
	}
	return u, nil
}

// PauseMark tells one pause from another, and from none, which is "".
func PauseMark(since *time.Time, by, reason string) string {
	if since == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(since.UTC().Format(time.RFC3339Nano) + "\x00" + by + "\x00" + reason))
	return hex.EncodeToString(sum[:8])
}

// pauseNow is an upstream's pause as the audit shows it.
type pauseNow struct {
	Paused bool   `json:"paused"`
	By     string `json:"paused_by,omitempty"`
	Reason string `json:"paused_reason,omitempty"`
}

// change is what a person does to an upstream's pause.
type change struct {
	action string
	is     pauseNow // after it
	query  string   // with the upstream's number before the args
	args   []any
	seen   *string // the PauseMark that somebody saw; nil: none was asked for
}

// change makes a change and puts it on record. Where all is so already it does
// neither.
func (s *Store) change(ctx context.Context, tenant, name string, by audit.By, c change) (Upstream, error) {
	var row upstreamRow
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) (err error) {
		row, err = one(tx.Query(ctx, `
			SELECT `+upstreamColumns+` FROM upstreams WHERE tenant = $1 AND name = $2 FOR NO KEY UPDATE`, tenant, name))
		was := pauseNow{Paused: row.PausedAt != nil, By: row.PausedBy, Reason: row.PausedReason}
		if err != nil || was == c.is {
			return err
		}
		if c.seen != nil && *c.seen != PauseMark(row.PausedAt, row.PausedBy, row.PausedReason) {
			return ErrStale
		}
		if row, err = one(tx.Query(ctx, c.query, append([]any{row.ID}, c.args...)...)); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			Tenant: tenant, Actor: by.Actor, Action: c.action, Subject: name, Reason: by.Reason, Before: was, After: c.is,
		})
	})
	if err != nil {
		return Upstream{}, err
	}
	s.forget(tenant, name)
	return s.withProfile(ctx, row)
}
