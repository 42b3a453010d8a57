package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// foundBound is up to how many commands are taken from the indexes of names. What
	// more have in common is no name: it is looked for along the time.
	foundBound = 1000
	// metadataSample is how many of the newest commands say which members metadata has.
	metadataSample = 500
	// metadataMembers bounds in how many of them a text is looked for.
	metadataMembers = 20
)

// narrow finds the commands that a filter names, by the indexes of names. The ids it
// returns take the place of the fields that it clears; nil is no ids, and an empty
// list is nothing found.
//
// A Search is, exactly: an id, an idempotency key, a reference that an attempt, a
// finding or a lookup brought, a member of the metadata as name=value, or the value
// of any member that the newest commands have. What is none of these is taken as the
// beginning of a key: of all keys, where the database sorts text by its bytes,
// otherwise of those among the commands that Scan bounds.
func (s *Store) narrow(ctx context.Context, f Filter) (Filter, []uuid.UUID, error) {
	if f.Search = strings.TrimSpace(f.Search); f.Search != "" {
		return s.narrowSearch(ctx, f)
	}
	if f.Scan <= 0 || f.Reference == "" && len(f.Metadata) == 0 {
		return f, nil, nil
	}
	var wanted []string
	if len(f.Metadata) > 0 {
		wanted = []string{encodeJSON(f.Metadata)}
	}
	if f.Reference != "" { // the rarer of the two
		wanted = nil
	}
	ids, err := s.named(ctx, f.Tenant, names{reference: f.Reference, metadata: wanted})
	switch {
	case err != nil:
		return f, nil, err
	case len(ids) > foundBound:
		return f, nil, nil
	case f.Reference != "":
		f.Reference = ""
	default:
		f.Metadata = nil
	}
	return f, ids, nil
}

func (s *Store) narrowSearch(ctx context.Context, f Filter) (Filter, []uuid.UUID, error) {
	if f.Scan <= 0 {
		f.Scan = ScanPage
	}
	wanted, err := s.membersLike(ctx, f.Tenant, f.Search)
	if err != nil {
		return f, nil, err
	}
	ids, err := s.named(ctx, f.Tenant, names{id: f.Search, key: f.Search, reference: f.Search, metadata: wanted})
	switch {
	case err != nil:
		return f, nil, err
	case len(ids) > foundBound:
		f.Search, f.anyMember = "", wanted
		return f, nil, nil
	case len(ids) > 0:
		f.Search = ""
		return f, ids, nil
	}
	ids, known, err := s.keysFrom(ctx, f.Tenant, f.Search)
	if err != nil || !known || len(ids) > foundBound {
		return f, nil, err
	}
	f.Search = ""
	return f, ids, nil
}

// names are what a command may be called; empty ones name nothing.
type names struct {
	id        string
	key       string
	reference string
	metadata  []string // JSON objects, any of which it has
}

// named finds commands by their names, at most one more than foundBound.
func (s *Store) named(ctx context.Context, tenant string, n names) ([]uuid.UUID, error) {
	var id *uuid.UUID
	if parsed, err := uuid.Parse(n.id); err == nil {
		id = &parsed
	}
	// The planner takes a value of metadata for common, and the table for quicker than
	// the index. Where it is rare that reads everything.
	batch := &pgx.Batch{}
	batch.Queue(`SET LOCAL enable_seqscan = off`)
	ids := []uuid.UUID{}
	batch.Queue(fmt.Sprintf(`
		SELECT id FROM (
			SELECT id FROM commands WHERE tenant = $1 AND id = $2
			UNION SELECT id FROM commands WHERE tenant = $1 AND idempotency_key = $3
			UNION (SELECT command_id FROM attempts WHERE tenant = $1 AND reference = $4 AND reference <> '' LIMIT %[1]d)
			UNION (SELECT command_id FROM findings WHERE tenant = $1 AND reference = $4 AND reference <> '' LIMIT %[1]d)
			UNION (SELECT command_id FROM lookups WHERE tenant = $1 AND reference = $4 AND reference <> '' LIMIT %[1]d)
			UNION (
				SELECT found.command_id FROM unnest($5::jsonb[]) wanted, LATERAL (
					SELECT command_id FROM command_requests
					WHERE tenant = $1 AND metadata <> '{}'::jsonb AND metadata @> wanted LIMIT %[1]d) found)
		) named LIMIT %[1]d`, foundBound+1), tenant, id, n.key, n.reference, n.metadata).Query(func(rows pgx.Rows) (err error) {
		ids, err = pgx.AppendRows(ids, rows, pgx.RowTo[uuid.UUID])
		return err
	})
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return nil, unavailable("search commands", err)
	}
	return ids, nil
}

// membersLike are the members of metadata that a text may stand for.
func (s *Store) membersLike(ctx context.Context, tenant, text string) ([]string, error) {
	var members []string
	if name, value, ok := strings.Cut(text, "="); ok {
		members = append(members, encodeJSON(map[string]string{strings.TrimSpace(name): strings.TrimSpace(value)}))
	}
	rows, err := s.pool.Query(ctx, `
		SELECT DISTINCT jsonb_object_keys(r.metadata)
		FROM (SELECT id FROM commands WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2) c
		JOIN command_requests r ON r.command_id = c.id
		WHERE jsonb_typeof(r.metadata) = 'object' LIMIT $3`, tenant, metadataSample, metadataMembers)
	if err != nil {
		return nil, unavailable("read the members of metadata", err)
	}
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name}, func() error {
		members = append(members, encodeJSON(map[string]string{name: text}))
		return nil
	})
	if err != nil {
		return nil, unavailable("read the members of metadata", err)
	}
	return members, nil
}

// keysFrom finds commands by the beginning of their keys, at most one more than
// foundBound. It does not know where the index of keys is not sorted by bytes.
func (s *Store) keysFrom(ctx context.Context, tenant, prefix string) (ids []uuid.UUID, known bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT datcollate ~ '^(C|POSIX)(\.|$)' AND coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') <> 'i'
		FROM pg_database d WHERE datname = current_database()`).Scan(&known)
	if err != nil || !known {
		return nil, false, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id FROM commands WHERE tenant = $1 AND idempotency_key >= $2 AND idempotency_key < $3 LIMIT $4`,
		tenant, prefix, prefix+"\x7f", foundBound+1) // keys are printable ASCII
	if err != nil {
		return nil, false, unavailable("search keys", err)
	}
	ids, err = pgx.AppendRows([]uuid.UUID{}, rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, false, unavailable("search keys", err)
	}
	return ids, true, nil
}
