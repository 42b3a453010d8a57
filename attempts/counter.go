package attempts

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

var (
	errGateClosed = errors.New("the gate of this exchange is not open")
	errGateUsed   = errors.New("this exchange has already had its one request")
	errSealed     = errors.New("this exchange is sealed")
)

// counter stands above TLS between one request and its connection, and its
// numbers are the evidence of what was sent. It is marked before and after every
// write: a peer can answer before the write call that carried the request has
// returned, so a count taken only afterwards may still read zero.
//
// It opens once, lets exactly one request of a known length through, and once
// sealed nothing more.
type counter struct {
	stream net.Conn // TLS, or the wire itself
	wire   *wire    // what lies below
	total  int64    // length of the request
	below  int64    // wire.handed when the gate opened

	mu      sync.Mutex // held during a write
	open    bool
	failure error // of a write that returned before the seal
	refused bool  // that write took nothing, not even into a TLS record

	sealed  atomic.Bool
	entered atomic.Int64 // bytes given to a write call
	handed  atomic.Int64 // bytes that write calls took
}

func newCounter(c *Conn, total int64) *counter {
	return &counter{stream: c.stream, wire: c.wire, total: total}
}

// Open lets the request pass. A second call fails: one exchange, one request.
func (c *counter) Open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open {
		return errGateUsed
	}
	c.open, c.below = true, c.wire.handed.Load()
	return nil
}

// Write passes bytes of the request on. After a failed write, and beyond the
// request's length, it passes nothing.
func (c *counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sealed.Load():
		return 0, errSealed
	case !c.open:
		return 0, errGateClosed
	case c.failure != nil:
		return 0, c.failure
	case c.entered.Load()+int64(len(p)) > c.total:
		return 0, errGateUsed
	}
	c.entered.Add(int64(len(p)))
	n, err := c.stream.Write(p)
	c.handed.Add(int64(n))
	if err != nil && !c.sealed.Load() {
		c.failure = err
		c.refused = n == 0 && c.wire.handed.Load() == c.below
	}
	return n, err
}

// whole says that every byte of the request was taken.
func (c *counter) whole() bool { return c.handed.Load() == c.total }

// tally is the sealed count of one exchange.
type tally struct {
	total, entered, handed int64
	failure                error // the write error, if writing ended by itself
	// nothing: no byte of the request can have reached the peer. Zero bytes
	// handed over prove it only if none were given to a write, or if the one
	// write call returned a definite error by itself. Where TLS may have sent
	// part of a record it is not claimed, although a peer could not decrypt it.
	nothing bool
}

// seal forbids further writes, lets end close the connection, and only then waits
// for a write that may be blocked in it. The order matters: taking the lock
// first would wait for a peer that has stopped reading. A nil end leaves the
// connection open, for when writing is known to be over.
func (c *counter) seal(end func()) tally {
	c.sealed.Store(true)
	if end != nil {
		end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := tally{total: c.total, entered: c.entered.Load(), handed: c.handed.Load(), failure: c.failure}
	t.nothing = t.handed == 0 && (t.entered == 0 || c.refused)
	return t
}
