package attempts

import (
	"net"
	"sync"
	"time"
)

// clock keeps the deadlines of one exchange on its connection. One absolute end
// bounds everything, dripping included; the wait for the response's headers has
// a limit of its own, which starts when writing is over.
type clock struct {
	conn    net.Conn
	end     time.Time
	headers time.Duration // 0: no limit but end

	mu       sync.Mutex
	answered bool // final headers are here: the header limit no longer counts
	cut      bool // ended from outside
}

// start puts the end on the connection, for both directions.
func (c *clock) start() error { return c.conn.SetDeadline(c.end) }

// written starts the wait for headers.
func (c *clock) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.answered || c.headers <= 0 {
		return
	}
	if limit := time.Now().Add(c.headers); limit.Before(c.end) {
		_ = c.conn.SetReadDeadline(limit)
	}
}

// answer ends the wait for headers: the body has until the end.
func (c *clock) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	if !c.cut {
		_ = c.conn.SetReadDeadline(c.end)
	}
}

// stop wakes whoever reads or writes: the attempt is over.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	_ = c.conn.SetDeadline(time.Unix(1, 0))
}

// over says that the attempt's end has come.
func (c *clock) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut || passed(c.end)
}

// passed asks the monotonic clock and the wall clock: the first stands still
// while the machine is suspended, the second can be set back.
func passed(end time.Time) bool {
	now := time.Now()
	return !now.Before(end) || !now.Round(0).Before(end.Round(0))
}
