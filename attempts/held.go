package attempts

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"executor/commands"
)

const (
	// heldBytes bounds the bodies of one-shot commands in one process.
	heldBytes = 64 << 20
	// unknownFor is how long a body is kept of whose acceptance nobody knows: longer
	// than any commit may take.
	unknownFor = 2 * time.Minute
)

// held keeps the bodies of one-shot commands: in this process and nowhere else.
type held struct {
	mu     sync.Mutex
	bodies map[uuid.UUID]*heldBody
	bytes  int64
}

type heldBody struct {
	bytes []byte
	until time.Time // it is kept at least until then, whatever the database says
}

func (h *held) add(id uuid.UUID, body []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bytes+int64(len(body)) > heldBytes {
		return false
	}
	if h.bodies == nil {
		h.bodies = make(map[uuid.UUID]*heldBody)
	}
	h.bodies[id] = &heldBody{bytes: body, until: time.Now().Add(unknownFor)}
	h.bytes += int64(len(body))
	return true
}

// known says that the acceptance is certain: from now on the row decides.
func (h *held) known(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.bodies[id]; b != nil {
		b.until = time.Now()
	}
}

func (h *held) drop(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.bodies[id]; b != nil {
		h.bytes -= int64(len(b.bytes))
		delete(h.bodies, id)
	}
}

func (h *held) get(id uuid.UUID) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.bodies[id]
	if b == nil {
		return nil, false
	}
	return b.bytes, true
}

// settledBefore lists the bodies that the row alone keeps alive since before t.
func (h *held) settledBefore(t time.Time) []uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []uuid.UUID
	for id, b := range h.bodies {
		if b.until.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Hold, Keep and Settle are the Starter's part for one-shot commands.

// Hold keeps a body, if this process may send and has room for it.
func (e *Engine) Hold(id uuid.UUID, body []byte) (int64, bool) {
	epoch, _, leased := e.lease.Held()
	if !leased || e.store.draining() || !e.held.add(id, body) {
		return 0, false
	}
	return epoch, true
}

// Keep puts an accepted command into its lane.
func (e *Engine) Keep(c commands.Prepared) {
	e.ensure(c.UpstreamID).push(firstOf(c), nil)
}

// Settle lets go of what was not accepted.
func (e *Engine) Settle(id uuid.UUID, accepted bool) {
	if accepted {
		e.held.known(id)
	} else {
		e.held.drop(id)
	}
}

// tendHeld looks after the one-shot commands of this process: starts what is in no
// lane, lets go of the bodies whose commands have moved on, and closes commands whose
// body it should have and has not.
func (e *Engine) tendHeld(ctx context.Context) error {
	asked := time.Now()
	list, err := e.commands.HeldUnder(ctx, e.lease.Epochs())
	if err != nil {
		return err
	}
	pending := make(map[uuid.UUID]bool, len(list))
	var lost []uuid.UUID
	for _, c := range list {
		pending[c.ID] = true
		if _, ok := e.held.get(c.ID); !ok {
			lost = append(lost, c.ID)
			continue
		}
		if l := e.ensure(c.UpstreamID); !l.has(c.ID) && !e.store.draining() {
			l.push(&item{id: c.ID, due: time.Now().Add(time.Duration(c.In * float64(time.Second))), priority: int(c.Priority)}, nil)
		}
	}
	for _, id := range e.held.settledBefore(asked) {
		if !pending[id] {
			e.held.drop(id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return e.closeUnheld(ctx, lost)
}

// closeUnheld closes one-shot commands without a body: those of the list, and those
// of processes that are gone.
func (e *Engine) closeUnheld(ctx context.Context, lost []uuid.UUID) error {
	return e.repeat(ctx, func(ctx context.Context) (int, error) {
		n, err := e.commands.CloseLost(ctx, lost)
		if n > 0 {
			e.log.Warn("closed one-shot commands whose bodies are gone; nothing of them was sent", "commands", n)
		}
		return n, err
	})
}
