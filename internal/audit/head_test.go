package audit_test

import (
	"testing"

	"executor/internal/audit"
	"executor/internal/testkit"
)

func TestHead(t *testing.T) {
	pool := testkit.Database(t)
	if head, err := audit.Head(t.Context(), pool, tenant); err != nil || head.Number != 0 {
		t.Errorf("before the first entry: %v, %v", head, err)
	}
	fill(t, pool, 3)
	head, err := audit.Head(t.Context(), pool, tenant)
	if err != nil || head.Number != 3 || head.String() != verify(t, pool, head).Head.String() {
		t.Errorf("%v, %v", head, err)
	}
}
