package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
)

// Forbidden says that an address may not be dialled, and why. Nothing was sent.
type Forbidden struct {
	Addr  netip.AddrPort
	Class Class
}

func (f *Forbidden) Error() string {
	switch f.Class {
	case ClassInvalid, ClassZone:
		return fmt.Sprintf("address %s is forbidden (%s)", f.Addr, f.Class)
	case ClassOwn:
		return fmt.Sprintf("address %s is forbidden (own): it belongs to this deployment itself", f.Addr)
	default:
		addr := f.Addr.Addr()
		return fmt.Sprintf("address %s is forbidden (%s): if the upstream really lives there, permit it in the profile, for example egress.allow: [%s/%d]",
			f.Addr, f.Class, addr, addr.BitLen())
	}
}

// Guard decides which addresses may be dialled. Public unicast addresses may,
// all others only where a target's allow list names them. It looks at the
// address that is really dialled, never at a name.
type Guard struct {
	nat64 []netip.Prefix
	local func() []netip.Addr // the addresses of this machine's interfaces
	own   atomic.Pointer[[]netip.AddrPort]
}

// GuardConfig has a useful zero value.
type GuardConfig struct {
	// Own are listeners and databases of this deployment, which no allow list
	// permits. An unspecified address (":8080") stands for every address of this
	// machine, and a loopback address for all of them.
	Own []netip.AddrPort
	// NAT64 are the translation prefixes (RFC 6052) that this network really
	// uses, such as 64:ff9b::/96. An address within one is judged by the IPv4
	// address it carries; without them it is refused.
	NAT64 []netip.Prefix
}

// NewGuard makes a guard.
func NewGuard(cfg GuardConfig) *Guard {
	g := &Guard{nat64: slices.Clone(cfg.NAT64), local: interfaceAddrs}
	g.own.Store(&[]netip.AddrPort{})
	g.RefuseOwn(cfg.Own...)
	return g
}

// RefuseOwn adds addresses of this deployment, for listeners whose port is known
// only once they listen. It may be called while the guard is in use.
func (g *Guard) RefuseOwn(addrs ...netip.AddrPort) {
	for {
		before := g.own.Load()
		after := slices.Clone(*before)
		for _, a := range addrs {
			after = append(after, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
		}
		if g.own.CompareAndSwap(before, &after) {
			return
		}
	}
}

// Check returns nil if addr may be dialled for a target with this allow list,
// else a *Forbidden. A metadata address needs a prefix that names it alone
// (/32 or /128): a wide network never lets it in by accident.
func (g *Guard) Check(addr netip.AddrPort, allow []netip.Prefix) error {
	if class := g.class(addr, allow); class != classPermitted {
		return &Forbidden{Addr: netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), Class: class}
	}
	return nil
}

// Control is Check in the shape of net.Dialer.ControlContext: it sees every
// address of every try, after all name resolution.
func (g *Guard) Control(allow []netip.Prefix) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return &Forbidden{Class: ClassInvalid}
		}
		return g.Check(addr, allow)
	}
}

func (g *Guard) class(dial netip.AddrPort, allow []netip.Prefix) Class {
	addr := dial.Addr().Unmap()
	switch {
	case !addr.IsValid() || dial.Port() == 0:
		return ClassInvalid
	case addr.Zone() != "":
		return ClassZone
	case g.isOwn(addr, dial.Port()):
		return ClassOwn
	}
	if carried, ok := g.translated(addr, allow); ok {
		return g.class(netip.AddrPortFrom(carried, dial.Port()), allow)
	}
	class := classOf(addr)
	if permits(allow, addr, class) {
		return classPermitted
	}
	return class
}

// translated returns the IPv4 address behind a NAT64 address that the network's
// configuration or the target's allow list declares to be in use, so that the
// disguise gains nothing.
func (g *Guard) translated(addr netip.Addr, allow []netip.Prefix) (netip.Addr, bool) {
	for _, p := range g.nat64 {
		if p.Contains(addr) {
			return embedded(addr, p.Bits())
		}
	}
	if addr.Is6() && classOf(addr) == ClassNAT64 && containsAny(allow, addr) {
		return embedded(addr, 96)
	}
	return netip.Addr{}, false
}

// embedded takes the IPv4 address out of an IPv6 address with a translation
// prefix of that length (RFC 6052, section 2.2: bits 64 to 71 are left out).
func embedded(addr netip.Addr, bits int) (netip.Addr, bool) {
	if !slices.Contains([]int{32, 40, 48, 56, 64, 96}, bits) {
		return netip.Addr{}, true // no such prefix: invalid, and so refused
	}
	raw, at := addr.As16(), bits/8
	var v4 [4]byte
	for i := range v4 {
		if at == 8 {
			at++
		}
		v4[i], at = raw[at], at+1
	}
	return netip.AddrFrom4(v4), true
}

func permits(allow []netip.Prefix, addr netip.Addr, class Class) bool {
	for _, p := range allow {
		if p.Contains(addr) && (class != ClassMetadata || p.IsSingleIP()) {
			return true
		}
	}
	return false
}

func (g *Guard) isOwn(addr netip.Addr, port uint16) bool {
	for _, own := range *g.own.Load() {
		if own.Port() == port && g.sameHost(own.Addr(), addr) {
			return true
		}
	}
	return false
}

// sameHost says whether dialling addr reaches a listener on own. Dialling the
// unspecified address reaches loopback; a listener on it hears every address that
// the machine has now, which may be others than at the start.
func (g *Guard) sameHost(own, addr netip.Addr) bool {
	here := addr.IsLoopback() || addr.IsUnspecified()
	switch {
	case own == addr:
		return true
	case own.IsUnspecified():
		return here || slices.Contains(g.local(), addr)
	case own.IsLoopback():
		return here
	default:
		return false
	}
}

// interfaceAddrs lists this machine's addresses. Without them only a listener on
// the unspecified address is recognised less widely; the classes still hold.
func interfaceAddrs() []netip.Addr {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if ipnet, ok := n.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(ipnet.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs
}
