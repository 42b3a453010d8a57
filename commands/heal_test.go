package commands_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestHeal: a pending command whose keeper is gone gets a new one, and one that
// is looked after is left alone, whatever happened to the queue's rows.
func TestHeal(t *testing.T) {
	r := newRig(t)
	live, ended := r.lease(t, "live", true), r.lease(t, "dead", false)
	job := func(set string) func(uuid.UUID) {
		return func(id uuid.UUID) {
			r.exec(t, `UPDATE river_job SET `+set+` WHERE id = (SELECT job_id FROM commands WHERE id = $1)`, id)
		}
	}
	claim := func(epoch int64) func(uuid.UUID) {
		return func(id uuid.UUID) {
			r.exec(t, `UPDATE commands SET job_id = NULL, claimed_by = $2 WHERE id = $1`, id, epoch)
		}
	}
	const ran = `attempted_at = now(), attempted_by = `
	tests := []struct {
		name   string
		happen func(id uuid.UUID)
		healed bool
	}{
		{"job available", job(`state = 'available'`), false},
		{"job scheduled", job(`state = 'scheduled', scheduled_at = now() + interval '1 hour'`), false},
		{"job retryable", job(`state = 'retryable'`), false},
		{"job running here", job(`state = 'running', ` + ran + `ARRAY['dead', 'live']`), false},
		{"claimed by the living", claim(live), false},
		{"job deleted", func(id uuid.UUID) {
			r.exec(t, `DELETE FROM river_job WHERE id = (SELECT job_id FROM commands WHERE id = $1)`, id)
		}, true},
		{"job discarded", job(`state = 'discarded', finalized_at = now()`), true},
		{"job cancelled", job(`state = 'cancelled', finalized_at = now()`), true},
		{"job completed", job(`state = 'completed', finalized_at = now()`), true},
		{"job running under the dead", job(`state = 'running', ` + ran + `ARRAY['live', 'dead']`), true},
		{"job running under nobody", job(`state = 'running', ` + ran + `ARRAY['unheard of']`), true},
		{"claimed by the dead", claim(ended), true},
		{"claimed by nobody", claim(1_000_000), true},
		{"neither job nor claim", func(id uuid.UUID) { r.exec(t, `UPDATE commands SET job_id = NULL WHERE id = $1`, id) }, true},
	}
	ids, want := make(map[uuid.UUID]bool), 0
	for _, tt := range tests {
		id := r.submit(t, submission(tt.name, "pay")).ID
		tt.happen(id)
		if ids[id] = tt.healed; tt.healed {
			want++
		}
	}
	if n, err := r.store.Heal(t.Context()); err != nil || n != 0 {
		t.Errorf("healed %d at once, %v: whoever was just accepted is on its way", n, err)
	}
	r.exec(t, `UPDATE commands SET next_attempt_at = now() - interval '1 minute'`)
	r.in(t, "executing", outcome.StateExecuting)
	r.in(t, "final", outcome.StateSuccess)
	keepers := r.keepers(t)
	if n, err := r.store.Heal(t.Context()); err != nil || n != want {
		t.Errorf("healed %d, %v; want %d", n, err, want)
	}
	for id, now := range r.keepers(t) {
		c := r.get(t, id)
		switch {
		case (now != keepers[id]) != ids[id]:
			t.Errorf("%s: kept by %+v, before by %+v", c.Key, now, keepers[id])
		case ids[id] && (now.job == 0 || now.claim != 0 || !now.alive):
			t.Errorf("%s: kept by %+v", c.Key, now)
		case c.State == outcome.StatePending && c.Version != 1:
			t.Errorf("%s: version %d, though no reader sees a change", c.Key, c.Version)
		}
	}
	if n, err := r.store.Heal(t.Context()); err != nil || n != 0 {
		t.Errorf("healed %d more, %v", n, err)
	}
}

// keeper is who looks after a pending command.
type keeper struct {
	job, claim int64
	alive      bool // the job is there and available
}

func (r *rig) keepers(t testing.TB) map[uuid.UUID]keeper {
	t.Helper()
	rows, err := r.pool.Query(t.Context(), `
		SELECT c.id, coalesce(c.job_id, 0), coalesce(c.claimed_by, 0), coalesce(j.state = 'available' AND j.queue = 'u' || c.upstream_id, false)
		FROM commands c LEFT JOIN river_job j ON j.id = c.job_id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[uuid.UUID]keeper)
	for rows.Next() {
		var (
			id uuid.UUID
			k  keeper
		)
		if err := rows.Scan(&id, &k.job, &k.claim, &k.alive); err != nil {
			t.Fatal(err)
		}
		all[id] = k
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestUnclaim hands what ended leases claimed to the queue at once, with the
// priority and the time that the command has.
func TestUnclaim(t *testing.T) {
	r := newRig(t)
	live, ended := r.lease(t, "live", true), r.lease(t, "dead", false)
	claim := func(key string, epoch int64) uuid.UUID {
		s := submission(key, "pay")
		s.Priority = commands.PriorityLow
		id := r.submit(t, s).ID
		r.exec(t, `DELETE FROM river_job`)
		r.exec(t, `UPDATE commands SET job_id = NULL, claimed_by = $2 WHERE id = $1`, id, epoch)
		return id
	}
	kept, orphan, later := claim("kept", live), claim("orphan", ended), claim("later", ended)
	r.exec(t, `UPDATE commands SET next_attempt_at = now() + interval '1 hour' WHERE id = $1`, later)
	if n, err := r.store.Unclaim(t.Context()); err != nil || n != 2 {
		t.Errorf("handed over %d, %v; want 2", n, err)
	}
	all := r.keepers(t)
	if k := all[kept]; k.claim != live || k.job != 0 {
		t.Errorf("the living's: %+v", k)
	}
	for id, due := range map[uuid.UUID]bool{orphan: true, later: false} {
		if k := all[id]; k.claim != 0 || k.job == 0 || k.alive != due {
			t.Errorf("the dead's: %+v", k)
		}
		var priority int
		r.scan(t, `SELECT j.priority FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, []any{id}, &priority)
		if priority != commands.PriorityLow.Number() {
			t.Errorf("job of priority %d", priority)
		}
	}
	if n, err := r.store.Unclaim(t.Context()); err != nil || n != 0 {
		t.Errorf("handed over %d more, %v", n, err)
	}
}

// TestManyHealers: several processes that heal and close at once mend each
// command once, and none waits for another.
func TestManyHealers(t *testing.T) {
	pool := testkit.Database(t)
	rigs := []*rig{newRigOn(t, pool), newRigOn(t, pool), newRigOn(t, pool)}
	const stranded, overdue = 60, 40
	var batch []commands.Submission
	for range stranded + overdue {
		batch = append(batch, submission(uuid.NewString(), "charge"))
	}
	for _, res := range rigs[0].store.SubmitBatch(t.Context(), batch) {
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	rigs[0].exec(t, `DELETE FROM river_job`)
	rigs[0].exec(t, `UPDATE commands SET next_attempt_at = now() - interval '1 minute'`)
	rigs[0].exec(t, `UPDATE commands SET deadline = now() WHERE id IN (SELECT id FROM commands LIMIT $1)`, overdue)
	var (
		racing         sync.WaitGroup
		mu             sync.Mutex
		closed, healed int
	)
	until := time.Now().Add(patience)
	repeat := func(total *int, duty func(context.Context) (int, error)) {
		for time.Now().Before(until) {
			n, err := duty(t.Context())
			mu.Lock()
			*total += n
			enough := closed == overdue
			mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			if n == 0 && enough {
				return
			}
		}
	}
	for _, r := range rigs {
		racing.Go(func() { repeat(&closed, r.store.CloseOverdue) })
		racing.Go(func() { repeat(&healed, r.store.Heal) })
	}
	racing.Wait()
	if closed != overdue || healed < stranded || healed > stranded+overdue {
		t.Errorf("closed %d of %d, healed %d of %d", closed, overdue, healed, stranded)
	}
	if n := rigs[0].count(t, `SELECT count(*) FROM commands c WHERE state = 'pending' AND EXISTS (SELECT FROM river_job j WHERE j.id = c.job_id)`); n != stranded {
		t.Errorf("%d commands have a job, want %d", n, stranded)
	}
	if n := rigs[0].count(t, `SELECT count(*) FROM events`); n != overdue {
		t.Errorf("%d events for %d ends", n, overdue)
	}
}
