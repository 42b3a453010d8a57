// Package clientaddr tells from where a request comes when there may be proxies in
// front. What a request says of itself is believed of named proxies only.
package clientaddr

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// header is what proxies note their clients in, each behind those before it.
const header = "X-Forwarded-For"

// Proxies are the networks whose machines are believed when they say for whom they
// ask. Nobody else is.
type Proxies []netip.Prefix

// Handler puts the address of the client, with port 0, in the place of a proxy's
// (http.Request.RemoteAddr). Without proxies nothing is changed.
func (p Proxies) Handler(next http.Handler) http.Handler {
	if len(p) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := parse(r.RemoteAddr)
		if client := p.client(peer, r.Header[header]); client != peer {
			r = r.WithContext(r.Context()) // a copy: the server's own keeps the connection's address
			r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
		}
		next.ServeHTTP(w, r)
	})
}

// client walks from the connection backwards over the proxies that are trusted. The
// first address that is none of theirs is the client's: whatever stands before it
// the client may have written. What is no address ends the walk.
func (p Proxies) client(peer netip.Addr, lines []string) netip.Addr {
	said := strings.Split(strings.Join(lines, ","), ",")
	for _, text := range slices.Backward(said) {
		if !p.contain(peer) {
			break
		}
		before := parse(strings.TrimSpace(text))
		if !before.IsValid() {
			break
		}
		peer = before
	}
	return peer
}

func (p Proxies) contain(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(a) })
}

// parse reads an address with or without a port; the zero Addr if it is none.
func parse(text string) netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// Of is the address of a request, without its port.
func Of(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Network is what one client has of addresses: an IPv4 address, or an IPv6 network
// of 64 bits. What is no address is returned as it is.
func Network(address string) string {
	a := parse(address)
	switch {
	case !a.IsValid():
		return address
	case a.Is4():
		return a.String()
	default:
		return netip.PrefixFrom(a, 64).Masked().String()
	}
}
