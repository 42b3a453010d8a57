package attempts

import "testing"

// TestOneUpstreamLeavesRoom: bodies that a slow upstream does not take do not keep
// those to others from being sent, nor do they fill the memory.
func TestOneUpstreamLeavesRoom(t *testing.T) {
	const largest = 66 << 20
	var r room
	n := int64(0)
	for r.take(1, largest) {
		n++
	}
	if n != 2 || !r.take(2, largest) {
		t.Errorf("%d of the largest bodies to one upstream, and none to another", n)
	}
	if r.take(3, largest) {
		t.Errorf("%d bytes in all", r.total)
	}
	r.give(1, largest)
	if !r.take(3, largest) || r.total != 3*largest {
		t.Errorf("no room again: %d bytes", r.total)
	}
}
