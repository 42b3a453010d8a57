package testkit

import (
	"context"
	"testing"
)

// TestReplication: what was committed before the standby is detached survives the
// primary, and what came later does not.
func TestReplication(t *testing.T) {
	ctx := context.Background()
	r := NewReplication(t, true)
	pool := r.Database()
	write := func(id string) {
		t.Helper()
		if _, err := pool.Exec(ctx, `CREATE TABLE `+id+` ()`); err != nil {
			t.Fatal(err)
		}
	}
	write("kept")
	r.Primary.Set("synchronous_standby_names", "")
	r.Detach()
	write("lost")
	r.Primary.Kill()
	r.Promote()
	pool.Reset()
	var kept, lost bool
	err := pool.QueryRow(ctx, `SELECT to_regclass('kept') IS NOT NULL, to_regclass('lost') IS NOT NULL`).Scan(&kept, &lost)
	if err != nil || !kept || lost {
		t.Errorf("kept %t, lost still there %t, %v", kept, lost, err)
	}
}
