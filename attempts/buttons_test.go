package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"executor/outcome"
)

// TestTheQueuesButtons presses what an interface of the queue offers, cancel, retry
// and delete, on every job while its request is on the wire, and again while it waits.
// No request is cut off, none is sent twice, and every command ends.
func TestTheQueuesButtons(t *testing.T) {
	t.Parallel()
	pool := database(t)
	pressed := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if hang(r, pressed) {
			reply(w, 201, paid)
		}
	})
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 20}"))
	var ids []uuid.UUID
	for i := range 60 {
		ids = append(ids, front.submit(t, order(fmt.Sprintf("k%d", i), []string{"pay", "charge"}[i%2])).ID)
	}
	a := startProcess(t, pool, options{leaseTTL: 5 * time.Second})
	eventually(t, "as many on the wire as may be", func() bool { return len(up.all()) == 20 })
	press(t, pool)
	if n := len(up.all()); n > 20 {
		t.Errorf("%d requests on the wire, 20 are allowed at once", n)
	}
	close(pressed)
	for _, id := range ids {
		if c := front.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
			t.Errorf("%s ended %s after %d attempts", c.Key, c.State, c.Attempts)
		}
	}
	a.stop()
	up.verify(t, pool)
}

// press uses each button on each job.
func press(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := pool.Query(t.Context(), `SELECT id FROM river_job`)
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(jobs) == 0 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	buttons := []func(context.Context, int64) (*rivertype.JobRow, error){client.JobCancel, client.JobRetry, client.JobCancel, client.JobDelete}
	for _, button := range buttons {
		for _, id := range jobs {
			_, err := button(t.Context(), id)
			if err != nil && !errors.Is(err, rivertype.ErrNotFound) && !errors.Is(err, rivertype.ErrJobRunning) {
				t.Fatal(err)
			}
		}
	}
}
