package egress

import (
	"net/netip"

	"code.dny.dev/ssrf"
)

// Class says why an address is refused by default.
type Class string

const (
	ClassInvalid        Class = "invalid"         // not an address, or port 0
	ClassZone           Class = "zone"            // fe80::1%eth0: meaningful on this machine only
	ClassOwn            Class = "own"             // a listener or the database of this deployment; never permitted
	ClassMetadata       Class = "metadata"        // a cloud's instance metadata or host service: hands out credentials
	ClassUnspecified    Class = "unspecified"     // 0.0.0.0/8 and ::, which reach this machine
	ClassLoopback       Class = "loopback"        // this machine
	ClassPrivate        Class = "private"         // RFC 1918
	ClassShared         Class = "shared"          // RFC 6598, behind a carrier's NAT
	ClassLinkLocal      Class = "link_local"      // RFC 3927, RFC 4291
	ClassUniqueLocal    Class = "unique_local"    // RFC 4193, and the site-local fec0::/10 before it
	ClassMulticast      Class = "multicast"       // and 255.255.255.255
	ClassDocumentation  Class = "documentation"   // RFC 5737, RFC 3849, RFC 9637
	ClassBenchmark      Class = "benchmark"       // RFC 2544, RFC 5180
	ClassReserved       Class = "reserved"        // RFC 1112: 240.0.0.0/4
	ClassProtocol       Class = "protocol"        // IETF protocol assignments, ORCHID, AS112, AMT, SRv6, discard
	ClassIPv4Compatible Class = "ipv4_compatible" // ::a.b.c.d, deprecated
	ClassNAT64          Class = "nat64"           // RFC 6052, RFC 8215: an IPv4 address in disguise
	Class6to4           Class = "6to4"            // RFC 3056, and its relays: an IPv4 address in disguise
	ClassTeredo         Class = "teredo"          // RFC 4380: an IPv4 address in disguise
	ClassNotGlobal      Class = "not_global"      // any other IPv6 address outside 2000::/3
	ClassSpecialPurpose Class = "special_purpose" // in a registry of special addresses, and in no class above
	classPermitted      Class = ""                // an ordinary public address
)

// rule gives the prefixes of a class. The order of rules matters where one
// prefix lies within another.
type rule struct {
	class    Class
	prefixes []netip.Prefix
}

// rules names what the IANA special-purpose registries and the clouds reserve.
// What it does not name falls to the generated registry list in package ssrf.
var rules = []rule{
	{ClassMetadata, prefixes(
		"169.254.169.254/32", "169.254.169.255/32", // AWS, Azure, Google, Oracle, DigitalOcean, OpenStack; Linode
		"169.254.170.2/32", "169.254.170.23/32", // AWS ECS and EKS credentials
		"169.254.0.23/32", "169.254.42.42/32", // Tencent, Scaleway
		"168.63.129.16/32",         // Azure host
		"100.100.100.200/32",       // Alibaba
		"192.0.0.192/32",           // Oracle Classic
		"fd00:ec2::/32",            // AWS: ::254, ::23, ::253, ::123
		"fd20:ce::254/128",         // Google
		"fd00:c1::a9fe:a9fe/128",   // Oracle
		"fd00:a9fe:a9fe::1/128",    // Linode
		"fd00:42::42/128",          // Scaleway
		"fe80::a9fe:a9fe/128",      // OpenStack
		"64:ff9b:1::a9fe:a9fe/128", // the same behind a NAT64
		"64:ff9b::a9fe:a9fe/128",   //
		"2002:a9fe:a9fe::/48",      // and 6to4
		"::169.254.169.254/128",    // and the compatible form
	)},
	{ClassUnspecified, prefixes("0.0.0.0/8", "::/128")},
	{ClassLoopback, prefixes("127.0.0.0/8", "::1/128")},
	{ClassPrivate, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")},
	{ClassShared, prefixes("100.64.0.0/10")},
	{ClassLinkLocal, prefixes("169.254.0.0/16", "fe80::/10")},
	{ClassUniqueLocal, prefixes("fc00::/7", "fec0::/10")},
	{ClassMulticast, prefixes("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")},
	{ClassDocumentation, prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")},
	{ClassBenchmark, prefixes("198.18.0.0/15", "2001:2::/48")},
	{ClassReserved, prefixes("240.0.0.0/4")},
	{ClassTeredo, prefixes("2001::/32")},
	{Class6to4, prefixes("2002::/16", "192.88.99.0/24")},
	{ClassNAT64, prefixes("64:ff9b::/96", "64:ff9b:1::/48")},
	{ClassProtocol, prefixes(
		"192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24",
		"2001::/23", "2620:4f:8000::/48", "100::/64", "100:0:0:1::/64", "5f00::/16",
	)},
	{ClassIPv4Compatible, prefixes("::/96")},
}

// registries is the generated list behind the table: an address that it refuses
// and that no rule names is refused all the same.
var registries = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// classOf classes an address that is unmapped and has no zone.
func classOf(addr netip.Addr) Class {
	for _, r := range rules {
		if containsAny(r.prefixes, addr) {
			return r.class
		}
	}
	if registries.SafeAddr(addr) == nil {
		return classPermitted
	}
	if addr.Is6() && !ssrf.IPv6GlobalUnicast.Contains(addr) {
		return ClassNotGlobal
	}
	return ClassSpecialPurpose
}

func containsAny(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}
