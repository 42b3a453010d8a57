package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
)

const tenant = "default"

func record(ctx context.Context, pool *pgxpool.Pool, entries ...audit.Entry) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, e := range entries {
			if err := audit.Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func note(i int) audit.Entry {
	return audit.Entry{Tenant: tenant, Actor: "ann", Action: "note", Reason: fmt.Sprintf("reason %d", i)}
}

// fill appends so many notes.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	entries := make([]audit.Entry, n)
	for i := range entries {
		entries[i] = note(i + 1)
	}
	if err := record(t.Context(), pool, entries...); err != nil {
		t.Fatal(err)
	}
}

func verify(t *testing.T, pool *pgxpool.Pool, pins ...audit.Pin) audit.Chain {
	t.Helper()
	report, err := audit.Verify(t.Context(), pool, tenant, pins...)
	if err != nil {
		t.Fatal(err)
	}
	return report.Chains[0]
}

// tamper does what the database's owner can do.
func tamper(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	off := []string{`ALTER TABLE audit DISABLE TRIGGER ALL`, `ALTER TABLE audit_heads DISABLE TRIGGER ALL`}
	on := []string{`ALTER TABLE audit ENABLE ALWAYS TRIGGER append_only`, `ALTER TABLE audit_heads ENABLE ALWAYS TRIGGER never_removed`,
		`ALTER TABLE audit_heads ENABLE ALWAYS TRIGGER never_back`}
	for _, sql := range append(append(off, statements...), on...) {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestRecordAndRead(t *testing.T) {
	pool := testkit.Database(t)
	id := uuid.New()
	e := audit.Entry{
		Tenant: tenant, Actor: "ann\x00\xff", Action: "resolve", Command: &id, Subject: "s", Reason: "because", EvidenceReference: "T-1",
		Before: map[string]any{"state": "unresolved", "odd": "\x00<&>"}, After: map[string]any{"state": "success"}, Details: []int{1, 2},
	}
	if err := record(t.Context(), pool, e, note(2)); err != nil {
		t.Fatal(err)
	}
	list, next, err := audit.List(t.Context(), pool, audit.Filter{Tenant: tenant, Command: &id})
	if err != nil || next != "" || len(list) != 1 {
		t.Fatalf("List = %d entries, %q, %v; want the one of the command", len(list), next, err)
	}
	got := list[0]
	if got.Number != 1 || got.Actor != "ann��" || got.Action != "resolve" || got.Subject != "s" || got.Reason != "because" ||
		got.EvidenceReference != "T-1" || string(got.After) != `{"state":"success"}` || string(got.Details) != `[1,2]` || got.At.IsZero() {
		t.Errorf("entry %+v", got)
	}
	if c := verify(t, pool); c.Problem != nil || c.Entries != 2 || c.Head.Number != 2 {
		t.Errorf("chain %+v", c)
	}
}

// TestRollback: what was not done is not on record, and leaves no gap.
func TestRollback(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 1)
	broken := errors.New("broken")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return errors.Join(audit.Record(t.Context(), tx, note(9)), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	fill(t, pool, 1)
	if c := verify(t, pool); c.Problem != nil || c.Entries != 2 {
		t.Errorf("chain %+v", c)
	}
}

// TestManyAtOnce: appending at the same time gives one chain, from the first
// entry of a tenant on.
func TestManyAtOnce(t *testing.T) {
	pool := testkit.Database(t)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			if err := record(t.Context(), pool, note(i), note(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c := verify(t, pool); c.Problem != nil || c.Entries != 48 {
		t.Errorf("chain %+v", c)
	}
	list, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: tenant, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(list); i++ {
		if list[i].At.After(list[i-1].At) {
			t.Errorf("entry %d is younger than entry %d", list[i].Number, list[i-1].Number)
		}
	}
}

func TestAppendOnly(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 2)
	for _, sql := range []string{
		`UPDATE audit SET reason = 'other'`,
		`UPDATE audit SET reason = 'other' WHERE false`,
		`DELETE FROM audit`,
		`TRUNCATE audit`,
		`DELETE FROM audit_heads`,
		`TRUNCATE audit_heads`,
		`UPDATE audit_heads SET number = number - 1`,
		`UPDATE audit_heads SET hash = ''`,
		`UPDATE audit_heads SET tenant = 'other', number = number + 1`,
		`SET session_replication_role = replica; DELETE FROM audit`,
	} {
		_, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23001" {
			t.Errorf("%s: %v; want a refusal", sql, err)
		}
	}
	if c := verify(t, pool); c.Problem != nil || c.Entries != 2 {
		t.Errorf("chain %+v", c)
	}
}

// TestVerifyFinds tampers with a chain of six in every way that the database's
// owner can think of.
func TestVerifyFinds(t *testing.T) {
	tests := []struct {
		name, sql string
		number    int64
		kind      audit.ProblemKind
	}{
		{"an edited reason", `UPDATE audit SET reason = 'other' WHERE number = 3`, 3, audit.ProblemEdited},
		{"an edited time", `UPDATE audit SET at = at + interval '1 microsecond' WHERE number = 3`, 3, audit.ProblemEdited},
		{"an edited command", `UPDATE audit SET command_id = gen_random_uuid() WHERE number = 6`, 6, audit.ProblemEdited},
		{"a space in the JSON", `UPDATE audit SET details = ' {}' WHERE number = 1`, 1, audit.ProblemEdited},
		{"an empty object for nothing", `UPDATE audit SET after = '{}' WHERE number = 2`, 2, audit.ProblemEdited},
		{"text moved to the next field", `UPDATE audit SET actor = '', action = actor || action WHERE number = 2`, 2, audit.ProblemEdited},
		{"an edited hash", `UPDATE audit SET hash = sha256('x') WHERE number = 4`, 4, audit.ProblemEdited},
		{"an edited link", `UPDATE audit SET previous_hash = sha256('x') WHERE number = 4`, 4, audit.ProblemEdited},
		{"a deleted entry", `DELETE FROM audit WHERE number = 4`, 4, audit.ProblemMissing},
		{"the first entries deleted", `DELETE FROM audit WHERE number <= 2`, 1, audit.ProblemMissing},
		{"a renumbered entry", `UPDATE audit SET number = 99 WHERE number = 2`, 2, audit.ProblemMissing},
		{"a deleted end", `DELETE FROM audit WHERE number >= 5`, 5, audit.ProblemEndMissing},
		{"all deleted", `DELETE FROM audit`, 1, audit.ProblemEndMissing},
		{"the head deleted", `DELETE FROM audit_heads`, 6, audit.ProblemHeadLost},
		{"the head set back", `UPDATE audit_heads SET number = 4, hash = (SELECT hash FROM audit WHERE number = 4)`, 5, audit.ProblemHeadLost},
		{"another hash in the head", `UPDATE audit_heads SET hash = sha256('x')`, 6, audit.ProblemReplaced},
		{"an unknown format", `UPDATE audit SET format = 2 WHERE number = 5`, 5, audit.ProblemFormat},
		{"two entries exchanged", `UPDATE audit SET number = CASE number WHEN 2 THEN -3 ELSE -2 END WHERE number IN (2, 3);
			UPDATE audit SET number = -number WHERE number < 0`, 2, audit.ProblemEdited},
	}
	pool := testkit.Database(t)
	fill(t, pool, 6)
	for _, sql := range []string{
		`ALTER TABLE audit DISABLE TRIGGER ALL`, `ALTER TABLE audit_heads DISABLE TRIGGER ALL`, `ALTER TABLE audit DROP CONSTRAINT audit_number_check`,
		`CREATE TABLE kept AS TABLE audit`, `CREATE TABLE kept_heads AS TABLE audit_heads`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), tt.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			c := verify(t, pool)
			if c.Problem == nil || c.Problem.Number != tt.number || c.Problem.Kind != tt.kind {
				t.Errorf("found %+v, want %s at %d", c.Problem, tt.kind, tt.number)
			}
			restore := `TRUNCATE audit, audit_heads; INSERT INTO audit TABLE kept; INSERT INTO audit_heads TABLE kept_heads`
			if _, err := pool.Exec(t.Context(), restore, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			if c := verify(t, pool); c.Problem != nil {
				t.Fatalf("the chain was not restored: %+v", c.Problem)
			}
		})
	}
}

// TestRewritten: an entry that was replaced together with its hash is betrayed by
// the next one, or by the head.
func TestRewritten(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 4)
	// The same chain with another third and fourth entry, made elsewhere.
	forged := testkit.Database(t)
	fill(t, forged, 2)
	if err := record(t.Context(), forged, note(33), note(44)); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int64{3, 4} {
		var hash []byte
		if err := forged.QueryRow(t.Context(), `SELECT hash FROM audit WHERE number = $1`, number).Scan(&hash); err != nil {
			t.Fatal(err)
		}
		tamper(t, pool, fmt.Sprintf(`UPDATE audit SET hash = '\x%x' WHERE number = %d`, hash, number))
		if c := verify(t, pool); c.Problem == nil || c.Problem.Number != 3 {
			t.Errorf("found %+v", c.Problem)
		}
	}
}

// TestPins: a chain that was cut together with its head, or written anew, only
// shows by what was noted elsewhere.
func TestPins(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 5)
	noted := verify(t, pool).Head
	pin, err := audit.ParsePin(tenant, noted.String())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, pool, 1)
	if c := verify(t, pool, pin); c.Problem != nil {
		t.Fatalf("a chain that went on: %+v", c.Problem)
	}
	tamper(t, pool, `DELETE FROM audit WHERE number > 3`,
		`UPDATE audit_heads SET number = 3, hash = (SELECT hash FROM audit WHERE number = 3)`)
	if c := verify(t, pool); c.Problem != nil {
		t.Fatalf("without a pin: %+v", c.Problem)
	}
	if c := verify(t, pool, pin); c.Problem == nil || c.Problem.Number != 4 || c.Problem.Kind != audit.ProblemEndMissing {
		t.Errorf("cut: %+v", c.Problem)
	}
	fill(t, pool, 3)
	if c := verify(t, pool, pin); c.Problem == nil || c.Problem.Number != 5 || c.Problem.Kind != audit.ProblemReplaced {
		t.Errorf("written anew: %+v", c.Problem)
	}
	for _, bad := range []string{"", "5", "5:", "0:" + strings.Repeat("00", 32), "x:" + strings.Repeat("00", 32), "5:00"} {
		if _, err := audit.ParsePin(tenant, bad); err == nil {
			t.Errorf("ParsePin takes %q", bad)
		}
	}
}

// TestTenants: each has a chain of its own, and none sees another's.
func TestTenants(t *testing.T) {
	pool := testkit.Database(t)
	for _, name := range []string{"a", "b", "a"} {
		if err := record(t.Context(), pool, audit.Entry{Tenant: name, Actor: "ann", Action: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: "b"})
	if err != nil || len(list) != 1 || list[0].Number != 1 {
		t.Errorf("List of b = %+v, %v", list, err)
	}
	tamper(t, pool, `UPDATE audit SET tenant = 'c' WHERE tenant = 'b'`)
	report, err := audit.Verify(t.Context(), pool, "", audit.Pin{Tenant: "d", Number: 1, Hash: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, c := range report.Chains {
		kind := "sound"
		if c.Problem != nil {
			kind = string(c.Problem.Kind)
		}
		found = append(found, fmt.Sprintf("%s:%d:%s", c.Tenant, c.Entries, kind))
	}
	if got := strings.Join(found, " "); got != "a:2:sound b:0:end_missing c:0:edited d:0:end_missing" || report.Sound() {
		t.Errorf("found %s", got)
	}
}

func TestListPagesAndFilters(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 120)
	if err := record(t.Context(), pool, audit.Entry{Tenant: tenant, Actor: "bob", Action: "assign", Subject: "bank"}); err != nil {
		t.Fatal(err)
	}
	var seen []int64
	f := audit.Filter{Tenant: tenant, Actor: "ann", Action: "note", Limit: 50}
	for {
		page, next, err := audit.List(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			seen = append(seen, r.Number)
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	if len(seen) != 120 || seen[0] != 120 || seen[119] != 1 {
		t.Errorf("saw %d entries, %d to %d", len(seen), seen[0], seen[len(seen)-1])
	}
	ago, ahead := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, tt := range []struct {
		f    audit.Filter
		want int
	}{
		{audit.Filter{Actor: "bob"}, 1},
		{audit.Filter{Action: "assign", After: &ago, Before: &ahead}, 1},
		{audit.Filter{Subject: "bank"}, 1},
		{audit.Filter{Subject: "bank", Actor: "ann"}, 0},
		{audit.Filter{After: &ahead}, 0},
		{audit.Filter{Before: &ago}, 0},
		{audit.Filter{Limit: 1000}, audit.MaxPage},
		{audit.Filter{}, 50},
	} {
		tt.f.Tenant = tenant
		if list, _, err := audit.List(t.Context(), pool, tt.f); err != nil || len(list) != tt.want {
			t.Errorf("%+v: %d entries, %v; want %d", tt.f, len(list), err, tt.want)
		}
	}
	if _, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: tenant, Cursor: "x"}); !errors.Is(err, audit.ErrBadCursor) {
		t.Errorf("a strange cursor: %v", err)
	}
}

// TestVerifyAcrossPages: more entries than are in memory at once.
func TestVerifyAcrossPages(t *testing.T) {
	pool := testkit.Database(t)
	fill(t, pool, 1203)
	if c := verify(t, pool); c.Problem != nil || c.Entries != 1203 {
		t.Fatalf("chain %+v", c)
	}
	tamper(t, pool, `UPDATE audit SET actor = 'eve' WHERE number = 1001`)
	if c := verify(t, pool); c.Problem == nil || c.Problem.Number != 1001 || c.Entries != 1000 {
		t.Errorf("found %+v after %d", c.Problem, c.Entries)
	}
}
