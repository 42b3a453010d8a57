package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"code.dny.dev/ssrf"
)

// addressForms pairs each form in which an address can arrive with the class it
// must fall into, "" being permitted.
var addressForms = []struct {
	addr string
	want Class
}{
	// This machine, in every spelling.
	{"127.0.0.1", ClassLoopback}, {"127.0.0.0", ClassLoopback}, {"127.1.2.3", ClassLoopback}, {"127.255.255.255", ClassLoopback},
	{"::1", ClassLoopback}, {"0:0:0:0:0:0:0:1", ClassLoopback}, {"0000:0000:0000:0000:0000:0000:0000:0001", ClassLoopback},
	{"::ffff:127.0.0.1", ClassLoopback}, {"::ffff:7f00:1", ClassLoopback}, {"::FFFF:127.0.0.1", ClassLoopback}, {"0:0:0:0:0:ffff:7f00:0001", ClassLoopback},
	{"0.0.0.0", ClassUnspecified}, {"0.0.0.1", ClassUnspecified}, {"0.1.2.3", ClassUnspecified}, {"0.255.255.255", ClassUnspecified},
	{"::", ClassUnspecified}, {"0:0:0:0:0:0:0:0", ClassUnspecified}, {"::ffff:0.0.0.0", ClassUnspecified}, {"::ffff:0:0", ClassUnspecified},
	// Private networks.
	{"10.0.0.0", ClassPrivate}, {"10.1.2.3", ClassPrivate}, {"10.255.255.255", ClassPrivate}, {"::ffff:10.0.0.1", ClassPrivate}, {"::ffff:a00:1", ClassPrivate},
	{"172.16.0.0", ClassPrivate}, {"172.20.1.1", ClassPrivate}, {"172.31.255.255", ClassPrivate}, {"::ffff:172.16.0.1", ClassPrivate},
	{"192.168.0.0", ClassPrivate}, {"192.168.1.1", ClassPrivate}, {"192.168.255.255", ClassPrivate}, {"::ffff:192.168.0.1", ClassPrivate}, {"::ffff:c0a8:101", ClassPrivate},
	{"100.64.0.0", ClassShared}, {"100.100.1.1", ClassShared}, {"100.127.255.255", ClassShared}, {"::ffff:100.64.0.1", ClassShared},
	{"fc00::", ClassUniqueLocal}, {"fc00::1", ClassUniqueLocal}, {"fd00::1", ClassUniqueLocal}, {"fd12:3456:789a::1", ClassUniqueLocal},
	{"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ClassUniqueLocal}, {"fec0::1", ClassUniqueLocal}, {"feff::1", ClassUniqueLocal},
	{"169.254.0.0", ClassLinkLocal}, {"169.254.1.1", ClassLinkLocal}, {"169.254.255.255", ClassLinkLocal}, {"::ffff:169.254.1.1", ClassLinkLocal},
	{"fe80::1", ClassLinkLocal}, {"fe80::ffff:ffff:ffff:ffff", ClassLinkLocal}, {"febf::1", ClassLinkLocal},
	// What hands out credentials.
	{"169.254.169.254", ClassMetadata}, {"::ffff:169.254.169.254", ClassMetadata}, {"::ffff:a9fe:a9fe", ClassMetadata}, {"169.254.169.255", ClassMetadata},
	{"169.254.170.2", ClassMetadata}, {"169.254.170.23", ClassMetadata}, {"169.254.0.23", ClassMetadata}, {"169.254.42.42", ClassMetadata},
	{"168.63.129.16", ClassMetadata}, {"::ffff:168.63.129.16", ClassMetadata}, {"100.100.100.200", ClassMetadata}, {"::ffff:100.100.100.200", ClassMetadata},
	{"192.0.0.192", ClassMetadata}, {"fd00:ec2::254", ClassMetadata}, {"fd00:ec2::23", ClassMetadata}, {"fd00:0ec2:0:0:0:0:0:254", ClassMetadata},
	{"fd20:ce::254", ClassMetadata}, {"fd00:c1::a9fe:a9fe", ClassMetadata}, {"fd00:a9fe:a9fe::1", ClassMetadata}, {"fd00:42::42", ClassMetadata},
	{"fe80::a9fe:a9fe", ClassMetadata}, {"64:ff9b::169.254.169.254", ClassMetadata}, {"64:ff9b:1::a9fe:a9fe", ClassMetadata},
	{"2002:a9fe:a9fe::1", ClassMetadata}, {"::169.254.169.254", ClassMetadata},
	// An IPv4 address in disguise.
	{"64:ff9b::", ClassNAT64}, {"64:ff9b::127.0.0.1", ClassNAT64}, {"64:ff9b::7f00:1", ClassNAT64}, {"64:ff9b::10.0.0.1", ClassNAT64}, {"64:ff9b::8.8.8.8", ClassNAT64},
	{"64:ff9b::ffff:ffff", ClassNAT64}, {"0064:ff9b:0:0:0:0:c0a8:1", ClassNAT64}, {"64:ff9b:1::", ClassNAT64}, {"64:ff9b:1::7f00:1", ClassNAT64},
	{"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", ClassNAT64}, {"64:ff9b:1:7f00:0:100::", ClassNAT64},
	{"2002::", Class6to4}, {"2002:7f00:1::", Class6to4}, {"2002:7f00:1::1", Class6to4}, {"2002:a00:1::", Class6to4}, {"2002:808:808::1", Class6to4},
	{"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Class6to4}, {"192.88.99.0", Class6to4}, {"192.88.99.1", Class6to4}, {"192.88.99.255", Class6to4},
	{"2001::", ClassTeredo}, {"2001::1", ClassTeredo}, {"2001:0:4136:e378:8000:63bf:3fff:fdd2", ClassTeredo}, {"2001:0:ffff:ffff:ffff:ffff:ffff:ffff", ClassTeredo},
	{"::2", ClassIPv4Compatible}, {"::127.0.0.1", ClassIPv4Compatible}, {"::7f00:1", ClassIPv4Compatible}, {"::10.0.0.1", ClassIPv4Compatible}, {"::8.8.8.8", ClassIPv4Compatible},
	{"::ffff:0:127.0.0.1", ClassNotGlobal}, {"::ffff:0:7f00:1", ClassNotGlobal}, {"::1:127.0.0.1", ClassNotGlobal},
	// Nobody's, or everybody's.
	{"224.0.0.0", ClassMulticast}, {"224.0.0.1", ClassMulticast}, {"239.255.255.255", ClassMulticast}, {"::ffff:224.0.0.1", ClassMulticast},
	{"255.255.255.255", ClassMulticast}, {"::ffff:255.255.255.255", ClassMulticast}, {"ff00::", ClassMulticast}, {"ff02::1", ClassMulticast}, {"ff05::1:3", ClassMulticast},
	{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ClassMulticast},
	{"240.0.0.0", ClassReserved}, {"240.0.0.1", ClassReserved}, {"254.255.255.255", ClassReserved}, {"255.255.255.254", ClassReserved}, {"::ffff:240.0.0.1", ClassReserved},
	{"192.0.2.0", ClassDocumentation}, {"192.0.2.1", ClassDocumentation}, {"192.0.2.255", ClassDocumentation}, {"198.51.100.1", ClassDocumentation},
	{"203.0.113.0", ClassDocumentation}, {"203.0.113.255", ClassDocumentation}, {"::ffff:203.0.113.7", ClassDocumentation},
	{"2001:db8::", ClassDocumentation}, {"2001:db8::1", ClassDocumentation}, {"2001:DB8:ffff::1", ClassDocumentation}, {"3fff::1", ClassDocumentation}, {"3fff:fff::1", ClassDocumentation},
	{"198.18.0.0", ClassBenchmark}, {"198.19.255.255", ClassBenchmark}, {"::ffff:198.18.0.1", ClassBenchmark}, {"2001:2::1", ClassBenchmark}, {"2001:2:0:ffff::1", ClassBenchmark},
	{"192.0.0.0", ClassProtocol}, {"192.0.0.1", ClassProtocol}, {"192.0.0.8", ClassProtocol}, {"192.0.0.170", ClassProtocol}, {"192.0.0.255", ClassProtocol},
	{"192.31.196.1", ClassProtocol}, {"192.52.193.1", ClassProtocol}, {"192.175.48.1", ClassProtocol}, {"::ffff:192.52.193.1", ClassProtocol},
	{"2001:1::1", ClassProtocol}, {"2001:3::1", ClassProtocol}, {"2001:4:112::1", ClassProtocol}, {"2001:10::1", ClassProtocol}, {"2001:20::1", ClassProtocol},
	{"2001:2f::1", ClassProtocol}, {"2001:30::1", ClassProtocol}, {"2001:1ff::1", ClassProtocol}, {"2620:4f:8000::1", ClassProtocol},
	{"100::", ClassProtocol}, {"100::1", ClassProtocol}, {"100:0:0:1::1", ClassProtocol}, {"5f00::1", ClassProtocol}, {"5f00:ffff::1", ClassProtocol},
	{"100:0:0:2::1", ClassNotGlobal}, {"200::1", ClassNotGlobal}, {"400::1", ClassNotGlobal}, {"1000::1", ClassNotGlobal}, {"1fff:ffff::1", ClassNotGlobal},
	{"4000::1", ClassNotGlobal}, {"8000::1", ClassNotGlobal}, {"c000::1", ClassNotGlobal}, {"f000::1", ClassNotGlobal}, {"fe00::1", ClassNotGlobal},
	{"64:ff9a::1", ClassNotGlobal}, {"64:ff9c::1", ClassNotGlobal}, {"64:ff9b:2::1", ClassNotGlobal}, {"64:ff9b::1:0:0", ClassNotGlobal},
	// Zones mean nothing off this machine.
	{"fe80::1%eth0", ClassZone}, {"fe80::a9fe:a9fe%1", ClassZone}, {"::1%lo", ClassZone}, {"2600::1%eth0", ClassZone}, {"64:ff9b::1%0", ClassZone},
	// The internet, close to the fences.
	{"1.1.1.1", ""}, {"8.8.8.8", ""}, {"9.255.255.255", ""}, {"11.0.0.0", ""}, {"100.63.255.255", ""}, {"100.128.0.0", ""}, {"126.255.255.255", ""}, {"128.0.0.0", ""},
	{"168.63.129.15", ""}, {"169.253.255.255", ""}, {"169.255.0.0", ""}, {"172.15.255.255", ""}, {"172.32.0.0", ""}, {"191.255.255.255", ""}, {"192.0.1.0", ""},
	{"192.0.3.0", ""}, {"192.167.255.255", ""}, {"192.169.0.0", ""}, {"198.17.255.255", ""}, {"198.20.0.0", ""}, {"198.51.99.255", ""}, {"203.0.114.0", ""},
	{"223.255.255.255", ""}, {"1.0.0.0", ""}, {"::ffff:8.8.8.8", ""}, {"::ffff:808:808", ""},
	{"2000::1", ""}, {"2001:200::1", ""}, {"2001:4860:4860::8888", ""}, {"2001:db7:ffff::1", ""}, {"2001:db9::1", ""}, {"2003::1", ""}, {"2600::1", ""},
	{"2606:4700:4700::1111", ""}, {"2620:4f:7fff::1", ""}, {"2620:4f:8001::1", ""}, {"2a00:1450::1", ""}, {"3ffe::1", ""}, {"3fff:1000::1", ""},
}

func TestGuardClassesEveryAddressForm(t *testing.T) {
	if len(addressForms) < 150 {
		t.Fatalf("only %d address forms", len(addressForms))
	}
	guard := NewGuard(GuardConfig{})
	for _, tt := range addressForms {
		addr := netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443)
		err := guard.Check(addr, nil)
		if got := classIn(t, err); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.addr, got, tt.want)
		}
	}
}

func classIn(t *testing.T, err error) Class {
	t.Helper()
	if err == nil {
		return classPermitted
	}
	var forbidden *Forbidden
	if !errors.As(err, &forbidden) {
		t.Fatalf("%v is no *Forbidden", err)
	}
	return forbidden.Class
}

func TestGuardRefusesBothEndsOfEveryRegistryPrefix(t *testing.T) {
	guard := NewGuard(GuardConfig{})
	all := append(append([]netip.Prefix{}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...)
	for _, r := range rules {
		all = append(all, r.prefixes...)
	}
	for _, p := range all {
		for _, addr := range []netip.Addr{p.Masked().Addr(), lastOf(p)} {
			if guard.Check(netip.AddrPortFrom(addr, 443), nil) == nil {
				t.Errorf("%s of %s is permitted", addr, p)
			}
			if addr.Is4() {
				mapped := netip.AddrFrom16(addr.As16())
				if guard.Check(netip.AddrPortFrom(mapped, 443), nil) == nil {
					t.Errorf("%s of %s is permitted", mapped, p)
				}
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

func TestGuardAllowList(t *testing.T) {
	tests := []struct {
		addr  string
		allow []string
		want  Class
	}{
		{"10.1.2.3:443", []string{"10.0.0.0/8"}, ""},
		{"[::ffff:10.1.2.3]:443", []string{"10.0.0.0/8"}, ""},
		{"10.1.2.3:443", []string{"::ffff:10.0.0.0/104"}, ClassPrivate}, // prefixes are IPv4 or IPv6, not one as the other
		{"10.1.2.3:443", []string{"10.1.2.4/32", "192.168.0.0/16"}, ClassPrivate},
		{"127.0.0.1:9911", []string{"127.0.0.0/8"}, ""},
		{"[::1]:9911", []string{"127.0.0.0/8"}, ClassLoopback},
		{"[::1]:9911", []string{"::1/128"}, ""},
		{"[fd12::1]:443", []string{"fd12::/16"}, ""},
		{"[fe80::1%eth0]:443", []string{"fe80::/10"}, ClassZone},
		{"10.1.2.3:0", []string{"10.0.0.0/8"}, ClassInvalid},
		{"8.8.8.8:443", []string{"10.0.0.0/8"}, ""}, // the list adds, it does not confine
		// Only a prefix that names it alone lets a metadata address in.
		{"169.254.169.254:80", []string{"169.254.0.0/16", "0.0.0.0/0"}, ClassMetadata},
		{"169.254.169.254:80", []string{"169.254.169.254/32"}, ""},
		{"[fd00:ec2::254]:80", []string{"fd00::/8"}, ClassMetadata},
		{"[fd00:ec2::254]:80", []string{"fd00:ec2::254/128"}, ""},
		// An allowed NAT64 prefix is judged by what it carries.
		{"[64:ff9b::8.8.8.8]:443", []string{"64:ff9b::/96"}, ""},
		{"[64:ff9b::10.0.0.1]:443", []string{"64:ff9b::/96"}, ClassPrivate},
		{"[64:ff9b::10.0.0.1]:443", []string{"64:ff9b::/96", "10.0.0.0/8"}, ""},
		{"[64:ff9b::127.0.0.1]:443", []string{"::/0"}, ClassLoopback},
		{"[64:ff9b::169.254.169.254]:443", []string{"64:ff9b::/96"}, ClassMetadata},
		{"[64:ff9b:1::10.0.0.1]:443", []string{"64:ff9b:1::/48"}, ClassPrivate},
	}
	guard := NewGuard(GuardConfig{})
	for _, tt := range tests {
		if got := classIn(t, guard.Check(netip.MustParseAddrPort(tt.addr), prefixes(tt.allow...))); got != tt.want {
			t.Errorf("%s with %v is %q, want %q", tt.addr, tt.allow, got, tt.want)
		}
	}
	if got := classIn(t, guard.Check(netip.AddrPort{}, prefixes("0.0.0.0/0", "::/0"))); got != ClassInvalid {
		t.Errorf("the zero address is %q", got)
	}
}

// The prefixes and addresses are the examples of RFC 6052, section 2.4, around
// 192.0.2.33.
func TestEmbeddedIPv4(t *testing.T) {
	tests := []struct {
		addr string
		bits int
	}{
		{"2001:db8:c000:221::", 32}, {"2001:db8:1c0:2:21::", 40}, {"2001:db8:122:c000:2:2100::", 48},
		{"2001:db8:122:3c0:0:221::", 56}, {"2001:db8:122:344:c0:2:2100::", 64}, {"2001:db8:122:344::192.0.2.33", 96},
	}
	for _, tt := range tests {
		got, ok := embedded(netip.MustParseAddr(tt.addr), tt.bits)
		if want := netip.MustParseAddr("192.0.2.33"); !ok || got != want {
			t.Errorf("%s/%d carries %s, want %s", tt.addr, tt.bits, got, want)
		}
	}
}

func TestGuardJudgesTheNetworksNAT64ByWhatItCarries(t *testing.T) {
	guard := NewGuard(GuardConfig{NAT64: prefixes("64:ff9b::/96", "2a00:1450:aaaa::/48", "2a00:1450:bbbb::/47")})
	tests := []struct {
		addr string
		want Class
	}{
		{"64:ff9b::8.8.8.8", ""},
		{"64:ff9b::127.0.0.1", ClassLoopback},
		{"64:ff9b::169.254.169.254", ClassMetadata},
		{"2a00:1450:aaaa:808:8:800::", ""},
		{"2a00:1450:aaaa:a00:0:100::", ClassPrivate},
		{"2a00:1450:bbba::1", ClassInvalid}, // no translation prefix has 47 bits
		{"2600::1", ""},
	}
	for _, tt := range tests {
		if got := classIn(t, guard.Check(netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443), nil)); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.addr, got, tt.want)
		}
	}
}

func TestGuardNeverPermitsOwnAddresses(t *testing.T) {
	guard := NewGuard(GuardConfig{Own: []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:5432"), netip.MustParseAddrPort("[::]:8080"), netip.MustParseAddrPort("[::ffff:10.9.9.9]:7000"),
	}})
	guard.local = func() []netip.Addr { return append(interfaceAddrs(), netip.MustParseAddr("10.1.1.1")) } // it came later
	guard.RefuseOwn(netip.MustParseAddrPort("8.8.8.8:9000"))
	tests := []struct {
		addr string
		want Class
	}{
		{"127.0.0.1:5432", ClassOwn}, {"127.0.0.2:5432", ClassOwn}, {"[::1]:5432", ClassOwn}, {"0.0.0.0:5432", ClassOwn}, {"[::]:5432", ClassOwn},
		{"[::ffff:127.0.0.1]:5432", ClassOwn}, {"127.0.0.1:5433", ""}, {"10.1.1.1:5432", ""},
		{"127.0.0.1:8080", ClassOwn}, {"10.1.1.1:8080", ClassOwn}, {"[::ffff:10.1.1.1]:8080", ClassOwn}, {"10.2.2.2:8080", ""},
		{"10.9.9.9:7000", ClassOwn}, {"10.9.9.9:7001", ""}, {"8.8.8.8:9000", ClassOwn}, {"8.8.8.8:443", ""},
		{"[64:ff9b::127.0.0.1]:5432", ClassOwn},
	}
	everything := prefixes("0.0.0.0/0", "::/0", "127.0.0.1/32")
	for _, tt := range tests {
		if got := classIn(t, guard.Check(netip.MustParseAddrPort(tt.addr), everything)); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.addr, got, tt.want)
		}
	}
}

func TestForbiddenNamesAddressClassAndRemedy(t *testing.T) {
	err := NewGuard(GuardConfig{}).Check(netip.MustParseAddrPort("[::ffff:10.1.2.3]:443"), nil)
	for _, part := range []string{"10.1.2.3:443", "private", "egress.allow: [10.1.2.3/32]"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestControlChecksTheDialledAddress(t *testing.T) {
	l := listen(t)
	guard := NewGuard(GuardConfig{})
	for _, allow := range [][]netip.Prefix{nil, prefixes("127.0.0.1/32")} {
		dialer := net.Dialer{ControlContext: guard.Control(allow)}
		conn, err := dialer.DialContext(context.Background(), "tcp", l.Addr().String())
		if conn != nil {
			conn.Close()
		}
		var forbidden *Forbidden
		if permitted := len(allow) > 0; permitted != (err == nil) || (!permitted && !errors.As(err, &forbidden)) {
			t.Errorf("with %v: %v", allow, err)
		}
	}
	if err := guard.Control(nil)(context.Background(), "tcp", "localhost:80", nil); err == nil {
		t.Error("a name passed for an address")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// names is a resolver that knows exactly these.
type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addrs, ok := n[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func TestDialerRefusesAHostWithAnyForbiddenAddress(t *testing.T) {
	l := listen(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	loopback, private := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.1")
	dialer := NewDialer(NewGuard(GuardConfig{}), names{"good": {loopback}, "mixed": {loopback, private}, "empty": {}})
	allow := prefixes("127.0.0.0/8")
	ctx := context.Background()

	conn, err := dialer.Dial(ctx, "tcp", "good:"+port, allow)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	var forbidden *Forbidden
	if _, err = dialer.Dial(ctx, "tcp", "mixed:"+port, allow); !errors.As(err, &forbidden) || forbidden.Addr.Addr() != private {
		t.Errorf("a mixed host gave %v", err)
	}
	for _, address := range []string{"empty:80", "unknown:80", "good:http", "good", "good:99999"} {
		if conn, err := dialer.Dial(ctx, "tcp", address, allow); err == nil {
			conn.Close()
			t.Errorf("%s was dialled", address)
		}
	}
}

// Whatever the form of an address, adding the disguise of an IPv4-mapped address
// changes nothing, and what is permitted lies in no registry.
func FuzzGuard(f *testing.F) {
	for _, tt := range addressForms {
		addr := netip.MustParseAddr(tt.addr).As16()
		f.Add(addr[:])
	}
	guard := NewGuard(GuardConfig{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		err := guard.Check(netip.AddrPortFrom(addr, 443), nil)
		if err == nil && registries.SafeAddr(addr.Unmap()) != nil {
			t.Errorf("%s is permitted against the registries", addr)
		}
		again := guard.Check(netip.AddrPortFrom(addr.Unmap(), 443), nil)
		if (err == nil) != (again == nil) {
			t.Errorf("%s and %s differ", addr, addr.Unmap())
		}
	})
}
