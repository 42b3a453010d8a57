package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Report is what Verify found.
type Report struct {
	Chains []Chain // by tenant
}

// Sound reports whether every chain holds.
func (r Report) Sound() bool {
	return !slices.ContainsFunc(r.Chains, func(c Chain) bool { return c.Problem != nil })
}

// Chain is one tenant's.
type Chain struct {
	Tenant  string
	Entries int64 // that hold, from the first on
	Head    Pin   // the last of them; what to note for the next time
	Problem *Problem
}

// Problem is the first thing that is wrong with a chain. What comes after it may
// be wrong too.
type Problem struct {
	Number int64 // the first bad entry
	Kind   ProblemKind
	Detail string
}

// ProblemKind is what is wrong with a chain.
type ProblemKind string

const (
	ProblemEdited     ProblemKind = "edited"      // the entry is not as it was written
	ProblemMissing    ProblemKind = "missing"     // an entry in between is gone
	ProblemEndMissing ProblemKind = "end_missing" // the last entries are gone
	ProblemReplaced   ProblemKind = "replaced"    // the entry is sound in itself but is not the one that stood there
	ProblemHeadLost   ProblemKind = "head_lost"   // the head is gone, or older than the entries
	ProblemFormat     ProblemKind = "format"      // written by a newer version, or edited
)

// verifyPage is how many entries are in memory at once.
const verifyPage = 500

// Verify reads the chain of a tenant, or with "" of every tenant, and checks each
// entry, its place and the head, all as of one moment for each tenant. Pins are
// entries that must be there as they were noted; only they tell when a chain was
// cut or written anew together with its head.
func Verify(ctx context.Context, pool *pgxpool.Pool, tenant string, pins ...Pin) (Report, error) {
	tenants := []string{tenant}
	if tenant == "" {
		var err error
		if tenants, err = tenantsOf(ctx, pool, pins); err != nil {
			return Report{}, err
		}
	}
	var report Report
	for _, name := range tenants {
		c, err := verifyChain(ctx, pool, name, pins)
		if err != nil {
			return Report{}, fmt.Errorf("verify the audit of tenant %s: %w", name, err)
		}
		report.Chains = append(report.Chains, c)
	}
	return report, nil
}

// tenantsOf lists everybody of whom there is an entry, a head or a pin.
func tenantsOf(ctx context.Context, pool *pgxpool.Pool, pins []Pin) ([]string, error) {
	pinned := make([]string, len(pins))
	for i, p := range pins {
		pinned[i] = p.Tenant
	}
	rows, err := pool.Query(ctx, `
		SELECT tenant FROM audit_heads UNION SELECT DISTINCT tenant FROM audit UNION SELECT unnest($1::text[])
		ORDER BY tenant`, pinned)
	if err != nil {
		return nil, fmt.Errorf("list the tenants of the audit: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func verifyChain(ctx context.Context, pool *pgxpool.Pool, tenant string, pins []Pin) (Chain, error) {
	w := walk{last: Pin{Tenant: tenant, Hash: beginning(tenant)}}
	for _, p := range pins {
		if p.Tenant == tenant {
			w.pins = append(w.pins, p)
		}
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		for w.problem == nil {
			page, err := readPage(ctx, tx, tenant, w.last.Number)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				return w.end(ctx, tx)
			}
			w.take(page)
		}
		return nil
	})
	return Chain{Tenant: tenant, Entries: w.last.Number, Head: w.last, Problem: w.problem}, err
}

func readPage(ctx context.Context, tx pgx.Tx, tenant string, after int64) ([]row, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM audit WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3`,
		tenant, after, verifyPage)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[row])
}

// walk goes along one chain.
type walk struct {
	last    Pin // the last entry that holds
	pins    []Pin
	problem *Problem
}

func (w *walk) take(page []row) {
	for _, r := range page {
		if w.problem = w.check(r); w.problem != nil {
			return
		}
		w.last.Number, w.last.Hash = r.Number, r.Hash
	}
}

func (w *walk) check(r row) *Problem {
	due := w.last.Number + 1
	switch {
	case r.Number != due:
		return &Problem{due, ProblemMissing, fmt.Sprintf("entries %d to %d are gone", due, r.Number-1)}
	case r.Format != formatNow:
		return &Problem{due, ProblemFormat, fmt.Sprintf("the entry has format %d, which this version cannot check", r.Format)}
	case !bytes.Equal(r.sum(), r.Hash):
		return &Problem{due, ProblemEdited, "the entry does not give its own hash: it was edited"}
	case !bytes.Equal(r.PreviousHash, w.last.Hash) && due == 1:
		return &Problem{due, ProblemReplaced, "the entry is not the beginning of this tenant's chain"}
	case !bytes.Equal(r.PreviousHash, w.last.Hash): // this one is as it was written, so the one before is not
		return &Problem{due - 1, ProblemReplaced, fmt.Sprintf("entry %d follows another entry than the one that stands here now", due)}
	}
	for _, p := range w.pins {
		if p.Number == due && !bytes.Equal(p.Hash, r.Hash) {
			return &Problem{due, ProblemReplaced, "the entry is not the one that was pinned: it, or one before it, was written anew"}
		}
	}
	return nil
}

// end compares the last entry with the head and with what was pinned.
func (w *walk) end(ctx context.Context, tx pgx.Tx) error {
	var head Pin
	err := tx.QueryRow(ctx, `SELECT number, hash FROM audit_heads WHERE tenant = $1`, w.last.Tenant).Scan(&head.Number, &head.Hash)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	w.problem = w.compare(head, err == nil)
	return nil
}

func (w *walk) compare(head Pin, found bool) *Problem {
	last := w.last.Number
	for _, p := range w.pins {
		if p.Number > last {
			return &Problem{last + 1, ProblemEndMissing, fmt.Sprintf("entry %d was pinned, the chain ends with %d", p.Number, last)}
		}
	}
	switch {
	case !found && last == 0:
		return nil
	case !found:
		return &Problem{last, ProblemHeadLost, "the tenant's head is gone: whether later entries are cannot be told"}
	case head.Number > last:
		return &Problem{last + 1, ProblemEndMissing, fmt.Sprintf("the head is entry %d, the chain ends with %d", head.Number, last)}
	case head.Number < last:
		return &Problem{head.Number + 1, ProblemHeadLost, fmt.Sprintf("the head is entry %d, the chain goes on to %d: the head was set back", head.Number, last)}
	case !bytes.Equal(head.Hash, w.last.Hash):
		return &Problem{last, ProblemReplaced, "the last entry is not the one that the head names"}
	default:
		return nil
	}
}
