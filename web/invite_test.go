package web_test

import (
	"net/http"
	"testing"

	"executor/internal/operators"
)

// TestInvitingWhoMayNotBe: an invitation that cannot be made is refused in words,
// and leaves nothing half done.
func TestInvitingWhoMayNotBe(t *testing.T) {
	s := newSite(t)
	ctx, by := t.Context(), operators.By{Actor: "test"}
	ada := s.as(t, "ada")
	vera, err := s.operators.ByName(ctx, "vera")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.operators.Disable(ctx, by, vera.ID); err != nil {
		t.Fatal(err)
	}
	if p := ada.post("/operators/"+vera.ID.String()+"/link", "reason", "new phone"); p.status != http.StatusConflict {
		t.Errorf("a link for somebody disabled answers %d", p.status)
	}

	// Nora works in another tenant and has not set a password yet.
	nora, err := s.operators.Create(ctx, by, operators.New{Name: "nora", Tenant: "other", Role: operators.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	if p := ada.post("/operators", "name", "nora", "role", "viewer", "reason", "helps out"); p.status != http.StatusUnprocessableEntity {
		t.Errorf("admitting somebody of another tenant answers %d", p.status)
	}
	if o, err := s.operators.Get(ctx, nora.ID); err != nil || o.Role(tenant) != "" {
		t.Errorf("nora has the roles %v, %v", o.Roles, err)
	}
	o, err := s.operators.ByName(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.operators.SetRole(ctx, by, o.ID, "other", operators.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	ada.post("/operators?for="+tenant, "name", "nora", "role", "viewer", "reason", "helps out").has(t, "A link for nora is made")
}
