package attempts

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"executor/commands"
)

const (
	// heldBytes bounds the bodies of one-shot commands in one process, and heldShare
	// those of one tenant, so that it does not keep all the others out.
	heldBytes = 64 << 20
	heldShare = heldBytes / 2
	// heldEach is what a body counts besides its bytes: also many short ones take room.
	heldEach = 1 << 10
	// unknownFor is how long a body is kept of whose acceptance nobody knows: longer
	// than any commit may take.
	unknownFor = 2 * time.Minute
)

// held keeps the bodies of one-shot commands: in this process and nowhere else.
type held struct {
	mu     sync.Mutex
	bodies map[uuid.UUID]*heldBody
	total  int64
	shares map[string]int64 // of the total, by tenant
}

type heldBody struct {
	tenant string
	bytes  []byte
	until  time.Time // it is kept at least until then, whatever the database says
}

func (b *heldBody) size() int64 { return int64(len(b.bytes)) + heldEach }

// add keeps a copy: the bytes given may be a few out of a large request, all of which
// they would keep in memory.
func (h *held) add(id uuid.UUID, tenant string, body []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &heldBody{tenant: tenant, bytes: body, until: time.Now().Add(unknownFor)}
	if h.total+b.size() > heldBytes || h.shares[tenant]+b.size() > heldShare {
		return false
	}
	if h.bodies == nil {
		h.bodies, h.shares = make(map[uuid.UUID]*heldBody), make(map[string]int64)
	}
	b.bytes = append(make([]byte, 0, len(body)), body...)
	h.bodies[id] = b
	h.total += b.size()
	h.shares[tenant] += b.size()
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
	b := h.bodies[id]
	if b == nil {
		return
	}
	delete(h.bodies, id)
	h.total -= b.size()
	if h.shares[b.tenant] -= b.size(); h.shares[b.tenant] == 0 {
		delete(h.shares, b.tenant)
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
func (e *Engine) Hold(id uuid.UUID, tenant string, body []byte) (int64, bool) {
	epoch, _, leased := e.lease.Held()
	if !leased || e.store.draining() || !e.held.add(id, tenant, body) {
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
