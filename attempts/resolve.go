package attempts

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"executor/internal/egress"
	"executor/outcome"
)

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
			failure.Category, failure.Detail = outcome.CategoryAddressForbidden, egress.Line(err.Error())
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

func lookupDetail(host string, err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "look up " + host + ": " + dns.Err // without the name server's address
	}
	return "look up " + host + ": " + err.Error()
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
