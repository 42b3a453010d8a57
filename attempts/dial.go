package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"executor/internal/egress"
	"executor/outcome"
)

// dialling is one try to get a new connection. It keeps the failure of every
// address, whatever comes of it.
type dialling struct {
	sender    *Sender
	target    Target
	addresses []AddressFailure
	timings   Timings
}

// dialFailure ends a dial. Nothing was sent.
type dialFailure struct {
	stage    outcome.Stage
	category outcome.Category
	detail   string
}

func (d *dialling) dial(ctx context.Context) (*Conn, *dialFailure) {
	t := d.target
	hop := t.Base // whom to connect to
	if t.Proxy != "" {
		proxy, err := proxyURL(t.Proxy)
		if err != nil {
			return nil, &dialFailure{outcome.StageAdmission, outcome.CategoryProfileRejected, err.Error()}
		}
		if fail := d.literal(t.Base); fail != nil {
			return nil, fail
		}
		hop = proxy
	}
	addrs, fail := d.resolve(ctx, hop)
	if fail != nil {
		return nil, fail
	}
	w, fail := d.connect(ctx, addrs)
	if fail != nil {
		return nil, fail
	}
	c, fail := d.establish(ctx, w, hop)
	if fail != nil {
		w.reset()
		return nil, fail
	}
	c.addresses, c.timings = d.addresses, d.timings
	return c, nil
}

// connect tries the checked addresses in order, each after the failure of the one
// before it: two connections at once would be two stories for one attempt.
func (d *dialling) connect(ctx context.Context, addrs []netip.AddrPort) (*wire, *dialFailure) {
	start := time.Now()
	defer func() { d.timings.Connect = time.Since(start) }()
	var last *dialFailure
	for _, addr := range addrs {
		w, err := connectTo(ctx, addr, d.target.Timeouts.Connect)
		if err == nil {
			return w, nil
		}
		last = &dialFailure{outcome.StageConnect, connectCategory(err), addr.String() + ": " + cause(err).Error()}
		d.failed(addr.String(), last)
		if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && passed(end) {
			break
		}
	}
	return nil, last
}

func (d *dialling) failed(address string, fail *dialFailure) {
	d.addresses = append(d.addresses, AddressFailure{address, fail.category, egress.Line(fail.detail)})
}

func connectTo(ctx context.Context, addr netip.AddrPort, limit time.Duration) (*wire, error) {
	dialer := net.Dialer{Timeout: limit, ControlContext: socketOptions}
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	w, err := newWire(conn.(*net.TCPConn)) // what a Dialer returns for "tcp"
	if err != nil {
		_ = conn.Close()
	}
	return w, err
}

// establish makes the TCP connection ready for requests: the proxy's tunnel and
// TLS. A failure here ends the attempt, other addresses are not tried.
func (d *dialling) establish(ctx context.Context, w *wire, hop *url.URL) (*Conn, *dialFailure) {
	t := d.target
	c := &Conn{target: t, wire: w, stream: w, born: time.Now(), protocol: "HTTP/1.1"}
	fail := d.throughProxy(ctx, c, hop)
	if fail == nil && t.Base.Scheme == "https" {
		fail = d.secure(ctx, c, secured(t.TLS, t.Base.Hostname()))
	}
	if fail != nil {
		d.failed(c.Remote(), fail)
		return nil, fail
	}
	c.responses = newResponses(c.stream)
	return c, nil
}

func (d *dialling) throughProxy(ctx context.Context, c *Conn, proxy *url.URL) *dialFailure {
	t := d.target
	if t.Proxy == "" {
		return nil
	}
	if proxy.Scheme == "https" {
		if fail := d.secure(ctx, c, proxied(t.TLS, proxy.Hostname())); fail != nil {
			fail.detail = "proxy: " + fail.detail
			return fail
		}
	}
	start := time.Now()
	err := tunnel(ctx, c.stream, hostPort(t.Base), t.Timeouts.Connect)
	d.timings.Connect += time.Since(start)
	if err != nil {
		return &dialFailure{outcome.StageConnect, outcome.CategoryConnectFailure, err.Error()}
	}
	return nil
}

// secure puts TLS on top of the connection as it is.
func (d *dialling) secure(ctx context.Context, c *Conn, config *tls.Config) *dialFailure {
	start := time.Now()
	conn, layer, err := handshake(ctx, c.stream, config, d.target.Timeouts.TLS)
	d.timings.TLS += time.Since(start)
	if err != nil {
		return &dialFailure{outcome.StageTLS, handshakeCategory(err), cause(err).Error()}
	}
	c.stream, c.layers = conn, append(c.layers, layer)
	c.protocol = "HTTP/1.1 over " + tls.VersionName(conn.ConnectionState().Version)
	return nil
}

func connectCategory(err error) outcome.Category {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome.CategoryConnectRefused
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, context.Canceled):
		return outcome.CategoryConnectTimeout
	default:
		return outcome.CategoryConnectFailure
	}
}

// within adds a limit, if there is one.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}
