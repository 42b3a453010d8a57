package attempts

import (
	"testing"

	"github.com/google/uuid"
)

// TestHeldBodiesAreBounded: by the bytes that they keep in memory, which are not those
// of the request they came in, by their number, and for one tenant by its share.
func TestHeldBodiesAreBounded(t *testing.T) {
	var h held
	request, id := make([]byte, 1<<20), uuid.New()
	if !h.add(id, "one", request[:5]) {
		t.Fatal("no room")
	}
	if body, ok := h.get(id); !ok || len(body) != 5 || cap(body) > 64 || &body[0] == &request[0] {
		t.Errorf("%d bytes are held with the %d around them", len(body), cap(body))
	}
	n := 1
	for ; n <= heldShare && h.add(uuid.New(), "one", nil); n++ {
	}
	if n > heldShare/heldEach {
		t.Errorf("%d bodies of one tenant, of the empty ones as many as it likes", n)
	}
	other := uuid.New()
	if !h.add(other, "other", make([]byte, 1<<20)) {
		t.Error("one tenant keeps another out")
	}
	total := h.total
	h.drop(other)
	h.drop(other)
	if h.total != total-1<<20-heldEach || len(h.shares) != 1 {
		t.Errorf("%d of %d after a drop, %d shares", h.total, total, len(h.shares))
	}
}
