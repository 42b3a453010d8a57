package apikeys

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"executor/internal/audit"
)

func TestWhoMadeAndRevokedAKeyIsOnRecord(t *testing.T) {
	s, _ := newStore(t)
	key, _, err := s.Create(t.Context(), "acme", "billing", []string{"admin"}, audit.By{Actor: "ann", Reason: "for the shop"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Create(t.Context(), "acme", "billing", []string{"admin"}, ann); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := s.Revoke(t.Context(), "acme", "nobody", ann); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if _, err := s.Revoke(t.Context(), "acme", key.Prefix, audit.By{Actor: "bert", Reason: "it leaked"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), "acme", key.Prefix, ann); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	want := []string{"2 key.revoke billing by bert: it leaked", "1 key.create billing by ann: for the shop"}
	if diff := cmp.Diff(want, recorded(t, s, "acme")); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotOnRecordDidNotHappen(t *testing.T) {
	s, _ := newStore(t)
	key, secret, err := s.Create(t.Context(), "acme", "billing", []string{"admin"}, ann)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `ALTER TABLE audit ADD CHECK (number < 2)`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Create(t.Context(), "acme", "other", []string{"admin"}, ann); err == nil {
		t.Error("a key was made that is not on record")
	}
	if _, err := s.Revoke(t.Context(), "acme", key.Name, ann); err == nil {
		t.Error("a key was revoked that is not on record")
	}
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if list, err := s.List(t.Context(), "acme"); err != nil || len(list) != 1 || list[0].RevokedAt != nil {
		t.Error(list, err)
	}
}

// recorded is what a sound chain of a tenant says.
func recorded(t *testing.T, s *Store, tenant string) []string {
	t.Helper()
	report, err := audit.Verify(t.Context(), s.pool, "")
	if err != nil || !report.Sound() {
		t.Fatal(report, err)
	}
	entries, _, err := audit.List(t.Context(), s.pool, audit.Filter{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.String())
	}
	return list
}
