package commands

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"executor/upstreams"
)

var (
	// ErrNotFound: no such command for this tenant.
	ErrNotFound = errors.New("command not found")
	// ErrUnavailable: the database is away, or a commit's answer was lost. A
	// submit may or may not have been accepted; repeating it with the same key
	// is safe and tells.
	ErrUnavailable = errors.New("database unavailable")
	// ErrConflict: the row is no longer in the state the caller saw.
	ErrConflict = errors.New("command changed meanwhile")
	// ErrBadCursor: a list cursor that this server did not give out.
	ErrBadCursor = errors.New("unknown cursor")
)

// Invalid is a submission that can never be accepted as it stands.
type Invalid struct {
	Detail string
	Fields []upstreams.FieldError
}

func (e *Invalid) Error() string {
	parts := []string{e.Detail}
	for _, f := range e.Fields {
		parts = append(parts, f.Pointer+": "+f.Detail)
	}
	return strings.Join(parts, "; ")
}

func invalid(pointer, code, format string, args ...any) *Invalid {
	detail := fmt.Sprintf(format, args...)
	return &Invalid{Detail: detail, Fields: []upstreams.FieldError{{Pointer: pointer, Code: code, Detail: detail}}}
}

// KeyMismatch is a key that is already bound to another request.
type KeyMismatch struct {
	CommandID uuid.UUID // the command that the key belongs to
	Differs   []string  // names of the fields that differ: upstream, operation, params, query, headers, content_type, body
	// Blind says that the body was one-shot and cannot be compared any more: the key
	// of its hash was taken out. Nobody can tell whether it differs.
	Blind bool
}

func (e *KeyMismatch) Error() string {
	if e.Blind {
		return fmt.Sprintf("the idempotency key belongs to command %s, whose one-shot body cannot be compared any more", e.CommandID)
	}
	return fmt.Sprintf("the idempotency key belongs to command %s, whose request differs in: %s",
		e.CommandID, strings.Join(e.Differs, ", "))
}
