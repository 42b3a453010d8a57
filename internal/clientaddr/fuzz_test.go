package clientaddr

import (
	"net/netip"
	"testing"
)

// FuzzForwarded: nobody but a named proxy is believed, and what stands before the
// address that the last of them saw changes nothing.
func FuzzForwarded(f *testing.F) {
	for _, text := range []string{"", "203.0.113.9", "10.0.0.1, 203.0.113.9", "::ffff:10.0.0.1", "[2001:db8::1]:443", "fe80::1%eth0", "unknown, _hidden", "10.0.0.1,,10.0.0.2", "\x00", "0x7f.1", "127.0.0.1:99999", "203.0.113.9, 10.0.0.7, 10.0.0.8"} {
		f.Add(text, "198.51.100.7")
	}
	inside := proxies("10.0.0.0/8", "fd00::/8")
	stranger, proxy := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, written, saw string) {
		if got := inside.client(stranger, []string{written}); got != stranger {
			t.Fatalf("a stranger who writes %q is taken for %s", written, got)
		}
		if got := inside.client(proxy, []string{written}); !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q is the address %s", written, got)
		}
		client := parse(saw)
		if !client.IsValid() || inside.contain(client) {
			return
		}
		for _, lines := range [][]string{{written + "," + client.String()}, {written, client.String()}, {written + ", " + client.String() + " , 10.0.0.2"}} {
			if got := inside.client(proxy, lines); got != client {
				t.Fatalf("%q is the address %s, the proxy saw %s", lines, got, client)
			}
		}
	})
}
