package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to names under a guard: it resolves once, refuses the host if
// any of its addresses is forbidden, and dials the addresses it has checked.
type Dialer struct {
	guard    *Guard
	resolver Resolver
}

// NewDialer uses net.DefaultResolver if resolver is nil.
func NewDialer(guard *Guard, resolver Resolver) *Dialer {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &Dialer{guard, resolver}
}

// Dial connects to host:port. A forbidden address is a *Forbidden; otherwise the
// addresses are tried in order and the errors of all are joined.
func (d *Dialer) Dial(ctx context.Context, network, address string, allow []netip.Prefix) (net.Conn, error) {
	addrs, err := d.resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if err := d.guard.Check(addr, allow); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{ControlContext: d.guard.Control(allow)}
	var failures []error
	for _, addr := range addrs {
		conn, err := dialer.DialContext(ctx, network, addr.String())
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (d *Dialer) resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q is not a number from 1 to 65535", service)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(addr, uint16(port))}, nil
	}
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no addresses", host)
	}
	addrs := make([]netip.AddrPort, len(found))
	for i, addr := range found {
		addrs[i] = netip.AddrPortFrom(addr, uint16(port))
	}
	return addrs, nil
}
