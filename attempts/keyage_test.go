package attempts_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/outcome"
)

// aging is a profile whose upstream remembers keys for four seconds.
func aging(name, baseURL, initial string) string {
	source := strings.Replace(brief(name, baseURL, short, ""), "retention: 24h", "retention: 4s, margin: 100ms", 1)
	source = strings.Replace(source, "initial: 20ms, max: 100ms", "initial: "+initial+", max: "+initial, 1)
	return strings.Replace(source, "max_attempts: 4", "max_attempts: 100", 1)
}

// keyDied waits until the key that the first attempt used is forgotten.
func keyDied(t testing.TB, pool *pgxpool.Pool, id uuid.UUID) {
	t.Helper()
	eventually(t, "the end of the key", func() bool {
		return query[struct{ Dead bool }](t, pool, `
			SELECT clock_timestamp() > started_at + interval '4 seconds' AS dead FROM attempts WHERE command_id = $1 AND number = 1`, id)[0].Dead
	})
}

// TestKeyDies: after a doubt nothing is sent once the upstream may have forgotten
// the key, whether we could not reach it meanwhile or were told to wait.
func TestKeyDies(t *testing.T) {
	t.Parallel()
	pool := database(t)
	p := startProcess(t, pool, options{})
	ctx := context.Background()

	var unreachable *ledger
	unreachable = newLedger(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		_ = unreachable.Listener.Close()
		drop(w)
	})
	p.apply(t, aging("up", unreachable.URL, "300ms"))
	away := p.submit(t, order("unreachable", "pay")).ID

	paused := newLedger(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		if _, err := p.ups.Pause(ctx, "default", "paused", audit.By{Actor: "test", Reason: "test"}); err != nil {
			t.Error(err)
		}
		drop(w)
	})
	p.apply(t, aging("paused", paused.URL, "300ms"))
	s := order("paused", "pay")
	s.Upstream = "paused"
	held := p.submit(t, s).ID
	eventually(t, "the doubt", func() bool { return len(p.attempts(t, held)) == 1 && p.attempts(t, held)[0].EndedAt != nil })
	keyDied(t, pool, held)
	if _, err := p.ups.Resume(ctx, "default", "paused", audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}

	for id, up := range map[uuid.UUID]*ledger{away: unreachable, held: paused} {
		c := p.final(t, id)
		if c.State != outcome.StateUnresolved || c.Outcome.StoppedBy != outcome.ReasonAmbiguous || len(up.all()) != 1 {
			t.Errorf("%s ended %s, stopped by %s, after %d requests: %s", c.Key, c.State, c.Outcome.StoppedBy, len(up.all()), evidences(p.attempts(t, id)))
		}
	}
	if list := p.attempts(t, away); len(list) < 2 || list[1].Evidence != outcome.EvidenceNotSent {
		t.Errorf("attempts on record: %s", evidences(list))
	}
}
