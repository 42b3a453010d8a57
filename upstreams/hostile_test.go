package upstreams

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"executor/internal/testkit/hostile"
)

// TestNoProfileNamesAHostileTarget: wherever a profile takes a URL, those are
// refused that show what they are.
func TestNoProfileNamesAHostileTarget(t *testing.T) {
	for _, target := range hostile.Targets(t) {
		if target.IsName() {
			continue
		}
		raw := strings.Replace(target.URL, "http:", "https:", 1) // plain http is refused for itself
		quoted := "'" + strings.ReplaceAll(raw, "'", "''") + "'"
		for member, text := range map[string]string{
			"base_url": "base_url: " + quoted,
			"token_url": "base_url: https://api.example\nauth: {type: oauth2_client_credentials, client_id: me, client_secret: env:EXECUTOR_SECRET_A, token_url: " +
				quoted + "}",
			"egress.proxy": "base_url: https://api.example\negress: {proxy: " + quoted + "}",
		} {
			_, err := Parse("test.yaml", fmt.Appendf(nil, "version: 1\nupstream: up\n%s\noperations: {pay: {method: POST, path: /pay}}\n", text))
			if err == nil {
				t.Errorf("%s may be %s", member, target)
			}
		}
	}
}

// TestNoLinkLeadsToAHostileTarget: links of answers stay on the origin, whatever
// is written there.
func TestNoLinkLeadsToAHostileTarget(t *testing.T) {
	p := &Profile{Base: &url.URL{Scheme: "http", Host: "api.example"}, Egress: Egress{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	followed := 0
	for _, target := range hostile.Targets(t) {
		raw := target.Through("http", "link")
		link, err := p.link("/payments/1", raw)
		if err != nil {
			continue
		}
		followed++
		wire, err := url.ParseRequestURI(link)
		if err != nil || wire.Host != "" || wire.Scheme != "" || strings.HasPrefix(link, "//") || strings.ContainsAny(link, "\\# \r\n") {
			t.Errorf("%s: the link %q leads elsewhere (%v)", target, link, err)
		}
	}
	if followed > 20 {
		t.Errorf("%d links of hostile targets pass for paths of the upstream", followed)
	}
}

// TestPortsOfAProfile are those of HTTP, unless it names others.
func TestPortsOfAProfile(t *testing.T) {
	for text, good := range map[string]bool{
		"base_url: https://api.example:8443":                                                    true,
		"base_url: https://api.example:9200":                                                    false,
		"base_url: https://api.example:9200\negress: {ports: [9200]}":                           true,
		"base_url: https://api.example:22\negress: {ports: [9200, 22]}":                         true,
		"base_url: https://api.example:5432\negress: {ports: [9200]}":                           false,
		"base_url: https://api.example\negress: {proxy: 'https://8.8.8.8:6379'}":                false,
		"base_url: https://api.example\negress: {ports: [0]}":                                   false,
		"base_url: https://api.example\negress: {ports: [65536]}":                               false,
		"base_url: https://api.example\negress: {ports: ['80']}":                                false,
		"base_url: https://api.example\negress: {ports: [6379], proxy: 'https://8.8.8.8:6379'}": true,
	} {
		source := []byte("version: 1\nupstream: up\n" + text + "\noperations: {pay: {method: POST, path: /p}}\n")
		if _, err := Parse("test.yaml", source); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	// What was accepted once is still read: commands are pinned to it.
	stored := []byte("version: 1\nupstream: up\nbase_url: https://search.internal:9200\noperations: {pay: {method: POST, path: /p}}\n")
	if _, err := Parse("test.yaml", stored); err == nil {
		t.Error("accepted anew")
	}
	if _, err := parseStored("test.yaml", stored); err != nil {
		t.Errorf("stored: %v", err)
	}
}
