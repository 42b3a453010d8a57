package commands_test

import (
	"testing"

	"github.com/google/uuid"

	"executor/outcome"
)

func TestMany(t *testing.T) {
	r := newRig(t)
	one, two := r.in(t, "one", outcome.StatePending), r.in(t, "two", outcome.StateSuccess)
	ids := []uuid.UUID{one, two, uuid.New()}
	list, err := r.store.Many(t.Context(), tenant, ids)
	if err != nil || len(list) != 2 || list[one].State != outcome.StatePending || list[two].Outcome == nil {
		t.Errorf("Many = %+v, %v", list, err)
	}
	if list, err := r.store.Many(t.Context(), "other", ids); err != nil || len(list) != 0 {
		t.Errorf("another tenant sees %+v, %v", list, err)
	}
	peeked, err := r.store.Peek(t.Context(), r.pool, ids)
	if err != nil || len(peeked) != 2 || peeked[two].Announced != outcome.StateSuccess {
		t.Errorf("Peek = %+v, %v", peeked, err)
	}
}
