package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"executor/internal/postgres"
)

const (
	defaultPage = 50
	// MaxPage bounds a page of a list.
	MaxPage = 100
	// ScanPage is a Scan that a page of a person's list can wait for.
	ScanPage = 10000
)

// Page is a page of a list, newest first.
type Page struct {
	Commands []Command
	Next     string   // cursor of the next page; "" at the end
	Scanned  *Scanned // set where Filter.Scan ended the page before it was full
}

// Scanned is how far a page looked before it gave up for this time.
type Scanned struct {
	Commands int       // how many it looked at
	Until    time.Time // the oldest of them was accepted then
}

// List reads a page of commands, newest first, and the cursor of the next page
// ("" at the end). Pages are by key, not by offset: what is submitted meanwhile
// neither repeats nor hides a line.
func (s *Store) List(ctx context.Context, f Filter) ([]Command, string, error) {
	page, err := s.Page(ctx, f)
	return page.Commands, page.Next, err
}

// Page is List that says how far it looked.
func (s *Store) Page(ctx context.Context, f Filter) (Page, error) {
	if err := f.check(); err != nil {
		return Page{}, err
	}
	f, found, err := s.narrow(ctx, f)
	switch {
	case err != nil || found != nil && len(found) == 0:
		return Page{}, err
	case f.Scan > 0 && found == nil && f.Key == "":
		return s.scan(ctx, f)
	default:
		return s.all(ctx, f, found)
	}
}

func (f Filter) limit() int {
	if f.Limit <= 0 {
		return defaultPage
	}
	return min(f.Limit, MaxPage)
}

// all looks at every command that the filter's indexes give, or at the ids alone
// where there are any.
func (s *Store) all(ctx context.Context, f Filter, ids []uuid.UUID) (Page, error) {
	w, err := f.indexed()
	if err != nil {
		return Page{}, err
	}
	if ids != nil {
		w.And("c.id = ANY(?)", ids)
	}
	f.unindexed(w, false)
	where, args := w.Build()
	limit := f.limit()
	list, err := s.read(ctx, fmt.Sprintf(`%s ORDER BY c.created_at DESC, c.id DESC LIMIT %d`, where, limit+1), args...)
	if err != nil || len(list) <= limit {
		return Page{Commands: list}, err
	}
	list = list[:limit]
	return Page{Commands: list, Next: postgres.Cursor(list[limit-1].CreatedAt, list[limit-1].ID)}, nil
}

// scan looks at the newest commands that an index gives, so many and no more, and
// takes of them what the filter asks for. All of it is one statement: where the page
// ends and where the scan ends are seen in one snapshot, so that the next page takes
// up exactly there.
func (s *Store) scan(ctx context.Context, f Filter) (Page, error) {
	indexed, err := f.indexed()
	if err != nil {
		return Page{}, err
	}
	limit := f.limit()
	source, _ := indexed.Build()
	f.unindexed(indexed, true)
	all, args := indexed.Build()
	rest := all[len(source):] // what the filter adds to the index's conditions
	const newest = `ORDER BY c.created_at DESC, c.id DESC`
	var (
		ids  []uuid.UUID
		at   *time.Time
		last *uuid.UUID
	)
	err = s.pool.QueryRow(ctx, fmt.Sprintf(`
		WITH page AS (
			SELECT c.id, c.created_at FROM (SELECT c.* FROM commands c %[1]s %[2]s LIMIT %[3]d) c
			WHERE true%[4]s %[2]s LIMIT %[5]d
		)
		SELECT ARRAY(SELECT c.id FROM page c %[2]s), last.created_at, last.id
		FROM (SELECT count(*) AS n FROM page) found
		LEFT JOIN (
			SELECT c.created_at, c.id FROM commands c %[1]s AND (SELECT count(*) FROM page) < %[5]d %[2]s OFFSET %[3]d - 1 LIMIT 1
		) last ON true`, source, newest, f.Scan, rest, limit+1), args...).Scan(&ids, &at, &last)
	if err != nil {
		return Page{}, unavailable("scan commands", err)
	}
	return s.scanned(ctx, f, ids, at, last)
}

// scanned reads the commands of a page that was found.
func (s *Store) scanned(ctx context.Context, f Filter, ids []uuid.UUID, at *time.Time, last *uuid.UUID) (Page, error) {
	limit := f.limit()
	full := len(ids) > limit
	if full {
		ids = ids[:limit]
	}
	var page Page
	if len(ids) > 0 {
		var err error
		page.Commands, err = s.read(ctx, `WHERE c.tenant = $1 AND c.id = ANY($2) ORDER BY c.created_at DESC, c.id DESC`, f.Tenant, ids)
		if err != nil {
			return Page{}, err
		}
	}
	switch {
	case full:
		end := page.Commands[len(page.Commands)-1]
		page.Next = postgres.Cursor(end.CreatedAt, end.ID)
	case last != nil:
		page.Next, page.Scanned = postgres.Cursor(*at, *last), &Scanned{Commands: f.Scan, Until: *at}
	}
	return page, nil
}
