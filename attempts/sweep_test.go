package attempts_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// TestBrokenQueue: hundreds of commands are under way when the queue's rows are
// deleted, discarded, or left running by clients that do not run them. Each
// command is sent once all the same.
func TestBrokenQueue(t *testing.T) {
	t.Parallel()
	pool := database(t)
	struck := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if hang(r, struck) {
			reply(w, 201, paid)
		}
	})
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 40}"))
	var ids []uuid.UUID
	for i := range 120 {
		ids = append(ids, front.submit(t, order(fmt.Sprintf("k%d", i), []string{"pay", "charge"}[i%2])).ID)
	}
	a := startProcess(t, pool, options{leaseTTL: 5 * time.Second})
	b := startProcess(t, pool, options{leaseTTL: 5 * time.Second})
	eventually(t, "some of them on the wire", func() bool { return len(up.all()) >= 20 })
	for _, sql := range []string{
		`DELETE FROM river_job WHERE id % 4 = 0`,
		`UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE id % 4 = 1`,
		`UPDATE river_job SET state = 'running', attempted_at = now(), attempted_by = '{dead}' WHERE id % 4 = 2 AND state = 'available'`,
		`UPDATE river_job SET state = 'running', attempted_at = now(),
			attempted_by = ARRAY[(SELECT instance FROM leases WHERE ended_at IS NULL ORDER BY epoch LIMIT 1)]
		WHERE id % 4 = 3 AND state = 'available'`,
		`DELETE FROM river_queue`,
		`DELETE FROM river_leader`,
	} {
		if _, err := pool.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	close(struck)
	for _, id := range ids {
		if c := front.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
			t.Errorf("%s ended %s after %d attempts", c.Key, c.State, c.Attempts)
		}
	}
	a.stop()
	b.stop()
	up.verify(t, pool)
}
