package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"executor/outcome"
	"executor/upstreams"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// AddressGuard says which addresses may be dialled for a target with this allow
// list; *egress.Guard is one.
type AddressGuard interface {
	Check(addr netip.AddrPort, allow []netip.Prefix) error
}

// Target is where requests go, and under which limits.
type Target struct {
	UpstreamID int64
	Version    int // of the profile; connections are shared within one version
	Base       *url.URL
	Allow      []netip.Prefix // addresses permitted besides public ones
	Proxy      string         // http://host:port or https://, "" for none
	TLS        *tls.Config    // of TLSConfig
	Timeouts   upstreams.Timeouts
	Limits     upstreams.Limits
	Fresh      bool          // a new connection for each attempt
	Idle       time.Duration // how long an unused connection is kept
}

// SenderConfig is what a Sender needs. Without a Guard it dials nothing.
type SenderConfig struct {
	Resolver Resolver // nil for Go's own, which refuses odd spellings of addresses
	Guard    AddressGuard
	Log      *slog.Logger // nil for none
}

// Sender dials and sends. It has no part in what is sent when.
type Sender struct {
	resolver Resolver
	guard    AddressGuard
	log      *slog.Logger
	pool     *pool
}

// NewSender makes a sender without connections.
func NewSender(cfg SenderConfig) *Sender {
	if cfg.Resolver == nil {
		cfg.Resolver = &net.Resolver{PreferGo: true}
	}
	if cfg.Guard == nil {
		cfg.Guard = closedGuard{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Sender{resolver: cfg.Resolver, guard: cfg.Guard, log: cfg.Log, pool: newPool()}
}

// Close closes idle connections. Exchanges under way are not touched.
func (s *Sender) Close() { s.pool.close() }

type closedGuard struct{}

func (closedGuard) Check(netip.AddrPort, []netip.Prefix) error {
	return errors.New("no address guard is set up")
}

// Dial gets a connection for one exchange: a silent one from the pool, unless the
// target wants a fresh one, or a new one. If it returns false the observation is
// the whole evidence of an attempt that was not sent. Otherwise the connection
// must go to Send or to Release.
//
// timeouts.connect bounds the lookup and, anew, each address; timeouts.total and
// ctx bound it all.
func (s *Sender) Dial(ctx context.Context, t Target) (*Conn, Observation, bool) {
	key := keyOf(t)
	if !t.Fresh {
		if c := s.pool.get(key); c != nil {
			c.target, c.reused, c.timings, c.addresses = t, c.served, Timings{}, nil
			return c, c.describe(Observation{}), true
		}
	}
	ctx, cancel := within(ctx, t.Timeouts.Total)
	defer cancel()
	d := &dialling{sender: s, target: t}
	c, fail := d.dial(ctx)
	if fail != nil {
		o := notSent(fail.stage, fail.category, fail.detail)
		o.Addresses, o.Timings = d.addresses, d.timings
		s.log.DebugContext(ctx, "dial failed", "upstream_id", t.UpstreamID, "stage", fail.stage, "category", fail.category)
		return nil, o, false
	}
	c.key = key
	return c, c.describe(Observation{}), true
}

// Release gives back a connection of Dial over which nothing was sent.
func (s *Sender) Release(c *Conn) {
	if canPeek && !c.target.Fresh && c.silent() == nil {
		s.pool.put(c)
		return
	}
	c.close()
}

func keyOf(t Target) poolKey {
	return poolKey{upstream: t.UpstreamID, version: t.Version, host: t.Base.Scheme + "://" + t.Base.Host, proxy: t.Proxy}
}

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

// literal checks a target that is an address, for when only a proxy dials it. The
// addresses of a name are then the proxy's to judge.
func (d *dialling) literal(base *url.URL) *dialFailure {
	if addr, err := netip.ParseAddr(base.Hostname()); err == nil {
		return d.check([]netip.AddrPort{netip.AddrPortFrom(addr.Unmap(), portOf(base))})
	}
	return nil
}

// resolve looks the host up once and checks every answer: one that is forbidden
// refuses the host, since a name that mixes both is a trick or a mistake.
func (d *dialling) resolve(ctx context.Context, hop *url.URL) ([]netip.AddrPort, *dialFailure) {
	start := time.Now()
	found, err := d.lookup(ctx, hop.Hostname())
	d.timings.DNS = time.Since(start)
	if err != nil {
		return nil, &dialFailure{outcome.StageDNS, outcome.CategoryDNSFailure, lookupDetail(hop.Hostname(), err)}
	}
	var addrs []netip.AddrPort
	seen := map[netip.Addr]bool{}
	for _, addr := range found {
		if addr = addr.Unmap(); !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, netip.AddrPortFrom(addr, portOf(hop)))
		}
	}
	return addrs, d.check(addrs)
}

func (d *dialling) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := within(ctx, d.target.Timeouts.Connect)
	defer cancel()
	found, err := d.sender.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("no addresses")
	}
	return found, err
}

func (d *dialling) check(addrs []netip.AddrPort) *dialFailure {
	var (
		listed []AddressFailure
		refuse error
	)
	for _, addr := range addrs {
		failure := AddressFailure{addr.String(), outcome.CategoryNone, "not tried: another address of the host is forbidden"}
		if err := d.sender.guard.Check(addr, d.target.Allow); err != nil {
			failure.Category, failure.Detail = outcome.CategoryAddressForbidden, bounded(err.Error())
			if refuse == nil {
				refuse = err
			}
		}
		listed = append(listed, failure)
	}
	if refuse == nil {
		return nil
	}
	d.addresses = listed
	return &dialFailure{outcome.StageConnect, outcome.CategoryAddressForbidden, refuse.Error()}
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
	d.addresses = append(d.addresses, AddressFailure{address, fail.category, bounded(fail.detail)})
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

func lookupDetail(host string, err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "look up " + host + ": " + dns.Err // without the name server's address
	}
	return "look up " + host + ": " + err.Error()
}

// within adds a limit, if there is one.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

func portOf(u *url.URL) uint16 {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

func hostPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), strconv.Itoa(int(portOf(u))))
}
