package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
)

// notes is a database with a table that takes the numbers below 1000, of which
// each of the second table must be one when the transaction commits.
func notes(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Open(t, testkit.EmptyDatabaseURL(t))
	_, err := pool.Exec(context.Background(), `
		CREATE TABLE notes (n integer PRIMARY KEY CHECK (n < 1000));
		CREATE TABLE replies (n integer REFERENCES notes DEFERRABLE INITIALLY DEFERRED)`)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func insert(ctx context.Context, tx pgx.Tx, items []int) ([]Result[int], error) {
	results := make([]Result[int], len(items))
	for i, item := range items {
		if _, err := tx.Exec(ctx, `INSERT INTO notes VALUES ($1)`, item); err != nil {
			return nil, err
		}
		results[i].Value = item
	}
	return results, nil
}

func stored(t *testing.T, pool *pgxpool.Pool) []int {
	t.Helper()
	rows, err := pool.Query(context.Background(), `SELECT n FROM notes ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestManyCallersOnRealPostgres(t *testing.T) {
	pool := notes(t)
	var flushes atomic.Int64
	g := New(100, func(ctx context.Context, items []int) []Result[int] {
		flushes.Add(1)
		return Run(ctx, pool, items, insert)
	})
	var wg sync.WaitGroup
	var want []int
	for item := range 400 {
		want = append(want, item)
		wg.Go(func() {
			if got, err := g.Do(context.Background(), item); err != nil || got != item {
				t.Errorf("Do(%d) = %d, %v", item, got, err)
			}
		})
	}
	wg.Wait()
	g.Close()
	if got := stored(t, pool); !slices.Equal(got, want) {
		t.Errorf("%d rows, want all %d", len(got), len(want))
	}
	if n := flushes.Load(); n < 4 {
		t.Errorf("%d flushes for 400 items, want at most 100 in each", n)
	}
}

func TestAPoisonousItemSpoilsOnlyItself(t *testing.T) {
	const poison = 1000
	inReplies := func(ctx context.Context, tx pgx.Tx, items []int) ([]Result[int], error) {
		results := make([]Result[int], len(items))
		for i, item := range items {
			if item != poison {
				if _, err := tx.Exec(ctx, `INSERT INTO notes VALUES ($1)`, item); err != nil {
					return nil, err
				}
			}
			if _, err := tx.Exec(ctx, `INSERT INTO replies VALUES ($1)`, item); err != nil {
				return nil, err
			}
			results[i].Value = item
		}
		return results, nil
	}
	for name, tt := range map[string]struct {
		work     Work[int, int]
		sqlstate string
	}{
		"in its statement": {insert, "23514"},
		"at the commit":    {inReplies, "23503"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := notes(t)
			results := Run(context.Background(), pool, []int{1, 2, poison, 3}, tt.work)
			for i, r := range results {
				if i != 2 && r.Err != nil {
					t.Errorf("item %d: %v", i, r.Err)
				}
			}
			var pgErr *pgconn.PgError
			if err := results[2].Err; !errors.As(err, &pgErr) || pgErr.Code != tt.sqlstate || errors.Is(err, ErrUnknown) {
				t.Errorf("the poisonous item: %v, want SQLSTATE %s", err, tt.sqlstate)
			}
			if got := stored(t, pool); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("stored %v, want 1 2 3", got)
			}
		})
	}
}

func TestAnItemsOwnErrorLeavesTheBatchAlone(t *testing.T) {
	pool, late := notes(t), errors.New("late")
	calls := 0
	results := Run(context.Background(), pool, []int{1, 2}, func(ctx context.Context, tx pgx.Tx, items []int) ([]Result[int], error) {
		calls++
		results, err := insert(ctx, tx, items)
		results[1].Err = late
		return results, err
	})
	if results[0].Err != nil || results[1].Err != late || calls != 1 {
		t.Errorf("results %v after %d calls, want the second's own error after one", results, calls)
	}
	if got := stored(t, pool); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("stored %v, want 1 2", got)
	}
}

func TestALostCommitIsUnknownToTheWholeBatch(t *testing.T) {
	for where, want := range map[cut][]int{cutRequest: nil, cutReply: {1, 2}} {
		t.Run(string(where), func(t *testing.T) {
			direct := notes(t)
			through := testkit.Open(t, proxyURL(t, direct.Config().ConnString(), where))
			calls := 0
			results := Run(context.Background(), through, []int{1, 2}, func(ctx context.Context, tx pgx.Tx, items []int) ([]Result[int], error) {
				calls++
				return insert(ctx, tx, items)
			})
			for i, r := range results {
				if !errors.Is(r.Err, ErrUnknown) {
					t.Errorf("item %d: %v, want ErrUnknown", i, r.Err)
				}
			}
			if calls != 1 {
				t.Errorf("the batch ran %d times, want 1", calls)
			}
			settle(t, direct)
			if got := stored(t, direct); !slices.Equal(got, want) {
				t.Errorf("stored %v, want %v", got, want)
			}
		})
	}
}

// settle waits for transactions that nobody listens to any more: the lock
// queues behind them.
func settle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	err := Commit(context.Background(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), `LOCK TABLE notes IN ACCESS EXCLUSIVE MODE`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestErrorsBeforeTheCommitAreDefinite(t *testing.T) {
	ctx := context.Background()
	mine := errors.New("mine")
	for name, fn := range map[string]func(tx pgx.Tx) error{
		"an error of fn": func(pgx.Tx) error { return mine },
		"a statement's error that fn swallowed": func(tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `SELECT 1/0`)
			return nil
		},
		"the server ends the session": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
			return err
		},
		"the connection is closed, and fn does not say so": func(tx pgx.Tx) error {
			return tx.Conn().Close(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := notes(t)
			err := Commit(ctx, pool, func(tx pgx.Tx) error {
				if _, err := insert(ctx, tx, []int{1}); err != nil {
					return err
				}
				return fn(tx)
			})
			if err == nil || errors.Is(err, ErrUnknown) {
				t.Errorf("Commit = %v, want a definite error", err)
			}
			settle(t, pool)
			if got := stored(t, pool); len(got) != 0 {
				t.Errorf("stored %v, want nothing", got)
			}
		})
	}
}

func TestAPanicRollsBack(t *testing.T) {
	pool := notes(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = Commit(context.Background(), pool, func(tx pgx.Tx) error {
			_, _ = insert(context.Background(), tx, []int{1})
			panic("boom")
		})
	}()
	if got := stored(t, pool); len(got) != 0 {
		t.Errorf("stored %v, want nothing", got)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

func TestTheCallersContextDoesNotReachTheCommit(t *testing.T) {
	pool := notes(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := Commit(ctx, pool, func(tx pgx.Tx) error {
		_, err := insert(ctx, tx, []int{1})
		cancel()
		return err
	})
	if err != nil {
		t.Errorf("Commit = %v, want it done", err)
	}
	if got := stored(t, pool); !slices.Equal(got, []int{1}) {
		t.Errorf("stored %v, want 1", got)
	}
}

func TestALostRaceIsRunAgain(t *testing.T) {
	ctx := context.Background()
	for _, sqlstate := range []string{"40001", "40P01"} {
		for losses, want := range map[int]bool{1: true, tries: false} {
			pool, calls := notes(t), 0
			err := Commit(ctx, pool, func(tx pgx.Tx) error {
				calls++
				if calls <= losses {
					_, err := tx.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '%s'; END $$`, sqlstate))
					return err
				}
				_, err := insert(ctx, tx, []int{1})
				return err
			})
			if (err == nil) != want || errors.Is(err, ErrUnknown) {
				t.Errorf("%s lost %d times: %v, want success: %v", sqlstate, losses, err, want)
			}
			if calls != min(losses+1, tries) {
				t.Errorf("%s lost %d times: %d tries", sqlstate, losses, calls)
			}
		}
	}
}

func TestAnUnreachableDatabaseFailsTheBatchAtOnce(t *testing.T) {
	pool := notes(t)
	pool.Close()
	results := Run(context.Background(), pool, []int{1, 2, 3}, func(context.Context, pgx.Tx, []int) ([]Result[int], error) {
		t.Error("the work was begun")
		return nil, nil
	})
	for i, r := range results {
		if r.Err == nil || errors.Is(r.Err, ErrUnknown) {
			t.Errorf("item %d: %v, want a definite error", i, r.Err)
		}
	}
}

func TestABrokenConnectionIsNotReplayedItemByItem(t *testing.T) {
	pool, calls := notes(t), 0
	results := Run(context.Background(), pool, []int{1, 2, 3}, func(ctx context.Context, tx pgx.Tx, _ []int) ([]Result[int], error) {
		calls++
		return nil, tx.Conn().Close(ctx)
	})
	if calls != 1 {
		t.Errorf("the batch was tried %d times, want 1", calls)
	}
	for i, r := range results {
		if r.Err == nil || errors.Is(r.Err, ErrUnknown) {
			t.Errorf("item %d: %v, want a definite error", i, r.Err)
		}
	}
}

func TestCertain(t *testing.T) {
	fatal := func(code string) error {
		return &pgconn.PgError{SeverityUnlocalized: "FATAL", Code: code}
	}
	refusal := func(code string) error {
		return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code}
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{pgx.ErrTxCommitRollback, true},
		{refusal("23503"), true},
		{refusal("40001"), true},
		{fmt.Errorf("wrapped: %w", refusal("23503")), true},
		{fatal("57P01"), false}, // administrator's shutdown
		{fatal("57P02"), false}, // crash
		{refusal("57P01"), false},
		{refusal("08006"), false},
		{refusal("08P01"), false}, // what poolers say of themselves
		{refusal("40003"), false}, // statement completion unknown
		{&pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "XX000"}, false},
		{&pgconn.PgError{Code: "23503"}, false}, // no severity: not from a server
		{io.ErrUnexpectedEOF, false},
		{pgconn.ErrConnClosed, false},
		{context.DeadlineExceeded, false},
		{pgx.ErrTxClosed, false},
		{errors.New("something new"), false},
	} {
		if got := certain(tt.err); got != tt.want {
			t.Errorf("certain(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestPauseEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	for range 100 {
		if !pause(ctx, tries) {
			return
		}
	}
	t.Error("pause never heeds the context")
}
