package groupcommit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Work does what a batch asks for inside a transaction. It returns one result
// for each item; an item's own error there leaves the others and the commit
// alone. It may be called several times with the same item.
type Work[T, R any] func(ctx context.Context, tx pgx.Tx, items []T) ([]Result[R], error)

// Run executes a batch in one transaction; it is what a Group's flush does.
//
// If work or the commit fails for certain, each item is run again in a transaction
// of its own, so that one poisonous item spoils only itself. If the commit is
// unknown it is so for every item. If the database cannot be reached, every item
// gets that error at once.
func Run[T, R any](ctx context.Context, pool *pgxpool.Pool, items []T, work Work[T, R]) []Result[R] {
	results, disconnected, err := runOnce(ctx, pool, items, work)
	switch {
	case err == nil:
		return results
	case len(items) == 1, disconnected, errors.Is(err, ErrUnknown):
		return failAll[R](len(items), err)
	default:
		return oneByOne(ctx, pool, items, work)
	}
}

func oneByOne[T, R any](ctx context.Context, pool *pgxpool.Pool, items []T, work Work[T, R]) []Result[R] {
	results := make([]Result[R], 0, len(items))
	for i := range items {
		result, disconnected, err := runOnce(ctx, pool, items[i:i+1], work)
		switch {
		case err == nil:
			results = append(results, result...)
		case disconnected: // the rest would only wait for the same
			return append(results, failAll[R](len(items)-i, err)...)
		default:
			results = append(results, Result[R]{Err: err})
		}
	}
	return results
}

func runOnce[T, R any](ctx context.Context, pool *pgxpool.Pool, items []T, work Work[T, R]) (results []Result[R], disconnected bool, err error) {
	disconnected, err = commit(ctx, pool, func(tx pgx.Tx) error {
		var err error
		results, err = work(ctx, tx, items)
		if err == nil && len(results) != len(items) {
			err = fmt.Errorf("%d results for %d items", len(results), len(items))
		}
		return err
	})
	return results, disconnected, err
}
