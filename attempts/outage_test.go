package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestDatabaseOutage: the database goes away while requests are on the wire.
// Submits say so; the answers that come meanwhile are kept and recorded
// afterwards; nothing is sent twice, and what waited goes on without hands.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testkit.Server){"stop": (*testkit.Server).Stop, "crash": (*testkit.Server).Crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.Cluster(t)
			pool := server.Database()
			if _, err := attempts.NewDeployment(pool, "test", nil).Adopt(context.Background(), audit.By{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
				if hang(r, gone) {
					reply(w, 201, paid)
				}
			})
			seen := &set{}
			note := func(id uuid.UUID) { seen.has(id) }
			p := startProcess(t, testkit.Open(t, server.URL), options{leaseTTL: 5 * time.Second, seen: note})
			p.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 8}"))
			var ids []uuid.UUID
			for i := range 24 {
				ids = append(ids, p.submit(t, order(fmt.Sprintf("k%d", i), []string{"pay", "charge"}[i%2])).ID)
			}
			eventually(t, "requests on the wire", func() bool { return len(up.all()) == 8 })

			end(server)
			close(gone)
			eventually(t, "answers", func() bool { return seen.size() == 8 })
			if _, err := p.commands.Submit(context.Background(), order("meanwhile", "pay")); !errors.Is(err, commands.ErrUnavailable) {
				t.Errorf("submit without a database: %v", err)
			}
			server.Start()

			for _, id := range ids {
				if c := p.final(t, id); c.State != outcome.StateSuccess {
					t.Errorf("%s ended %s: %s", c.Key, c.State, evidences(p.attempts(t, id)))
				}
			}
			for _, a := range up.all() {
				if n := len(up.of(a.Order)); n != 1 {
					t.Errorf("%s was sent %d times", a.Order, n)
				}
			}
			again, err := p.commands.Submit(context.Background(), order("meanwhile", "pay"))
			if err != nil {
				t.Fatal(err)
			}
			p.final(t, again.Command.ID)
			up.verify(t, pool)
		})
	}
}

// TestStalledConnections: a connection of the database stands still without an
// end in the middle of a statement, as after a failover that moved its address.
// New ones work, and the process goes on with them in time.
func TestStalledConnections(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"renewing":   "UPDATE leases l SET renewed_at",
		"refreshing": "FROM upstreams ORDER BY id",
		"reading":    "FROM commands c JOIN command_requests r ON r.command_id = c.id WHERE c.id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			up := newLedger(t, always(201, paid))
			p, proxy := startBehind(t, pool, up, options{leaseTTL: shortLease, drain: time.Second})
			defer proxy.Cut() // what stands still would hold up the pool's end
			stalled := proxy.StallAt(statement)
			front := startProcess(t, pool, options{idle: true})
			front.apply(t, brief("new", up.URL, ample, "")) // it is to be noticed
			s := order("k", "charge")
			s.Upstream = "new"
			id := front.submit(t, s).ID
			<-stalled
			c := front.final(t, id)
			if c.State != outcome.StateSuccess || len(p.attempts(t, c.ID)) != 1 {
				t.Errorf("ended %s", c.State)
			}
			up.verify(t, pool)
		})
	}
}
