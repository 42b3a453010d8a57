package attempts

import (
	"context"

	"github.com/google/uuid"
)

// SetFaults lets a test strike at an attempt: after its begin is committed and
// before its end is recorded. It is called before Start.
func (e *Engine) SetFaults(begun, seen func(uuid.UUID)) { e.faults = faults{begun, seen} }

// Refresh reads what may have changed, out of turn.
func (e *Engine) Refresh(ctx context.Context) error { return e.refresh(ctx) }
