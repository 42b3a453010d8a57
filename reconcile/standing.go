package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

// standing is all that decides which actions a command takes: the queue shows by
// it what would be accepted, and the actions themselves ask it.
type standing struct {
	command   commands.Locked
	terms     commands.Terms
	operation *upstreams.Operation // nil if the pinned profile can no longer be read
	past      []commands.Past
	doubt     standingRow
	absent    bool // lookups have confirmed it, and what follows was left to a person
}

// standingRow is what is asked of the tables around a command. Without a doubt its
// columns are zero.
type standingRow struct {
	ID           uuid.UUID
	Newest       int // version of the upstream's profile
	Lookups      int
	Absents      int
	LastAbsentAt *time.Time
	Seen         bool
	ClaimedUntil *time.Time
	Conflicts    []int64 // ids of the open ones
}

const standingSQL = `
	SELECT c.id, u.version AS newest, coalesce(d.lookups, 0) AS lookups, coalesce(d.absents, 0) AS absents, d.last_absent_at,
		coalesce(d.seen, false) AS seen, d.claimed_until,
		ARRAY(SELECT f.id FROM findings f WHERE f.command_id = c.id AND f.effect = 'conflict' AND f.resolved_at IS NULL ORDER BY f.id) AS conflicts
	FROM commands c JOIN upstreams u ON u.id = c.upstream_id LEFT JOIN doubts d ON d.command_id = c.id
	WHERE c.id = ANY($1)`

// reader reads, in a transaction or outside one.
type reader interface {
	commands.Querier
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// standings reads how some commands stand, without locking them.
func (s *Store) standings(ctx context.Context, q reader, ids []uuid.UUID) (map[uuid.UUID]standing, error) {
	list, err := s.commands.Peek(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	return s.standingsOf(ctx, q, list)
}

// lockStanding reads one under its lock, and under the doubt's: no round of
// lookups begins before the transaction ends.
func (s *Store) lockStanding(ctx context.Context, tx commands.Tx, tenant string, id uuid.UUID) (standing, error) {
	locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return standing{}, err
	}
	if c, ok := locked[id]; !ok || c.Tenant != tenant {
		return standing{}, commands.ErrNotFound
	}
	if _, err := tx.Exec(ctx, `SELECT FROM doubts WHERE command_id = $1 FOR UPDATE`, id); err != nil {
		return standing{}, fmt.Errorf("lock the doubt about command %s: %w", id, err)
	}
	list, err := s.standingsOf(ctx, tx, locked)
	return list[id], err
}

func (s *Store) standingsOf(ctx context.Context, q reader, list map[uuid.UUID]commands.Locked) (map[uuid.UUID]standing, error) {
	ids := slices.Collect(maps.Keys(list))
	history, err := s.commands.History(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, standingSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("read doubts: %w", err)
	}
	doubts, err := pgx.CollectRows(rows, pgx.RowToStructByName[standingRow])
	if err != nil {
		return nil, fmt.Errorf("read doubts: %w", err)
	}
	var lost commands.Doubt
	batch := &pgx.Batch{}
	s.commands.QueueDoubt(batch, &lost)
	if err := q.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("read deployment: %w", err)
	}
	standings := make(map[uuid.UUID]standing, len(list))
	for _, d := range doubts {
		st := standing{command: list[d.ID], past: history[d.ID], doubt: d}
		if err := s.addTerms(ctx, &st); err != nil {
			return nil, err
		}
		if st.absent, err = s.confirmedAbsent(ctx, st, lost); err != nil {
			return nil, err
		}
		standings[d.ID] = st
	}
	return standings, nil
}

// addTerms adds what the pinned profile says. One that can no longer be read keeps
// nobody from deciding about its commands.
func (s *Store) addTerms(ctx context.Context, st *standing) error {
	var err error
	c := st.command
	if st.terms, err = s.commands.Terms(ctx, c); err != nil {
		return err
	}
	st.operation, err = s.commands.Operation(ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
	if unreadable(err) {
		return nil
	}
	return err
}

func unreadable(err error) bool {
	var parse *upstreams.ParseError
	return errors.As(err, &parse)
}

// confirmedAbsent reports whether lookups have confirmed that nothing of any
// attempt arrived. They have not where their findings are to move nothing, where the
// upstream had accepted or shown it, or where the record of an attempt may be lost.
func (s *Store) confirmedAbsent(ctx context.Context, st standing, lost commands.Doubt) (bool, error) {
	d := st.doubt
	if st.operation == nil || d.Seen || d.LastAbsentAt == nil || lost.Covers(st.command) {
		return false, nil
	}
	a := st.operation.LookupAbsence()
	if a.SettlesAfter <= 0 || d.Absents < a.Confirmations || !settledBefore(st.past, d.LastAbsentAt.Add(-a.SettlesAfter)) {
		return false, nil
	}
	newest, err := s.upstreams.Profile(ctx, st.command.UpstreamID, d.Newest)
	if unreadable(err) {
		return false, nil
	}
	return err == nil && newest.Reconciliation != upstreams.ReconciliationReportOnly, err
}

// settledBefore reports whether no attempt that left the process can have been
// under way at that moment or later, nor was accepted.
func settledBefore(past []commands.Past, at time.Time) bool {
	return !slices.ContainsFunc(past, func(p commands.Past) bool {
		sent := p.Evidence != outcome.EvidenceNotSent
		return !p.Settled && (p.GivenAnswer() == outcome.AnswerPending || sent && p.LatestEnd.After(at))
	})
}
