package egress

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Refusal says what is wrong with a setting, and what to do about it.
type Refusal struct{ Message, Help string }

func (r *Refusal) Error() string {
	if r.Help == "" {
		return r.Message
	}
	return r.Message + ". " + r.Help
}

var (
	hostLabel   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	numberLabel = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
)

// ParseHost reads the host of a URL in its one usual spelling: a name in lower
// case without a dot at its end, or an address, of which the name is "". Other
// spellings are a *Refusal and not repaired: they are how one host is passed off
// as another.
func ParseHost(host string) (name string, ip netip.Addr, err error) {
	switch {
	case host != strings.ToLower(host):
		return "", ip, &Refusal{"the host has to be in lower case", "Write " + strings.ToLower(host) + "."}
	case strings.HasSuffix(host, "."):
		return "", ip, &Refusal{"the host may not end in a dot", "Write " + strings.TrimRight(host, ".") + "."}
	case strings.Contains(host, ":"):
		ip, err = parseIPv6(host)
		return "", ip, err
	}
	labels := strings.Split(host, ".")
	if numberLabel.MatchString(labels[len(labels)-1]) {
		if ip, err = netip.ParseAddr(host); err != nil {
			return "", ip, &Refusal{fmt.Sprintf("%q is an odd spelling of an IPv4 address", short(host)), "Write four decimal numbers with dots."}
		}
		return "", ip, nil
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) || len(host) > 253 {
			return "", ip, &Refusal{fmt.Sprintf("%q is not a host name", short(host)), "Names outside ASCII are written as xn--…"}
		}
	}
	return host, ip, nil
}

func parseIPv6(host string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || ip.Zone() != "":
		return ip, &Refusal{fmt.Sprintf("%q is not an IPv6 address", short(host)), "Zones are not used."}
	case ip.Is4In6():
		return ip, &Refusal{fmt.Sprintf("%q hides an IPv4 address", host), "Write " + ip.Unmap().String() + "."}
	case ip.String() != host:
		return ip, &Refusal{fmt.Sprintf("%q is not in its usual form", host), "Write [" + ip.String() + "]."}
	}
	return ip, nil
}

func short(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// Names of hosts in networks of somebody's own (RFC 6761, 6762, 8375, and what is
// customary), and those of metadata services.
var (
	ownNames      = []string{"local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa", "svc"}
	metadataNames = []string{"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"}
)

// metadataAddress is that of nearly every cloud.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// CheckName refuses names that lead to no public host, as far as the name shows
// it, for a good message early: the address that is dialled decides. inside says
// that names of a network of one's own are expected; setting is what would permit
// them.
func CheckName(name string, allow []netip.Prefix, inside bool, setting string) error {
	switch {
	case below(name, "localhost"), below(name, "localhost6"), below(name, "ip6-localhost"), below(name, "ip6-loopback"):
		if !containsAny(allow, netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !containsAny(allow, netip.IPv6Loopback()) {
			return &Refusal{"localhost is not a public host", "Name 127.0.0.0/8 under " + setting + " if it is meant."}
		}
	case belowAny(name, metadataNames):
		if !permits(allow, metadataAddress, ClassMetadata) {
			return &Refusal{name + " hands out the credentials of this machine", "If it is meant, name " + metadataAddress.String() + "/32 under " + setting + "."}
		}
	case inside:
	case !strings.Contains(name, "."):
		return &Refusal{fmt.Sprintf("%s is a name of some local network only", name), "Write the full name, or name its network under " + setting + "."}
	case belowAny(name, ownNames):
		return &Refusal{fmt.Sprintf("%s is not a public name", name), "Name its network under " + setting + " if it is meant."}
	}
	return nil
}

func below(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

func belowAny(name string, domains []string) bool {
	for _, d := range domains {
		if below(name, d) {
			return true
		}
	}
	return false
}

// Metadata says whether an address hands out the credentials of a machine in a cloud.
// Only a network that names it alone permits it.
func Metadata(ip netip.Addr) bool { return classOf(ip.Unmap()) == ClassMetadata }

// Public says whether an address is one that may be dialled without permission.
func Public(ip netip.Addr) bool { return classOf(ip.Unmap()) == classPermitted && ip.Zone() == "" }
