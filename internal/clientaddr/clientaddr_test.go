package clientaddr

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func proxies(networks ...string) Proxies {
	var p Proxies
	for _, text := range networks {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

// seen is the address that a handler behind the proxies sees.
func seen(p Proxies, peer string, forwarded ...string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Header[header] = peer, forwarded
	var got string
	p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = Of(r) })).ServeHTTP(nil, r)
	return got
}

// TestOnlyNamedProxiesAreBelieved: a stranger is who the connection says, whatever
// they write; and behind a proxy who it says, not what its client wrote before.
func TestOnlyNamedProxiesAreBelieved(t *testing.T) {
	p := proxies("10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1/32")
	for _, tt := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"203.0.113.9:5", nil, "203.0.113.9"},
		{"203.0.113.9:5", []string{"127.0.0.1"}, "203.0.113.9"}, // no proxy of ours
		{"10.1.2.3:5", nil, "10.1.2.3"},
		{"10.1.2.3:5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.1.2.3:5", []string{"198.51.100.7, 203.0.113.9"}, "203.0.113.9"}, // the client wrote the first
		{"10.1.2.3:5", []string{"10.9.9.9, 203.0.113.9, 10.4.4.4"}, "203.0.113.9"},
		{"10.1.2.3:5", []string{"127.0.0.1", "203.0.113.9,10.4.4.4", "10.5.5.5"}, "203.0.113.9"}, // lines in their order
		{"10.1.2.3:5", []string{"10.9.9.9, 10.4.4.4"}, "10.9.9.9"},                               // all of them ours
		{"10.1.2.3:5", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"[::ffff:10.1.2.3]:5", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"[2001:db8:1::1]:5", []string{"[2001:db8:7::1]:443"}, "2001:db8:7::1"},
		{"[2001:db8:1::1]:5", []string{"[2001:db8:7::1]"}, "2001:db8:7::1"},
		{"[2001:db8:1::1]:5", []string{"fe80::1%eth0"}, "fe80::1"},
		{"10.1.2.3:5", []string{""}, "10.1.2.3"},
		{"10.1.2.3:5", []string{"203.0.113.9, unknown"}, "10.1.2.3"},
		{"10.1.2.3:5", []string{"203.0.113.9, "}, "10.1.2.3"},
		{"10.1.2.3:5", []string{"010.0.0.1"}, "10.1.2.3"},
		{"10.1.2.3:5", []string{"203.0.113.9\n"}, "203.0.113.9"},
		{"10.1.2.3:5", []string{"<script>"}, "10.1.2.3"},
		{"@", []string{"203.0.113.9"}, "@"}, // a socket without addresses
	} {
		if got := seen(p, tt.peer, tt.forwarded...); got != tt.want {
			t.Errorf("%s, forwarded for %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
	if got := seen(nil, "127.0.0.1:5", "203.0.113.9"); got != "127.0.0.1" {
		t.Errorf("without any proxy: %s", got)
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::9": "2001:db8::/64",
		"fe80::1%eth0": "fe80::/64", "": "", "nowhere": "nowhere",
	} {
		if got := Network(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// FuzzClient: whatever stands in the header, the client is the connection's peer or
// an address that stands in it, and it is no proxy of ours unless all are.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{"", "203.0.113.9", "10.0.0.1, 203.0.113.9, 10.2.2.2", "[::1]:80,unknown", "a,,b", ",", "::ffff:10.1.1.1"} {
		f.Add(seed)
	}
	p, peer := proxies("10.0.0.0/8"), netip.MustParseAddr("10.1.2.3")
	f.Fuzz(func(t *testing.T, line string) {
		client := p.client(peer, []string{line})
		if !client.IsValid() || client.Is4In6() || client.Zone() != "" {
			t.Fatalf("%q gives %v", line, client)
		}
		parts := strings.Split(line, ",")
		if last := parse(strings.TrimSpace(parts[len(parts)-1])); last.IsValid() && !p.contain(last) && client != last {
			t.Fatalf("%q: the proxy says %v, believed was %v", line, last, client)
		}
	})
}
