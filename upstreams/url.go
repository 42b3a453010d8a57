package upstreams

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"executor/internal/egress"
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
// addresses in their usual form, port 80, 443 or from 1024
// one of no other service. Other spellings are
// refused and not repaired: they are how one host is passed off as another.
func parseAddress(raw string, b bounds) (address, error) {
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
	if err := a.checkPort(u.Port(), u.Host, b); err != nil {
		return address{}, err
	}
	_, rest, _ := strings.Cut(raw, "://")
	return a, a.checkPath(rest[strings.Index(rest+"/", "/"):])
}

func (a *address) checkHost(host string) (err error) {
	a.name, a.ip, err = egress.ParseHost(host)
	return asRefusal(err)
}

// asRefusal turns what egress refuses into what a profile's problem is made of.
func asRefusal(err error) error {
	if r, ok := err.(*egress.Refusal); ok {
		return &refusal{r.Message, r.Help}
	}
	return err
}

// checkPort checks the port. One that only became another service's after the
// profile was stored stays allowed there.
func (a *address) checkPort(port, host string, b bounds) error {
	if port == "" {
		if strings.HasSuffix(host, ":") {
			return &refusal{"the port is missing after the colon", ""}
		}
		return nil
	}
	n, err := egress.CheckPort(port, b.Ports, "egress.ports")
	if err != nil && (n < 1024 || !b.stored) {
		return asRefusal(err)
	}
	if a.url.Scheme == "https" && n == 443 || a.url.Scheme == "http" && n == 80 {
		a.url.Host = strings.TrimSuffix(a.url.Host, ":"+port)
	}
	return nil
}

// bounds are what of a profile bears on its URLs.
type bounds struct {
	Egress
	stored bool // it was accepted once and is only read again: refusals that are newer than it do not count
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

// named says whether one of the prefixes is an address alone.
func (e Egress) named(ip netip.Addr) bool {
	return slices.Contains(e.Allow, netip.PrefixFrom(ip, ip.BitLen()))
}

// checkScheme refuses plain http outside private networks.
func (a *address) checkScheme(e bounds) error {
	if a.url.Scheme == "http" && len(e.Allow) == 0 {
		return &refusal{"http sends everything in clear", "Use https; inside a private network name it under egress.allow."}
	}
	return nil
}

// checkReach refuses what the guard at the dial would refuse anyway, as far as
// the URL shows it. The names that a proxy resolves are the proxy's to judge.
func (a *address) checkReach(b bounds) error {
	switch {
	case a.ip.IsValid() && !b.allowed(a.ip) && (!publicAddress(a.ip) || !egress.Public(a.ip) && !b.stored):
		return &refusal{fmt.Sprintf("%s is not a public address", a.ip), "Name its network under egress.allow if it is meant."}
	case a.ip.IsValid() && egress.Metadata(a.ip) && !b.named(a.ip) && !b.stored:
		return &refusal{fmt.Sprintf("%s hands out the credentials of this machine", a.ip), fmt.Sprintf("If it is meant, name %s/%d under egress.allow.", a.ip, a.ip.BitLen())}
	case a.name == "":
		return nil
	default:
		return asRefusal(egress.CheckName(a.name, b.Allow, len(b.Allow) > 0 || b.Proxy != "" || b.stored, "egress.allow"))
	}
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
