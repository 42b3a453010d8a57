package attempts

import (
	"net"
	"time"
)

// Conn is a connection on which one exchange may be made next. It belongs to one
// goroutine at a time.
type Conn struct {
	target    Target
	key       poolKey
	wire      *wire
	stream    net.Conn    // TLS, or the wire itself
	layers    []*recorded // what lies below each TLS, the proxy's and the upstream's
	responses *responses
	protocol  string
	born      time.Time
	expiry    *time.Timer // while idle

	served    bool // an exchange was made on it
	reused    bool // that was before the present one
	addresses []AddressFailure
	timings   Timings // of its dial
}

// Reused says whether the connection has carried a request before.
func (c *Conn) Reused() bool { return c.reused }

// Remote is the address of the peer; the proxy's, if there is one.
func (c *Conn) Remote() string { return c.wire.RemoteAddr().String() }

// silent returns nil if the connection is open and holds nothing to read, in any
// of the places where a byte can wait: the reader's buffer, TLS (the first half
// of a record included), the socket.
func (c *Conn) silent() error {
	if c.responses.buf.Buffered() > 0 {
		return errPeerSpoke
	}
	if err := c.wire.look(c.stream); err != nil {
		return err
	}
	for _, layer := range c.layers {
		if !layer.records.whole() {
			return errPeerSpoke
		}
	}
	return nil
}

// close ends the connection politely: with TLS the peer is told.
func (c *Conn) close() {
	c.wire.closing.Store(true)
	_ = c.stream.Close()
}

// describe adds what is known of the connection.
func (c *Conn) describe(o Observation) Observation {
	o.Remote, o.Protocol, o.Reused, o.Addresses = c.Remote(), c.protocol, c.reused, c.addresses
	o.Timings.DNS, o.Timings.Connect, o.Timings.TLS = c.timings.DNS, c.timings.Connect, c.timings.TLS
	return o
}
