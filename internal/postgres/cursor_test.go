package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/postgres"
)

func FuzzParseCursor(f *testing.F) {
	f.Add(postgres.Cursor(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), uuid.New()))
	f.Add("")
	f.Add("//////////////////////////////////")
	f.Fuzz(func(t *testing.T, s string) {
		at, id, ok := postgres.ParseCursor(s)
		if !ok {
			return
		}
		again, sameID, ok := postgres.ParseCursor(postgres.Cursor(at, id))
		if !ok || !again.Equal(at) || sameID != id {
			t.Errorf("%q is read as %s %s and then as %s %s", s, at, id, again, sameID)
		}
	})
}
