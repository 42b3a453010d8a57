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
