package upstreams

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// address is a URL of a profile, taken apart and checked.
type address struct {
	url  *url.URL
	name string     // host name, "" for an IP address
	ip   netip.Addr // zero for a host name
}

// refusal is what is wrong with a setting and what to do about it.
type refusal struct{ message, help string }

func (r *refusal) Error() string { return r.message }

// parseAddress reads an absolute http or https URL in its one canonical spelling:
// lower-case host without a trailing dot, no userinfo, query or fragment, IP
// addresses in their usual form, port 80, 443 or from 1024. Other spellings are
// refused and not repaired: they are how one host is passed off as another.
func parseAddress(raw string) (address, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return address{}, &refusal{"is not an absolute URL", "Write scheme, host and path, such as https://ledger.example/v2."}
	case u.Scheme != "https" && u.Scheme != "http" || !strings.HasPrefix(raw, u.Scheme+"://"):
		return address{}, &refusal{"has to begin with https:// (or http:// inside a private network)", ""}
	case u.User != nil || strings.Contains(u.Host, "@"):
		return address{}, &refusal{"may not hold a user or a password", "Use auth, with references to the secrets."}
	case u.RawQuery != "" || u.ForceQuery:
		return address{}, &refusal{"may not hold a query", "Put it under query of the operations."}
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return address{}, &refusal{"may not hold a fragment (#…)", ""}
	}
	a := address{url: u}
	if err := a.checkHost(u.Hostname()); err != nil {
		return address{}, err
	}
	if err := a.checkPort(u.Port(), u.Host); err != nil {
		return address{}, err
	}
	_, rest, _ := strings.Cut(raw, "://")
	return a, a.checkPath(rest[strings.Index(rest+"/", "/"):])
}

var (
	hostLabel   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	numberLabel = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
)

func (a *address) checkHost(host string) error {
	switch {
	case host != strings.ToLower(host):
		return &refusal{"the host has to be in lower case", "Write " + strings.ToLower(host) + "."}
	case strings.HasSuffix(host, "."):
		return &refusal{"the host may not end in a dot", "Write " + strings.TrimRight(host, ".") + "."}
	case strings.Contains(host, ":"):
		return a.checkIPv6(host)
	}
	labels := strings.Split(host, ".")
	if numberLabel.MatchString(labels[len(labels)-1]) {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return &refusal{fmt.Sprintf("%q is an odd spelling of an IPv4 address", clip(host, 40)), "Write four decimal numbers with dots."}
		}
		a.ip = ip
		return nil
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) || len(host) > 253 {
			return &refusal{fmt.Sprintf("%q is not a host name", clip(host, 60)), "Names outside ASCII are written as xn--…"}
		}
	}
	a.name = host
	return nil
}

func (a *address) checkIPv6(host string) error {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || ip.Zone() != "":
		return &refusal{fmt.Sprintf("%q is not an IPv6 address", clip(host, 60)), "Zones are not used."}
	case ip.Is4In6():
		return &refusal{fmt.Sprintf("%q hides an IPv4 address", host), "Write " + ip.Unmap().String() + "."}
	case ip.String() != host:
		return &refusal{fmt.Sprintf("%q is not in its usual form", host), "Write [" + ip.String() + "]."}
	}
	a.ip = ip
	return nil
}

func (a *address) checkPort(port, host string) error {
	if port == "" {
		if strings.HasSuffix(host, ":") {
			return &refusal{"the port is missing after the colon", ""}
		}
		return nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
		return &refusal{fmt.Sprintf("%q is not a port", clip(port, 20)), ""}
	}
	if n < 1024 && n != 80 && n != 443 {
		return &refusal{fmt.Sprintf("port %d belongs to another service than HTTP", n), "Allowed are 80, 443 and 1024 to 65535."}
	}
	if a.url.Scheme == "https" && n == 443 || a.url.Scheme == "http" && n == 80 {
		a.url.Host = strings.TrimSuffix(a.url.Host, ":"+port)
	}
	return nil
}

// checkPath checks the path as it is written: the URL package would repair it.
func (a *address) checkPath(raw string) error {
	path := strings.TrimSuffix(raw, "/")
	if path != "" {
		if err := checkLiteralPath(path); err != nil {
			return err
		}
	}
	a.url.RawPath = path
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return &refusal{"holds a broken % escape", ""}
	}
	a.url.Path = decoded
	return nil
}

var pathSegment = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*$`)

// checkLiteralPath checks the fixed parts of a path: they go on the wire as they
// are written.
func checkLiteralPath(path string) error {
	segments := strings.Split(path, "/")
	if segments[0] != "" {
		return &refusal{"the path has to begin with /", ""}
	}
	for i, s := range segments[1:] {
		decoded, err := url.PathUnescape(s)
		last := i == len(segments)-2
		switch {
		case err != nil || !pathSegment.MatchString(s):
			return &refusal{fmt.Sprintf("%q cannot stand in a path as it is", clip(s, 60)), "Write other characters as % and two upper-case hex digits; parameters as {name}; a query under query."}
		case decoded == "." || decoded == "..":
			return &refusal{fmt.Sprintf("the path may not hold %q", s), ""}
		case strings.ContainsAny(decoded, "/\\\x00"):
			return &refusal{fmt.Sprintf("%q hides a slash, a backslash or a NUL", clip(s, 60)), ""}
		case s == "" && !last:
			return &refusal{"the path holds two slashes in a row", ""}
		}
	}
	return nil
}

// allowed says whether one of the prefixes covers an address.
func (e Egress) allowed(ip netip.Addr) bool {
	return slices.ContainsFunc(e.Allow, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkScheme refuses plain http outside private networks.
func (a *address) checkScheme(e Egress) error {
	if a.url.Scheme == "http" && len(e.Allow) == 0 {
		return &refusal{"http sends everything in clear", "Use https; inside a private network name it under egress.allow."}
	}
	return nil
}

// checkReach refuses what the guard at the dial would refuse anyway, as far as
// the URL shows it.
func (a *address) checkReach(e Egress) error {
	switch {
	case a.ip.IsValid() && !publicAddress(a.ip) && !e.allowed(a.ip):
		return &refusal{fmt.Sprintf("%s is not a public address", a.ip), "Name its network under egress.allow if it is meant."}
	case a.isLocalhost() && !e.allowed(netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !e.allowed(netip.IPv6Loopback()):
		return &refusal{"localhost is not a public host", "Name 127.0.0.0/8 under egress.allow if it is meant."}
	}
	return nil
}

func (a *address) isLocalhost() bool {
	return a.name == "localhost" || strings.HasSuffix(a.name, ".localhost")
}

// looksPublic guesses from the URL alone whether the host is on the Internet.
func (a *address) looksPublic() bool {
	if a.ip.IsValid() {
		return publicAddress(a.ip)
	}
	for _, private := range []string{".internal", ".local", ".localhost", ".lan", ".home.arpa", ".svc", ".test"} {
		if strings.HasSuffix(a.name, private) {
			return false
		}
	}
	return strings.Contains(a.name, ".")
}

func publicAddress(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(ip)
}
