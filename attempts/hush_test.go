package attempts_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// TestJobsTellNothing: an error and a panic within a job, with the credential in their
// texts, leave nothing of it in the queue's rows, in any other, or in the log.
func TestJobsTellNothing(t *testing.T) {
	t.Parallel()
	const canary = "sk-canary-51f0"
	var (
		log    journal
		struck atomic.Bool
		pool   = database(t)
		up     = newLedger(t, always(201, paid))
	)
	p := startProcess(t, pool, options{
		log: &log,
		begun: func(uuid.UUID) {
			if struck.Load() {
				panic("no use for " + canary)
			}
		},
		getenv: func(name string) string { return map[string]string{"EXECUTOR_SECRET_UP": canary}[name] },
	})
	p.apply(t, brief("up", up.URL, ample, `auth: {type: bearer, token: "env:EXECUTOR_SECRET_UP"}`))
	if _, err := pool.Exec(context.Background(), `
		CREATE SEQUENCE tries;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('tries') = 1 THEN RAISE EXCEPTION 'an error with `+canary+`'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Second)
	s := order("an error", "charge")
	s.NotBefore = &soon // it comes by way of the queue
	failed := p.final(t, p.submit(t, s).ID)
	struck.Store(true)
	panicked := p.final(t, p.submit(t, order("a panic", "charge")).ID)
	if failed.State != outcome.StateSuccess || panicked.State != outcome.StateCancelled {
		t.Errorf("they ended %s and %s", failed.State, panicked.State)
	}
	if _, err := pool.Exec(context.Background(), `DROP FUNCTION refuse CASCADE`); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `SELECT count(*) AS n FROM river_job WHERE errors::text LIKE '%the log says why%'`); n != 1 {
		t.Errorf("%d jobs with an error", n)
	}
	leaks(t, pool, canary)
	log.leaks(t, "attempt could not be prepared", canary)
	log.leaks(t, "attempt panicked", canary)
}
