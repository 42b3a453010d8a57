package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

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
	TLS        *tls.Config    // of upstreams.Access
	Timeouts   upstreams.Timeouts
	Limits     upstreams.Limits
	Fresh      bool          // a new connection for each attempt
	Idle       time.Duration // how long an unused connection is kept
	Hop        string        // of this deployment; "" = it is not told
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
