package attempts_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
)

// TestCommitsPerCommand guards what grouping is for: with many commands under
// way, from submit to final state, a command costs a small part of a commit. The
// count hardly depends on the machine.
func TestCommitsPerCommand(t *testing.T) {
	const (
		inFlight = 256
		rounds   = 4
		most     = 0.2
	)
	pool := testkit.Cluster(t).Database() // its own: the count is of the whole server
	adopt(t, pool)
	p := startProcess(t, pool, options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusCreated) })
	p.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 256}"))
	p.final(t, p.submit(t, submission("warm-up", "pay")).ID)
	before := transactions(t, pool)
	var all sync.WaitGroup
	for i := range inFlight {
		all.Go(func() {
			for j := range rounds {
				a, err := p.commands.Submit(context.Background(), submission(strconv.Itoa(i)+"/"+strconv.Itoa(j), "pay"))
				if err != nil {
					t.Error(err)
					return
				}
				p.commands.Ended(context.Background(), a.Command.ID)
			}
		})
	}
	all.Wait()
	perCommand := float64(transactions(t, pool)-before) / (inFlight * rounds)
	t.Logf("%.3f writing transactions a command", perCommand)
	if perCommand > most {
		t.Errorf("%.3f writing transactions a command, want at most %.1f", perCommand, most)
	}
	if n := len(up.all()); n != inFlight*rounds+1 {
		t.Errorf("%d requests for %d commands", n, inFlight*rounds+1)
	}
}

// transactions is how many transactions have written so far.
func transactions(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	var n int64
	if err := pool.QueryRow(context.Background(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
