package operators

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/groupcommit"
)

// Config says what a Store works with.
type Config struct {
	Pool *pgxpool.Pool
	Hash *argon2id.Params // of new passwords; nil: those that OWASP recommends
}

// Store keeps the operators. A process has one, since it bounds how much memory
// the hashing takes.
type Store struct {
	pool   *pgxpool.Pool
	hasher *hasher
	crowd  chan struct{} // who is signing in
}

// NewStore builds a Store.
func NewStore(c Config) (*Store, error) {
	h, err := newHasher(c.Hash)
	if err != nil {
		return nil, err
	}
	return &Store{pool: c.Pool, hasher: h, crowd: make(chan struct{}, maxCrowd)}, nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// operatorColumns make an Operator of a row of operators o.
const operatorColumns = `o.id, o.name, o.password_hash IS NOT NULL AS has_password, o.epoch, o.created_at, o.disabled_at,
	(SELECT coalesce(jsonb_agg(jsonb_build_object('tenant', g.tenant, 'role', g.role) ORDER BY g.tenant), '[]')
		FROM operator_roles g WHERE g.operator_id = o.id) AS roles`

// readOne reads the operator that a condition names.
func readOne(ctx context.Context, q querier, condition string, args ...any) (Operator, error) {
	rows, _ := q.Query(ctx, `SELECT `+operatorColumns+` FROM operators o WHERE `+condition, args...)
	o, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Operator])
	if errors.Is(err, pgx.ErrNoRows) {
		return Operator{}, ErrUnknown
	}
	if err != nil {
		return Operator{}, fmt.Errorf("read operator: %w", err)
	}
	return o, nil
}

// Get reads an operator.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (Operator, error) {
	return readOne(ctx, s.pool, `o.id = $1`, id)
}

const byName = `lower(o.name COLLATE "C") = lower($1::text COLLATE "C")`

// ByName reads the operator of a name, in any case.
func (s *Store) ByName(ctx context.Context, name string) (Operator, error) {
	o, err := readOne(ctx, s.pool, byName, printable(name))
	if errors.Is(err, ErrUnknown) {
		return o, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	return o, err
}

// List reads those with a role in the tenant, by name, disabled ones too.
func (s *Store) List(ctx context.Context, tenant string) ([]Operator, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT `+operatorColumns+` FROM operators o
		WHERE EXISTS (SELECT FROM operator_roles r WHERE r.operator_id = o.id AND r.tenant = $1)
		ORDER BY lower(o.name COLLATE "C")`, tenant)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Operator])
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	return list, nil
}

// transactionBound is how long a transaction may take up to its COMMIT.
const transactionBound = 30 * time.Second

func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, transactionBound)
	defer cancel()
	return groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// taken reports whether a unique constraint refused a row.
func taken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}

// printable makes any text fit for a text column.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}
