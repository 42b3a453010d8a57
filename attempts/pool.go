package attempts

import (
	"sync"
	"time"
)

const (
	defaultIdle    = 5 * time.Second // upstream profiles' own default
	defaultPerHost = 8
	maxAge         = 5 * time.Minute // then a new connection looks the name up again
)

// poolKey names connections that may stand for one another. Versions of a
// profile never change, so base URL, TLS settings and allow list are in it too.
type poolKey struct {
	upstream int64
	version  int
	host     string
	proxy    string
}

// pool keeps idle connections, a few per upstream, for a short time. It hands out
// only what is silent: a leftover byte or an end discards the connection.
type pool struct {
	mu     sync.Mutex
	idle   map[poolKey][]*Conn // the most recently used last
	closed bool
}

func newPool() *pool { return &pool{idle: map[poolKey][]*Conn{}} }

// get returns a silent connection, or nil. The caller owns it.
func (p *pool) get(key poolKey) *Conn {
	for {
		c := p.pop(key)
		if c == nil || c.silent() == nil {
			return c
		}
		c.close()
	}
}

func (p *pool) pop(key poolKey) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[key]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	p.remove(c)
	return c
}

// put takes a connection over, or closes it.
func (p *pool) put(c *Conn) {
	idle, most := c.target.Idle, c.target.Limits.MaxInFlight
	if idle <= 0 {
		idle = defaultIdle
	}
	if most <= 0 {
		most = defaultPerHost
	}
	_ = c.wire.SetDeadline(time.Time{})
	p.mu.Lock()
	full := p.closed || len(p.idle[c.key]) >= most || time.Since(c.born) > maxAge
	if !full {
		p.idle[c.key] = append(p.idle[c.key], c)
		c.expiry = time.AfterFunc(idle, func() { p.expire(c) })
	}
	p.mu.Unlock()
	if full {
		c.close()
	}
}

func (p *pool) expire(c *Conn) {
	p.mu.Lock()
	found := p.remove(c)
	p.mu.Unlock()
	if found {
		c.close()
	}
}

// remove takes c out and says whether it was there. Whoever removes it owns it.
func (p *pool) remove(c *Conn) bool {
	list := p.idle[c.key]
	for i, other := range list {
		if other == c {
			c.expiry.Stop()
			list = append(list[:i], list[i+1:]...)
			if p.idle[c.key] = list; len(list) == 0 {
				delete(p.idle, c.key)
			}
			return true
		}
	}
	return false
}

// close closes what is idle and keeps nothing from now on.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = map[poolKey][]*Conn{}, true
	p.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.expiry.Stop()
			c.close()
		}
	}
}
