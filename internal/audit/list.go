package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultPage = 50
	// MaxPage bounds a page of List.
	MaxPage = 100
)

// ErrBadCursor: a cursor that List did not give out.
var ErrBadCursor = errors.New("unknown cursor")

// Filter narrows a list; Tenant is required, zero fields do not narrow.
type Filter struct {
	Tenant        string
	Command       *uuid.UUID
	Actor         string
	Action        string
	Subject       string // of what is no command
	After, Before *time.Time
	Cursor        string
	Limit         int
}

// List reads a page of a tenant's entries, newest first, and the cursor of the
// next page ("" at the end).
func List(ctx context.Context, pool *pgxpool.Pool, f Filter) ([]Recorded, string, error) {
	limit := min(f.Limit, MaxPage)
	if limit <= 0 {
		limit = defaultPage
	}
	where, args, err := f.conditions()
	if err != nil {
		return nil, "", err
	}
	rows, err := pool.Query(ctx, `SELECT `+columns+` FROM audit WHERE `+where+
		fmt.Sprintf(` ORDER BY number DESC LIMIT %d`, limit+1), args...)
	if err != nil {
		return nil, "", fmt.Errorf("read the audit: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		return nil, "", fmt.Errorf("read the audit: %w", err)
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatInt(found[limit-1].Number, 10)
	}
	list := make([]Recorded, len(found))
	for i, r := range found {
		list[i] = r.recorded()
	}
	return list, next, nil
}

// conditions is the filter as a WHERE with its arguments.
func (f Filter) conditions() (string, []any, error) {
	where, args := []string{"tenant = $1"}, []any{f.Tenant}
	and := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf("%s $%d", condition, len(args)))
	}
	if f.Command != nil {
		and("command_id =", *f.Command)
	}
	if f.Actor != "" {
		and("actor =", f.Actor)
	}
	if f.Action != "" {
		and("action =", f.Action)
	}
	if f.Subject != "" {
		and("subject <> '' AND subject =", f.Subject) // for the index
	}
	if f.After != nil {
		and("at >", *f.After)
	}
	if f.Before != nil {
		and("at <", *f.Before)
	}
	if f.Cursor != "" {
		number, err := strconv.ParseInt(f.Cursor, 10, 64)
		if err != nil || number < 1 {
			return "", nil, ErrBadCursor
		}
		and("number <", number)
	}
	return strings.Join(where, " AND "), args, nil
}
