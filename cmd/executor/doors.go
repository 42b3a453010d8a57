package main

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// doors bounds the connections of a listener, so that clients cannot use up what the
// process needs for its database and for upstreams. Where all are taken, the one
// that has been idle longest is closed; while none is idle, new ones wait.
type doors struct {
	net.Listener
	max int

	mu     sync.Mutex
	left   *sync.Cond // a connection ended, or the listener did
	open   int
	idle   *list.List // of *door, idle longest first
	closed bool
}

func newDoors(l net.Listener, max int) *doors {
	d := &doors{Listener: l, max: max, idle: list.New()}
	d.left = sync.NewCond(&d.mu)
	return d
}

// door is one connection.
type door struct {
	net.Conn
	doors *doors
	once  sync.Once
	place *list.Element // among the idle ones; nil for none
	gone  bool          // it was closed: there is nothing to give way
}

// Accept returns the next connection once there is room for it.
func (d *doors) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !d.admit() {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return &door{Conn: c, doors: d}, nil
}

// admit waits for room, and makes some if it can; false if the listener was closed.
func (d *doors) admit() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.open >= d.max && !d.closed {
		if longest := d.idle.Front(); longest != nil {
			d.shut(longest.Value.(*door))
		} else {
			d.left.Wait()
		}
	}
	d.open++
	return !d.closed
}

// shut closes an idle connection before anything else is looked at: whoever waits
// needs one, and takes no second. The caller holds mu, which Close needs meanwhile.
func (d *doors) shut(idle *door) {
	d.forget(idle)
	d.mu.Unlock()
	defer d.mu.Lock()
	_ = idle.Close()
}

// state fits http.Server.ConnState.
func (d *doors) state(c net.Conn, state http.ConnState) {
	one, ok := c.(*door)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(one)
	if state == http.StateIdle && !one.gone {
		one.place = d.idle.PushBack(one)
		d.left.Signal() // there may be somebody whom it can give way to
	}
}

// forget takes a connection from the idle ones. The caller holds mu.
func (d *doors) forget(c *door) {
	if c.place != nil {
		d.idle.Remove(c.place)
		c.place = nil
	}
}

func (c *door) Close() error {
	c.once.Do(func() {
		c.doors.mu.Lock()
		defer c.doors.mu.Unlock()
		c.doors.forget(c)
		c.gone = true
		c.doors.open--
		c.doors.left.Signal()
	})
	return c.Conn.Close()
}

// CloseWrite lets the server say that its answer ends here, and the client read it
// to its end although it was still sending.
func (c *door) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends the wait for room too.
func (d *doors) Close() error {
	d.mu.Lock()
	d.closed = true
	d.left.Broadcast()
	d.mu.Unlock()
	return d.Listener.Close()
}
