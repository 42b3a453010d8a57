package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Cursor says where a page of rows ends that are ordered by time and id.
func Cursor(at time.Time, id uuid.UUID) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, id[:]...))
}

// ParseCursor is the inverse of Cursor. ok is false for what Cursor does not make.
func ParseCursor(s string) (at time.Time, id uuid.UUID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 24 {
		return time.Time{}, uuid.UUID{}, false
	}
	at = time.UnixMicro(int64(binary.BigEndian.Uint64(b)))
	if at.Year() < 1970 || at.Year() > 9999 { // PostgreSQL's range is narrower than the number's
		return time.Time{}, uuid.UUID{}, false
	}
	return at, uuid.UUID(b[8:]), true
}
