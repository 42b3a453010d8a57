package attempts

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// SetFaults lets a test strike at an attempt: after its begin is committed and
// before its end is recorded. It is called before Start.
func (e *Engine) SetFaults(begun, seen func(uuid.UUID)) { e.faults = faults{begun, seen} }

// SetAssembleWithin bounds the reading of files. It is called before Start.
func (e *Engine) SetAssembleWithin(d time.Duration) { e.assembleWithin = d }

// BeginAfter asks to begin an attempt of a command that was read when it had so many.
func (e *Engine) BeginAfter(ctx context.Context, id uuid.UUID, attempts int) error {
	_, err := e.store.Begin(ctx, Start{CommandID: id, After: attempts, Request: `{}`, BodySHA256: []byte{}, Total: time.Second})
	return err
}

// Idle runs a command once more and reports whether nothing was tried.
func (e *Engine) Idle(id uuid.UUID) bool {
	r, _ := e.attempt(context.Background(), &item{id: id}, &flight{id: id, after: -1})
	return r.idle
}

// Refresh reads what may have changed, out of turn.
func (e *Engine) Refresh(ctx context.Context) error { return e.refresh(ctx) }
